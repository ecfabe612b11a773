import json
import subprocess
import sys

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, CohereConfig, Gemma2Config, PhiConfig

from prism_lm.model import Control, PrismConfig, PrismForCausalLM

from .tiny import backbones, tiny_model, tokens

every_backbone = pytest.mark.parametrize("backbone", list(backbones()))


@every_backbone
@torch.no_grad()
def test_logits_are_the_dense_models_bit_for_bit_and_the_slices_add_up(backbone):
    model = tiny_model(backbone)
    ids = tokens(3, 9)
    output = model(ids, output_prototypes=True)
    assert torch.equal(output.logits, model.dense()(ids).logits)
    assert torch.equal(output.logits, model(ids).logits)
    flat = [output[name].flatten(0, 1) for name in ("final_states", "active_ids", "activations")]
    every_token = torch.arange(64).expand(27, 64)
    slices = model.slices(*flat, every_token, centred=False)
    torch.testing.assert_close(slices.logits.float(), output.logits.flatten(0, 1), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(
        slices.prototypes.sum(dim=1) + slices.residual, slices.logits, rtol=0, atol=1e-10
    )
    centred = model.slices(*flat, every_token)
    torch.testing.assert_close(centred.logits.mean(dim=-1), torch.zeros(27, dtype=torch.float64))
    torch.testing.assert_close(
        centred.prototypes.sum(dim=1) + centred.residual, centred.logits, rtol=0, atol=1e-10
    )
    torch.testing.assert_close(
        centred.logits, slices.logits - slices.logits.mean(dim=-1, keepdim=True), rtol=1e-8, atol=1e-9
    )


@every_backbone
@torch.no_grad()
def test_the_decomposition_against_a_loop(backbone):
    model = tiny_model(backbone)
    output = model(tokens(2, 5), output_prototypes=True)
    bank = model.bank.weight
    for b in range(2):
        for t in range(5):
            z = output.final_states[b, t]
            cosines = torch.stack([z @ p / (z.norm() * p.norm()) for p in bank])
            best = cosines.argsort(descending=True)[:4]
            assert output.active_ids[b, t].tolist() == best.tolist()
            torch.testing.assert_close(output.cosines[b, t], cosines[best])
            residual = z - sum(max(float(cosines[i]), 0.0) * bank[i] for i in best)
            torch.testing.assert_close(output.residual_norm[b, t], residual.norm())


@every_backbone
def test_save_and_load_through_the_auto_class(backbone, tmp_path):
    model = tiny_model(backbone)
    model.save_pretrained(tmp_path)
    again, info = AutoModelForCausalLM.from_pretrained(tmp_path, output_loading_info=True)
    assert isinstance(again, PrismForCausalLM)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    tied = model.config.tie_word_embeddings
    assert tied is ("untied" not in backbone)
    assert (again.lm_head.weight is again.get_input_embeddings().weight) is tied
    for name, tensor in model.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor), name
    assert torch.equal(again.eval()(tokens(2, 5)).logits, model(tokens(2, 5)).logits)
    assert AutoConfig.from_pretrained(tmp_path).num_prototypes == 16


@every_backbone
def test_a_dense_checkpoint_loads_with_only_the_bank_missing(backbone, tmp_path):
    dense = tiny_model(backbone).dense()
    dense.save_pretrained(tmp_path)
    config = PrismConfig(text_config=backbones()[backbone], num_prototypes=7, active_prototypes=3)
    model, info = PrismForCausalLM.from_pretrained(tmp_path, config=config, output_loading_info=True)
    assert info["missing_keys"] == {"bank.weight"}
    assert model.bank.weight.shape == (7, 32)
    assert model.bank.weight.std() > 0
    ids = tokens(2, 6)
    assert torch.equal(model.eval()(ids).logits, dense(ids).logits)
    shared = PrismForCausalLM.from_dense(str(tmp_path), num_prototypes=7, active_prototypes=3)
    assert torch.equal(shared(ids).logits, dense(ids).logits)


