"""What a run leaves behind: a Hugging Face folder, metrics that say what they are, a record that replays."""

import dataclasses

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from prism_lm.artifacts.errors import UserError
from prism_lm.artifacts.run import open_run
from prism_lm.corpus import Corpus, SequenceOrder, Sequences
from prism_lm.model import PrismForCausalLM
from prism_lm.training import TrainingConfig, load_config, read_metrics, train
from prism_lm.training.monitors import ORDER_SEED

from .conftest import tiny_recipe

HELD_OUT = {
    "loss", "loss_without_residual", "R1", "R1_larger_sets", "R1_whole_set", "R2", "anisotropy",
    "variance_unexplained_centred", "prototypes_used",
}  # fmt: skip


@pytest.fixture(scope="module")
def twins(corpora, tmp_path_factory):
    """A prototype model and its dense twin, trained in this process."""
    folder = tmp_path_factory.mktemp("twins")
    made = {}
    for name in ("prism", "dense"):
        made[name] = TrainingConfig(
            recipe=tiny_recipe(data={"steps": 40}, monitoring={"checkpoint_every": 0}),
            corpus=corpora[0],
            held_out=corpora[1],
            out=folder / name,
            dense=name == "dense",
        )
        assert train(made[name]) == made[name].out
    return made


def test_the_folder_is_an_ordinary_hugging_face_model(twins):
    model = AutoModelForCausalLM.from_pretrained(twins["prism"].out)
    assert isinstance(model, PrismForCausalLM)
    dense = AutoModelForCausalLM.from_pretrained(twins["dense"].out)
    assert type(dense).__name__ == "GPT2LMHeadModel"
    tokenizer = AutoTokenizer.from_pretrained(twins["prism"].out)
    prompt = tokenizer("ant bee", return_tensors="pt")
    for one in (model, dense):
        written = one.generate(**prompt, max_new_tokens=5, do_sample=False)
        assert written.shape[1] == prompt.input_ids.shape[1] + 5
    assert model.generation_config.pad_token_id == 0


def test_the_weights_on_disk_give_the_held_out_loss_that_was_reported(twins):
    for config in twins.values():
        model = AutoModelForCausalLM.from_pretrained(config.out).eval()
        corpus = Corpus.open(config.held_out)
        length = config.recipe.data.sequence_length
        count = config.recipe.monitoring.held_out_tokens // length
        total = predicted = 0
        sequences = Sequences(corpus, length)
        for i in SequenceOrder(len(sequences), ORDER_SEED).at(0, count).tolist():
            ids = torch.from_numpy(sequences[i])[None]
            with torch.no_grad():
                total += model(ids, labels=ids).loss.item() * (ids.shape[1] - 1)
            predicted += ids.shape[1] - 1
        reported = open_run(config.out).manifest.figures["loss"]["value"]
        assert reported == pytest.approx(total / predicted, rel=1e-5)


def test_both_learn_and_the_twin_sees_the_same_first_batches(twins):
    first, last = {}, {}
    for name, config in twins.items():
        lines = [
            line["figures"]["loss"]["value"] for line in read_metrics(config.out) if line["event"] == "train"
        ]
        first[name], last[name] = lines[0], lines[-1]
    assert first["prism"] == first["dense"]  # before the bank is set nothing differs
    assert last["prism"] < first["prism"] - 0.5
    assert last["dense"] < first["dense"] - 0.5


def test_every_figure_says_unit_and_set(twins):
    lines = read_metrics(twins["prism"].out)
    assert [line["step"] for line in lines if line["event"] == "held_out"] == [8, 16, 24, 32, 40]
    for line in lines:
        for name, figure in line["figures"].items():
            assert isinstance(figure["value"], float | int), name
            assert figure["unit"], name
            assert figure["set"], name
    train_line = [line for line in lines if line["event"] == "train"][-1]["figures"]
    assert "mean over single micro-batches of 2 sequences on one process" in train_line["R1"]["set"]
    assert "training steps 38 to 39" not in train_line["loss"]["set"]
    assert train_line["loss"]["set"].endswith("of training step 40")
    held_out = lines[-1]["figures"]
    assert set(held_out) >= HELD_OUT
    assert "384 tokens, 12 shuffled sequences of 32" in held_out["loss"]["set"]


def test_before_the_bank_is_set_there_are_no_coverage_figures(twins):
    for line in read_metrics(twins["prism"].out):
        assert ("R1" in line["figures"]) == (line["step"] > 10)
    for line in read_metrics(twins["dense"].out):
        assert "R1" not in line["figures"]
        assert "clustering_factor" not in line["figures"]


