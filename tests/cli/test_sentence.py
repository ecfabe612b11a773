"""The story's parts: where a sentence ends, what a word is, and what differs between two texts."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from prism_lm.artifacts.errors import UserError
from prism_lm.attribution.tracing import Tracer
from prism_lm.cli.sentence import Writer, end_of_sentence, first_change, leaders, reach, words
from prism_lm.cli.story import marked
from prism_lm.model import Control


@pytest.mark.parametrize(
    ("texts", "end"),
    [
        ([" a"] * 9 + [".", " The"], 10),
        ([" a"] * 9 + [".", "py", " b", ".", "\n"], 13),
        ([" a"] * 7 + ["\n", "\n", "Next"], 8),
        ([" a", ".", " b", " c", " d", " e", " f", " g"], 8),
        ([" no", " end"], 2),
    ],
)
def test_end_of_sentence(texts, end):
    assert end_of_sentence(texts) == end


@given(st.lists(st.sampled_from(["a", "bc", " d", "."])), st.lists(st.sampled_from(["a", "bc", " d", "."])))
def test_marked_loses_nothing_and_marks_what_differs(before, after):
    texts = " ".join(before), " ".join(after)
    lines = [line.plain for line in marked(*texts)]
    assert [line.replace("\u2039", "").replace("\u203a", "") for line in lines] == list(texts)
    if texts[0] == texts[1]:
        assert "\u2039" not in "".join(lines)


def test_marked_is_about_words():
    before, after = marked(" puts the salt there", " puts the soup there")
    assert before.plain == " puts the \u2039salt\u203a there"
    assert after.plain == " puts the \u2039soup\u203a there"


@pytest.fixture(scope="module")
def writer(tiny_index):
    return Writer(tracer=Tracer.open(tiny_index.parent), prompt="The cook", seed=3)


def test_the_same_seed_writes_the_same(writer):
    assert writer.sentence() == writer.sentence()
    assert writer.sentence() == writer.sentence(Control.of({0: 1.0}))


def test_words_add_up_to_their_logits_and_read_like_the_sentence(writer):
    ids = writer.sentence()
    apart = writer.apart(ids)
    found = words(apart)
    assert "".join(word.text for word in found) == "".join(writer.texts(ids))
    assert all(not word.text.strip().count(" ") for word in found)
    for word in found:
        assert sum(word.slices.values()) + word.residual == pytest.approx(word.logit, abs=1e-3)
        assert 0 < word.probability <= 1


def test_leaders_have_the_largest_positive_sums(writer):
    apart = writer.apart(writer.sentence())
    ranked = leaders(apart)
    sums = [apart.totals[prototype] for prototype in ranked]
    assert sums == sorted(sums, reverse=True)
    assert min(sums) > 0
    assert set(ranked) == {prototype for prototype, total in apart.totals.items() if total > 0}


def test_first_change_is_the_first_that_changes(writer):
    changes = []
    for seed in range(4):
        other = Writer(tracer=writer.tracer, prompt=writer.prompt, seed=seed)
        before = other.sentence()
        ranked = leaders(other.apart(before))
        change = first_change(other, before, ranked)
        if change is None:
            assert other.sentence(Control.off(ranked)) == before
            continue
        changes.append(change)
        assert all(
            other.sentence(Control.off([prototype])) == before for prototype in ranked[: change.rank - 1]
        )
        assert list(change.prototypes) in (
            [ranked[change.rank - 1 : change.rank], ranked[: len(change.prototypes)]]
        )
        assert other.sentence(Control.off(change.prototypes)) == change.after != before
    assert changes


def test_several_together_where_no_single_one_is_enough(writer, monkeypatch):
    written = {(1,): [9], (2,): [9], (3,): [9], (1, 2): [9], (1, 2, 3): [8]}
    monkeypatch.setattr(
        Writer, "sentence", lambda self, control: written[tuple(prototype for prototype, _ in control.gains)]
    )
    change = first_change(writer, [9], [1, 2, 3])
    assert change == ((1, 2, 3), 4, [8])
    written[1, 2, 3] = [9]
    assert first_change(writer, [9], [1, 2, 3]) is None


def test_reach_against_a_loop_over_tokens(writer):
    ids = writer.sentence()
    prototype = leaders(writer.apart(ids))[0]
    found = reach(writer, ids, [prototype])
    text = writer.prompt_ids + ids
    model = writer.tracer.model
    with torch.no_grad():
        plain = model(input_ids=torch.tensor([text]), output_prototypes=True)
        edited = model(input_ids=torch.tensor([text]), control=Control.of({prototype: 0.0}))
    mass, touched, largest = 0.0, 0, 0.0
    for t in range(len(text)):
        for active, activation in zip(
            plain.active_ids[0, t].tolist(), plain.activations[0, t].tolist(), strict=True
        ):
            if active == prototype and activation > 0:
                mass, touched = mass + activation, touched + 1
                p, q = (out.logits[0, t].double().softmax(-1) for out in (plain, edited))
                largest = max(largest, float((p * (p / q).log()).sum()))
    assert touched > 0
    assert (found.tokens, found.touched) == (len(text), touched)
    assert found.mass_removed == pytest.approx(mass, rel=1e-5)
    assert found.largest_divergence == pytest.approx(largest, rel=1e-6)
    assert found.elsewhere_equal


def test_a_prompt_that_leaves_no_room(writer):
    with pytest.raises(UserError, match="give a shorter --prompt"):
        Writer(tracer=writer.tracer, prompt="cook " * 64, seed=0)