def test_a_checkpoint_that_lacks_weights_is_refused(tmp_path):
    from safetensors.torch import load_file, save_file

    tiny_model("llama-untied").dense().save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    del weights["model.norm.weight"]
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ValueError, match=r"model\.norm\.weight"):
        PrismForCausalLM.from_dense(str(tmp_path), num_prototypes=7, active_prototypes=3)


@every_backbone
def test_generation_with_and_without_cache_and_left_padded(backbone):
    model = tiny_model(backbone)
    ids = tokens(2, 6)
    control = Control.of(dict.fromkeys(range(0, 16, 2), 0.0))
    options = {"max_new_tokens": 8, "do_sample": False, "control": control}
    cached = model.generate(ids, **options)
    assert cached.tolist() == model.generate(ids, use_cache=False, **options).tolist()
    padded = torch.cat([torch.zeros(2, 3, dtype=torch.int64), ids], dim=1)
    padded[1] = torch.cat([ids[1], tokens(1, 3, seed=5)[0]])
    mask = torch.ones_like(padded)
    mask[0, :3] = 0
    together = model.generate(padded, attention_mask=mask, **options)
    assert together[0, 9:].tolist() == cached[0, 6:].tolist(), "left padding changes nothing"


@every_backbone
@torch.no_grad()
def test_in_bfloat16(backbone):
    model = tiny_model(backbone).to(torch.bfloat16)
    ids = tokens(2, 6)
    output = model(ids, output_prototypes=True, control=[Control.off(range(8)), None])
    assert output.logits.dtype == torch.bfloat16
    assert output.activations.dtype == torch.float32
    assert torch.equal(output.logits[1], model.dense()(ids).logits[1])
    assert model.generate(ids, max_new_tokens=4, control=Control.off([1])).shape == (2, 10)
    model.train()
    with torch.enable_grad():
        loss = model(ids, labels=ids).loss
        loss.backward()
    assert torch.isfinite(model.bank.weight.grad).all()
    assert model.bank.weight.grad.any()


@every_backbone
def test_resized_token_embeddings(backbone, tmp_path):
    model = tiny_model(backbone)
    before = model(tokens(1, 5)).logits
    model.resize_token_embeddings(70)
    after = model(tokens(1, 5)).logits
    assert after.shape[-1] == 70
    assert model.config.vocab_size == 70
    assert model.lm_head.weight.shape[0] == 70
    torch.testing.assert_close(after[..., :64], before)
    assert model.signatures([0, 3]).shape == (2, 70)
    model.save_pretrained(tmp_path)
    assert AutoModelForCausalLM.from_pretrained(tmp_path)(tokens(1, 5)).logits.shape[-1] == 70


@pytest.mark.parametrize("backbone", ["gpt2-tied", "llama-untied"])
def test_export_with_code_loads_without_the_package(backbone, tmp_path):
    model = tiny_model(backbone)
    model.export_with_code(str(tmp_path / "exported"))
    torch.save(model(tokens(1, 5)).logits, tmp_path / "logits.pt")
    torch.save(tokens(1, 5), tmp_path / "ids.pt")
    program = f"""
import sys, torch
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name == "prism_lm" or name.startswith("prism_lm."):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained({str(tmp_path / "exported")!r}, trust_remote_code=True).eval()
ids, logits = torch.load({str(tmp_path / "ids.pt")!r}), torch.load({str(tmp_path / "logits.pt")!r})
torch.testing.assert_close(model(ids).logits, logits)
assert model(ids, output_prototypes=True).active_ids.shape == (1, 5, 4)
assert "prism_lm" not in sys.modules
print("loaded", type(model).__name__)
"""
    environment = {
        "HF_MODULES_CACHE": str(tmp_path / "modules"),
        "HF_HUB_OFFLINE": "1",
        "PATH": "",
        "HOME": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "loaded PrismForCausalLM" in done.stdout


def test_an_ordinary_save_holds_no_code(tmp_path):
    tiny_model().save_pretrained(tmp_path)
    assert not list(tmp_path.glob("*.py"))
    assert "auto_map" not in json.loads((tmp_path / "config.json").read_text())


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (
            Gemma2Config(
                hidden_size=32,
                intermediate_size=48,
                num_hidden_layers=1,
                num_attention_heads=2,
                num_key_value_heads=1,
                head_dim=16,
                vocab_size=64,
                pad_token_id=0,
            ),
            "final_logit_softcapping",
        ),
        (
            CohereConfig(
                hidden_size=32,
                intermediate_size=48,
                num_hidden_layers=1,
                num_attention_heads=2,
                vocab_size=64,
                pad_token_id=0,
                bos_token_id=0,
                eos_token_id=0,
            ),
            "logit_scale",
        ),
        (
            PhiConfig(
                hidden_size=32,
                intermediate_size=48,
                num_hidden_layers=1,
                num_attention_heads=2,
                vocab_size=64,
                bos_token_id=0,
                eos_token_id=0,
            ),
            "has a bias",
        ),
    ],
)
def test_heads_that_are_not_plain_products_are_refused_by_name(config, reason):
    dense = AutoModelForCausalLM.from_config(config)
    with pytest.raises(ValueError, match=reason):
        PrismForCausalLM.from_dense(dense, num_prototypes=8, active_prototypes=2)


