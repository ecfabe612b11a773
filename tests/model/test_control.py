import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from prism_lm.model import Control, PrismConfig, PrismForCausalLM, divergence, divergence_bound
from prism_lm.model.control import ControlRows, edit_states

from .tiny import tiny_model, tokens


def edited_by_loop(model, output, controls):
    """(9), one token and one prototype at a time."""
    states = output.final_states.clone()
    for b, control in enumerate(controls):
        gains = dict(control.gains) if control else {}
        for t in range(states.shape[1]):
            for i, a in zip(output.active_ids[b, t].tolist(), output.activations[b, t], strict=True):
                states[b, t] += (gains.get(i, 1.0) - 1.0) * a * model.bank.weight[i]
    return model.lm_head(states)


@torch.no_grad()
def test_edits_per_row_against_a_loop():
    model = tiny_model()
    ids = tokens(3, 6)
    plain = model(ids, output_prototypes=True)
    leading = plain.active_ids[..., 0].flatten().tolist()
    controls = [Control.off(leading), None, Control.of({leading[0]: 3.0, leading[1]: 0.5})]
    output = model(ids, control=controls)
    torch.testing.assert_close(output.logits, edited_by_loop(model, plain, controls))
    assert torch.equal(output.logits[1], plain.logits[1]), "a row without a control is bit-identical"
    assert output.control_effect.tokens_touched[0] == 6
    assert output.control_effect.tokens_touched[1] == 0
    removed = sum(
        float(a)
        for i, a in zip(plain.active_ids[0].flatten().tolist(), plain.activations[0].flatten(), strict=True)
        if i in leading
    )
    torch.testing.assert_close(float(output.control_effect.mass_removed[0]), removed)


@torch.no_grad()
def test_untouched_tokens_are_bit_identical_and_touched_ones_change():
    model = tiny_model()
    ids = tokens(2, 8)
    plain = model(ids, output_prototypes=True)
    prototype = int(plain.active_ids[0, 3, 0])
    output = model(ids, control=Control.off([prototype]))
    for b in range(2):
        for t in range(8):
            active = plain.activations[b, t][plain.active_ids[b, t] == prototype]
            touched = bool(active.numel() and active[0] > 0)
            assert torch.equal(output.logits[b, t], plain.logits[b, t]) is not touched


@torch.no_grad()
def test_controls_that_do_nothing_leave_every_logit_bit_identical():
    model = tiny_model()
    ids = tokens(2, 8)
    plain = model(ids, output_prototypes=True)
    idle = sorted(set(range(model.config.num_prototypes)) - set(plain.active_ids.flatten().tolist()))
    assert torch.equal(model(ids, control=Control.of({})).logits, plain.logits)
    assert torch.equal(model(ids, control=Control.of(dict.fromkeys(range(16), 1.0))).logits, plain.logits)
    if idle:
        assert torch.equal(model(ids, control=Control.off(idle)).logits, plain.logits)


@given(seed=st.integers(0, 500), gain=st.floats(0, 4))
@settings(max_examples=25, deadline=None)
@torch.no_grad()
def test_the_bound_holds_and_the_divergence_is_the_divergence(seed, gain):
    model = tiny_model(dtype=torch.float64)
    ids = tokens(1, 5, seed=seed)
    plain = model(ids, output_prototypes=True)
    control = Control.of(dict.fromkeys(range(0, 16, 2), gain))
    edited = model(ids, control=control).logits
    edit = edit_states(
        plain.final_states, model.bank.weight, plain.active_ids, plain.activations, ControlRows.of(control)
    )
    before, after = plain.logits.log_softmax(-1), edited.log_softmax(-1)
    expected = (before.exp() * (before - after)).sum(-1)
    measured = divergence(plain.logits, edited)
    torch.testing.assert_close(measured, expected, atol=1e-9, rtol=1e-6)
    bound = divergence_bound(edit.changes, plain.active_ids, model.signature_ranges())
    assert (measured <= bound + 1e-12).all()


def test_generate_applies_the_control_to_prompt_and_to_decoded_tokens():
    model = tiny_model()
    ids = tokens(2, 4)
    everything = Control.of(dict.fromkeys(range(16), 40.0))
    together = model.generate(ids, max_new_tokens=6, do_sample=False, control=[everything, None])
    for row, control in enumerate([everything, None]):
        current = ids[row : row + 1]
        for _ in range(6):
            with torch.no_grad():
                logits = model(current, control=control).logits
            current = torch.cat([current, logits[:, -1:].argmax(-1)], dim=1)
        assert current[0].tolist() == together[row].tolist()
    assert together[0].tolist() != model.generate(ids, max_new_tokens=6, do_sample=False)[0].tolist()


def test_several_returned_sequences_keep_the_control_of_their_row():
    model = tiny_model()
    ids = tokens(2, 4)
    controls = [Control.of(dict.fromkeys(range(16), 40.0)), None]
    options = {"max_new_tokens": 5, "num_beams": 2, "num_return_sequences": 2, "do_sample": False}
    together = model.generate(ids, control=controls, **options)
    for row in range(2):
        alone = model.generate(ids[row : row + 1], control=controls[row], **options)
        assert together[2 * row : 2 * row + 2].tolist() == alone.tolist()


@pytest.mark.parametrize(
    ("gains", "message"),
    [
        ({-1: 0.0}, "prototype id"),
        ({1: -0.5}, "gain of prototype 1"),
        ({1: float("nan")}, "gain of prototype 1"),
        ({1: float("inf")}, "gain of prototype 1"),
        ({"a": 1.0}, "prototype id"),
    ],
)
def test_bad_gains_are_named(gains, message):
    with pytest.raises((ValueError, TypeError), match=message):
        Control.of(gains)


def test_prototype_outside_the_bank_and_wrong_number_of_rows():
    model = tiny_model()
    with pytest.raises(ValueError, match="prototype 99 is not in the bank"):
        model(tokens(1, 3), control=Control.off([99]))
    with pytest.raises(ValueError, match="2 controls were given for 3 rows"):
        model(tokens(3, 3), control=[None, Control.off([1])])
    with pytest.raises(TypeError, match="Control or None"):
        model(tokens(1, 3), control=[{1: 0.0}])


def test_a_control_is_immutable_and_hashable():
    control = Control.of({3: 0.0, 1: 2.0})
    assert control == Control.of({1: 2.0, 3: 0.0})
    assert hash(control) == hash(Control.of({1: 2.0, 3: 0.0}))
    with pytest.raises(AttributeError):
        control.gains = ()


def test_the_configuration_must_make_a_model():
    backbone = tiny_model().config.text_config
    with pytest.raises(ValueError, match="at most the whole bank"):
        PrismConfig(text_config=backbone, num_prototypes=4, active_prototypes=5)
    with pytest.raises(ValueError, match="whole number"):
        PrismConfig(text_config=backbone, num_prototypes=0)
    with pytest.raises(ValueError, match="token_coverage_weight"):
        PrismConfig(text_config=backbone, token_coverage_weight=-1.0)
    assert isinstance(
        PrismForCausalLM(PrismConfig(text_config=backbone.to_dict(), num_prototypes=4, active_prototypes=4)),
        PrismForCausalLM,
    )