def test_losses_are_means_over_tokens(twins):
    lines = [line for line in read_metrics(twins["prism"].out) if line["event"] == "train"]
    predicted = sum(int(line["figures"]["loss"]["set"].split()[0]) for line in lines)
    assert predicted == lines[-1]["tokens"] - 40 * 4


def test_the_manifest_names_corpus_command_and_figures(twins, corpora):
    run = open_run(twins["prism"].out)
    assert run.corpus_hash == Corpus.open(corpora[0]).hash
    assert run.manifest.sources["held_out"] == Corpus.open(corpora[1]).hash
    assert not run.is_dense
    assert open_run(twins["dense"].out).is_dense
    assert set(run.manifest.figures) >= HELD_OUT
    assert "model.safetensors" in run.manifest.files
    assert not any(name.startswith("checkpoints") for name in run.manifest.files)


def test_the_record_replays_to_the_same_weights(twins, tmp_path):
    config = load_config(twins["prism"].out)
    assert config == twins["prism"]
    again = train(dataclasses.replace(config, out=tmp_path / "again"))
    one, other = (load_file(run / "model.safetensors") for run in (config.out, again))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_clustering_does_what_it_is_for(twins):
    lines = [line["figures"] for line in read_metrics(twins["prism"].out) if "R1" in line["figures"]]
    last = {name: figure["value"] for name, figure in lines[-1].items()}
    assert last["reconstruction"] < 0.05
    assert last["R1"] > 0.9
    assert last["R2"] > 0.95


def test_a_run_that_has_not_finished_is_not_opened(configure, launcher):
    config = configure()
    launcher.run(config, status=130, fault="stop_signal", step=5, number=15)
    with pytest.raises(UserError, match="has not finished; go on with its prism train command and --resume"):
        open_run(config.out)


def test_a_run_without_held_out_text(configure):
    config = configure(held_out=False, data={"steps": 3})
    train(config)
    assert {line["event"] for line in read_metrics(config.out)} == {"train"}
    assert open_run(config.out).manifest.figures == {}


def test_a_bank_from_the_first_step(configure):
    config = configure(bank={"seed_at": 0.0, "ramp": 0.0}, data={"steps": 3})
    train(config)
    line = read_metrics(config.out)[0]["figures"]
    assert line["clustering_factor"]["value"] == 1
    assert "R1" in line


def test_threads_and_determinism_are_put_back(configure):
    before = torch.get_num_threads()
    train(
        configure(held_out=False, data={"steps": 1}, runtime={"threads": before + 1, "deterministic": True})
    )
    assert torch.get_num_threads() == before
    assert not torch.are_deterministic_algorithms_enabled()


def test_clipping_bounds_the_step_and_reports_the_norm_before_it(configure):
    from prism_lm.training.build import build_model
    from prism_lm.training.objective import TrainingModule
    from prism_lm.training.optimiser import Optimiser

    recipe = tiny_recipe(optimiser={"clip": 0.5})
    module = TrainingModule(build_model(recipe, vocab_size=50, separator_id=0, dense=False))
    optimiser = Optimiser(module, recipe.optimiser, steps=10, bank_multiplier=5)
    for parameter in module.parameters():
        parameter.grad = torch.full_like(parameter, 2.0)
    backbone = sum(p.numel() for p in module.parameters()) - module.bank.numel()
    norm, bank_norm = optimiser.advance(5)
    assert norm.item() == pytest.approx(2 * backbone**0.5, rel=1e-4)
    assert bank_norm.item() == pytest.approx(2 * module.bank.numel() ** 0.5, rel=1e-4)
    moments = optimiser.adamw.state[module.bank]["exp_avg"] / (1 - recipe.optimiser.beta1)
    assert moments.norm().item() == pytest.approx(0.5, rel=1e-3)
    rates = {group["multiplier"]: group["lr"] for group in optimiser.adamw.param_groups}
    assert rates[5] == pytest.approx(5 * rates[1.0])
    decays = [group["weight_decay"] for group in optimiser.adamw.param_groups]
    assert decays == [recipe.optimiser.weight_decay, 0.0, 0.0]


def test_the_progress_bar_shows_loss_and_coverage(configure):
    class Recorder:
        def __init__(self):
            self.started, self.done, self.figures, self.finished = None, 0, {}, 0

        def start(self, description, total, unit):
            self.started = (description, total, unit)

        def advance(self, amount=1, **figures):
            self.done += amount
            self.figures |= figures

        def finish(self):
            self.finished += 1

    recorder = Recorder()
    train(configure(), recorder)
    assert recorder.started == ("training the prototype model", 16 * 4 * 32, "tokens")
    assert recorder.done == 16 * 4 * 32
    assert set(recorder.figures) == {"loss", "R1", "R2", "held-out"}
    assert recorder.finished == 1