def test_the_loss_is_the_objective_in_training_and_cross_entropy_in_evaluation():
    model = tiny_model()
    ids = tokens(3, 7)
    labels = ids.clone()
    labels[1, 4:] = -100
    evaluated = model(ids, labels=labels)
    plain = model.dense()(ids, labels=labels).loss
    torch.testing.assert_close(evaluated.loss, plain)
    model.train()
    trained = model(ids, labels=labels)
    from prism_lm.model import clustering_terms

    states = model.model(ids).last_hidden_state.flatten(0, 1)
    terms = clustering_terms(states, model.bank.weight, 4)
    torch.testing.assert_close(trained.loss, plain + terms.loss(0.1, 0.2, 0.35))
    torch.testing.assert_close(trained.cross_entropy, plain)


def test_padding_is_no_state_of_the_objective():
    model = tiny_model("llama-tied").train()
    ids = tokens(1, 5)
    padded = torch.cat([torch.zeros(1, 3, dtype=torch.int64), ids], dim=1)
    mask = (torch.arange(8) >= 3).long().unsqueeze(0)
    labels = torch.where(torch.arange(8) > 3, padded, -100)
    alone, with_padding = model(ids, labels=ids).loss, model(padded, attention_mask=mask, labels=labels).loss
    torch.testing.assert_close(alone, with_padding)


@torch.no_grad()
def test_signatures_and_their_ranges(monkeypatch):
    monkeypatch.setattr("prism_lm.model.slices.PROTOTYPES_AT_ONCE", 5)
    model = tiny_model("llama-untied")
    signatures = model.signatures(range(16))
    for i in range(16):
        torch.testing.assert_close(signatures[i], model.lm_head.weight @ model.bank.weight[i])
    torch.testing.assert_close(
        model.signature_ranges(), signatures.max(-1).values - signatures.min(-1).values
    )
    torch.testing.assert_close(
        model.signatures(torch.tensor([2]), centred=True)[0], signatures[2] - signatures[2].mean()
    )


@torch.no_grad()
def test_logits_to_keep_keeps_the_same_positions():
    model = tiny_model()
    ids = tokens(2, 7)
    whole = model(ids, output_prototypes=True)
    last = model(ids, output_prototypes=True, logits_to_keep=2)
    torch.testing.assert_close(last.logits, whole.logits[:, -2:])
    assert torch.equal(last.active_ids, whole.active_ids[:, -2:])
    with pytest.raises(ValueError, match="logits_to_keep"):
        model(ids, labels=ids, logits_to_keep=2)


def test_gradients_flow_through_checkpointed_layers():
    model = tiny_model("llama-tied").train()
    ids = tokens(2, 6)
    model(ids, labels=ids).loss.backward()
    expected = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    model.zero_grad()
    model.activation_checkpointing_enable()
    model(ids, labels=ids).loss.backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, expected[name])
