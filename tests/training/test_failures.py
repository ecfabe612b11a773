"""What stops a run: one line that says what happened, and the last good checkpoint intact."""

import dataclasses

import pytest

from prism_lm.artifacts.errors import UserError
from prism_lm.corpus.config import PrepareConfig
from prism_lm.training import RECIPES, TrainingConfig, train

from .test_resume import assert_same_weights, lines, undisturbed  # noqa: F401 - a fixture


def names(config):
    return sorted(path.name for path in (config.out / "checkpoints").iterdir() if path.name != "LATEST")


def test_a_full_disk_at_a_checkpoint(configure, launcher, undisturbed):  # noqa: F811
    config = configure()
    stopped = launcher.run(config, status=2, fault="full_disk_at_checkpoint", checkpoint=3)
    assert "UserError: the disk is full" in stopped.output()
    assert names(config) == ["step-000004", "step-000008"]
    launcher.run(config, resume=True)
    assert_same_weights(undisturbed, config)


def test_a_full_disk_on_the_main_process_stops_all(configure, launcher):
    config = configure(runtime={"sharding": "full"})
    stopped = launcher.run(config, processes=2, status=2, fault="full_disk_at_checkpoint", checkpoint=2)
    assert "the disk is full" in stopped.output(0)
    assert "the main process stopped" in stopped.output(1)
    assert names(config) == ["step-000004"]
    launcher.run(config, processes=2, resume=True)


def test_a_full_disk_at_a_line_of_metrics(configure, launcher, undisturbed):  # noqa: F811
    config = configure()
    stopped = launcher.run(config, status=2, fault="full_disk_at_line", line=4)
    assert "UserError: the disk is full" in stopped.output()
    launcher.run(config, resume=True)
    assert lines(undisturbed) == lines(config)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_loss_that_is_no_number_names_step_and_checkpoint(configure, launcher, processes):
    config = configure()
    stopped = launcher.run(config, status=2, processes=processes, fault="poison_weights", step=10)
    for rank in range(processes):
        assert "UserError: the loss is nan at step 11, so training stopped" in stopped.output(rank)
        assert "the last good checkpoint is" in stopped.output(rank)
        assert "step-000008" in stopped.output(rank)
    assert names(config) == ["step-000004", "step-000008"]


def test_a_loss_that_is_no_number_at_once(configure, launcher):
    stopped = launcher.run(configure(), status=2, fault="poison_weights", step=0)
    assert "at step 1, so training stopped; there is no checkpoint yet" in stopped.output()


def test_a_missing_shard_is_named_and_nothing_is_made(configure, tmp_path):
    from prism_lm.corpus.prepare import prepare

    (tmp_path / "a.txt").write_text("one two three " * 200)
    corpus = prepare(PrepareConfig(sources=(str(tmp_path / "a.txt"),), out=tmp_path / "c", vocab_size=280))
    next(corpus.path.glob("tokens-*")).unlink()
    config = dataclasses.replace(configure(), corpus=corpus.path)
    with pytest.raises(UserError, match=r"tokens-0+\.bin is missing"):
        train(config)
    assert not config.out.exists()


def test_a_damaged_checkpoint_is_not_trained_on(configure, launcher):
    config = configure()
    launcher.run(config, status=130, fault="stop_signal", step=5, number=15)
    damaged = config.out / "checkpoints/step-000006/exp_avg.safetensors"
    raw = bytearray(damaged.read_bytes())
    raw[-3] ^= 1
    damaged.write_bytes(raw)
    with pytest.raises(UserError, match=r"exp_avg.safetensors are not what was written"):
        train(config, resume=True)


@pytest.fixture
def begun(configure, launcher):
    """A run that was stopped at step 6."""
    config = configure()
    launcher.run(config, status=130, fault="stop_signal", step=5, number=15)
    return config


def test_a_second_run_into_a_begun_one_is_refused(begun):
    with pytest.raises(UserError, match="holds an unfinished run; add --resume"):
        train(begun)


def test_resume_with_other_settings_is_refused_and_names_them(begun):
    recipe = dataclasses.replace(
        begun.recipe, optimiser=dataclasses.replace(begun.recipe.optimiser, learning_rate=0.5)
    )
    with pytest.raises(UserError, match=r"other settings \(recipe.optimiser.learning_rate: 0.01, not 0.5\)"):
        train(dataclasses.replace(begun, recipe=recipe), resume=True)
    with pytest.raises(UserError, match=r"other settings \(dense: False, not True\)"):
        train(dataclasses.replace(begun, dense=True), resume=True)


def test_resume_with_another_corpus_is_refused(begun, corpora):
    with pytest.raises(UserError, match=r"other settings \(corpus: [0-9a-f]+, not [0-9a-f]+; held_out: "):
        train(dataclasses.replace(begun, corpus=corpora[1], held_out=corpora[0]), resume=True)


def test_resume_where_nothing_was_begun_is_refused_and_makes_nothing(configure):
    config = configure("nothing")
    with pytest.raises(UserError, match=r"training.json is not there; expected a run that was begun"):
        train(config, resume=True)
    assert not config.out.exists()


def test_a_folder_with_something_else_is_refused(configure):
    config = configure()
    config.out.mkdir()
    (config.out / "precious.txt").write_text("mine")
    with pytest.raises(UserError, match="exists and is not a run"):
        train(config)
    assert (config.out / "precious.txt").read_text() == "mine"


def test_metrics_that_were_cut_are_not_continued(begun):
    path = begun.out / "metrics.jsonl"
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(UserError, match="it was cut or replaced"):
        train(begun, resume=True)


def test_two_writers_at_once_are_refused(begun):
    from prism_lm.training.folder import locked

    with locked(begun.out), pytest.raises(UserError, match="another process is writing"):
        train(begun, resume=True)


def test_the_corpus_itself_is_not_held_out(configure):
    config = configure()
    with pytest.raises(UserError, match="nothing in it is held out"):
        train(dataclasses.replace(config, held_out=config.corpus))
    assert not config.out.exists()


def test_held_out_text_with_another_tokenizer_is_refused(configure, tmp_path):
    from prism_lm.corpus.prepare import prepare

    (tmp_path / "a.txt").write_text("one two three four five six " * 200)
    other = prepare(PrepareConfig(sources=(str(tmp_path / "a.txt"),), out=tmp_path / "c", vocab_size=280))
    with pytest.raises(UserError, match=r"made with another tokenizer .* held-out text with --tokenizer"):
        train(dataclasses.replace(configure(), held_out=other.path))


def test_a_gpu_that_is_not_there(configure):
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(UserError, match="torch sees no GPU here"):
        train(configure(runtime={"device": "cuda"}))


def test_recipes_are_configurations_for_any_corpus(tmp_path):
    for make in RECIPES.values():
        TrainingConfig(recipe=make(), corpus=tmp_path, out=tmp_path)
