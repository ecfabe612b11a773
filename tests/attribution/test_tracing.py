"""A trace against equation (4) by plain loops, and what it must refuse or say."""

import json
import math
import shutil
from pathlib import Path

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from small_run import ACTIVE, make_run

from prism_lm.artifacts.errors import UserError
from prism_lm.attribution import trace
from prism_lm.attribution.traces import TokenTrace, Trace
from prism_lm.attribution.tracing import Tracer
from prism_lm.corpus import Corpus
from prism_lm.index import PrototypeIndex

PROMPT, OUTPUT = "the cat sat", " on the mat"


@pytest.fixture(scope="module")
def given_text(tracer: Tracer) -> Trace:
    return tracer.trace(prompt=PROMPT, output=OUTPUT, top=2)


def plain_slices(tracer: Tracer, found: Trace, t: int, token: int) -> tuple[dict[int, float], float, float]:
    """{prototype: slice}, residual and logit of a vocabulary entry before output token t, centred; by
    loops."""
    model = tracer.model
    ids = tracer.encoder.prompt(found.prompt).ids + [one.token for one in found.tokens]
    before = len(ids) - len(found.tokens) + t
    with torch.no_grad():
        state = model.model(input_ids=torch.tensor([ids[:before]])).last_hidden_state[0, -1].double()
        logits = model(input_ids=torch.tensor([ids[:before]])).logits[0, -1].double()
    weight, bank = model.lm_head.weight.detach().double(), model.bank.weight.detach().double()
    cosines = [float(state @ p / (state.norm() * p.norm())) if p.norm() > 0 else 0.0 for p in bank]
    active = sorted(range(len(cosines)), key=lambda i: (-cosines[i], i))[:ACTIVE]
    slices, residual = {}, state.clone()
    for i in active:
        if cosines[i] > 0:
            signature = weight @ bank[i]
            slices[i] = cosines[i] * float(signature[token] - signature.mean())
            residual -= cosines[i] * bank[i]
    left = weight @ residual
    return slices, float(left[token] - left.mean()), float(logits[token] - logits.mean())


def parts(token: TokenTrace) -> float:
    return sum(one.slice for one in token.leading) + token.others + token.residual


def test_slices_are_those_of_equation_4(tracer: Tracer, given_text: Trace) -> None:
    for t, token in enumerate(given_text.tokens):
        slices, residual, logit = plain_slices(tracer, given_text, t, token.token)
        ranked = sorted(slices.items(), key=lambda pair: -abs(pair[1]))
        assert [one.prototype for one in token.leading] == [i for i, _ in ranked[:2]]
        assert [one.slice for one in token.leading] == pytest.approx([v for _, v in ranked[:2]], abs=1e-4)
        assert token.others == pytest.approx(sum(v for _, v in ranked[2:]), abs=1e-4)
        assert token.num_others == len(ranked[2:])
        assert token.residual == pytest.approx(residual, abs=1e-4)
        assert token.logit == pytest.approx(logit, abs=1e-4)


def test_probability_and_rank(tracer: Tracer, given_text: Trace) -> None:
    ids = tracer.encoder.prompt(PROMPT).ids
    for token in given_text.tokens:
        with torch.no_grad():
            logits = tracer.model(input_ids=torch.tensor([ids])).logits[0, -1].double()
        assert token.probability == pytest.approx(float(logits.softmax(-1)[token.token]), rel=1e-4)
        assert token.rank == sorted(logits.tolist(), reverse=True).index(float(logits[token.token])) + 1
        ids.append(token.token)


def test_a_rival_gives_differences_of_logits(tracer: Tracer) -> None:
    found = tracer.trace(prompt=PROMPT, output=OUTPUT, versus=" the", top=2)
    rival = tracer.encoder.rival(" the")
    for t, token in enumerate(found.tokens):
        own, own_residual, own_logit = plain_slices(tracer, found, t, token.token)
        other, other_residual, other_logit = plain_slices(tracer, found, t, rival)
        for one in token.leading:
            assert one.slice == pytest.approx(own[one.prototype] - other[one.prototype], abs=1e-4)
        assert token.residual == pytest.approx(own_residual - other_residual, abs=1e-4)
        assert token.logit == pytest.approx(own_logit - other_logit, abs=1e-4)
        assert token.rival is not None
        odds = math.log(token.probability / token.rival.probability)
        assert token.logit == pytest.approx(odds, abs=1e-4)


@given(st.text(max_size=8), st.text(min_size=1, max_size=8), st.integers(1, 6), st.booleans())
@settings(max_examples=15, deadline=None)
def test_every_sum_gives_its_logit(tracer: Tracer, prompt: str, output: str, top: int, against: bool) -> None:
    text = prompt + output
    assume(len(text.encode("utf-8", "replace")) <= 40 and text == text.encode("utf-8", "replace").decode())
    rival = " the" if against else None
    found = tracer.trace(prompt=prompt, output=output, top=top, versus=rival, passages=0)
    assert found.adds_up
    for token in found.tokens:
        assert parts(token) == pytest.approx(token.logit, abs=2 * found.tolerance)
        assert len(token.leading) + token.num_others <= ACTIVE
    for one in found.leading:
        assert one.tokens <= len(found.tokens)
    assert found.by_prototypes + found.residual == pytest.approx(found.logit, abs=1e-3)


def test_the_sum_check_can_fail(tracer: Tracer, monkeypatch: pytest.MonkeyPatch) -> None:
    head = tracer.model.lm_head
    with monkeypatch.context() as patch:
        patch.setattr(head, "forward", lambda states: torch.nn.functional.linear(states, head.weight * 1.01))
        assert not tracer.trace(prompt=PROMPT, output=OUTPUT).adds_up
    assert tracer.trace(prompt=PROMPT, output=OUTPUT).adds_up


def test_what_the_model_wrote_can_be_given_back(tracer: Tracer) -> None:
    written = tracer.trace(prompt=PROMPT, tokens=6, temperature=0, passages=0)
    ids = [token.token for token in written.tokens]
    assert written.written_by_model
    assert len(ids) == 6
    again = tracer.encoder.output(PROMPT, tracer.encoder.prompt(PROMPT).ids, written.output).ids
    if again == ids:  # tokens can spell a text that the tokenizer would cut otherwise
        found = tracer.trace(prompt=PROMPT, output=written.output, passages=0)
        assert [token.logit for token in found.tokens] == pytest.approx(
            [token.logit for token in written.tokens]
        )


def test_greedy_writing_takes_the_likeliest(tracer: Tracer) -> None:
    assert {
        token.rank for token in tracer.trace(prompt=PROMPT, tokens=8, temperature=0, passages=0).tokens
    } == {1}


def test_the_same_seed_writes_the_same(tracer: Tracer) -> None:
    outputs = [tracer.trace(prompt=PROMPT, tokens=8, seed=seed, passages=0).output for seed in (1, 1, 2, 3)]
    assert outputs[0] == outputs[1]
    assert len(set(outputs)) > 1


def test_neighbours_are_those_of_the_index(tracer: Tracer, run: Path, given_text: Trace) -> None:
    index = PrototypeIndex.open(run)
    for prototype, behind in given_text.behind.items():
        assert list(behind.neighbours) == index.neighbours(prototype, 2)
        assert behind.raised == index.card(prototype).raised
    assert {one.prototype for token in given_text.tokens for one in token.leading} <= given_text.behind.keys()


def test_an_empty_prompt_starts_from_the_separator(tracer: Tracer) -> None:
    found = tracer.trace(prompt="", output="the cat", passages=0)
    assert found.prompt_tokens == ("<|endoftext|>",)
    assert any("prompt is empty" in note for note in found.notes)


def test_a_token_that_is_part_of_a_character_is_shown_as_bytes(tracer: Tracer) -> None:
    found = tracer.trace(prompt="a", output="ÿ", passages=0)
    assert [token.text for token in found.tokens] == ["⟨C3⟩", "⟨BF⟩"]
    assert found.output == "ÿ"


def test_text_that_spells_a_special_token_is_text(tracer: Tracer) -> None:
    found = tracer.trace(prompt="a", output="<|endoftext|>", passages=0)
    assert len(found.tokens) > 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"output": ""}, ["output is empty"]),
        ({"versus": "naïve", "output": "b"}, ["6 tokens, not one", "'n', 'a', '⟨C3⟩'"]),
        ({"versus": "", "output": "b"}, ["rival is empty"]),
        ({"output": "\udc80"}, ["output is not valid UTF-8 at character 0"]),
        ({"output": "b" * 60}, ["+ 60 tokens", "reads 48", "shorten them by"]),
        ({"tokens": 100}, ["at most 47 with --tokens, not 100"]),
        ({"tokens": 0}, ["--tokens is 0"]),
        ({"top": 0}, ["--top is 0"]),
        ({"passages": -1}, ["--passages is -1"]),
        ({"temperature": -0.5}, ["--temperature is -0.5"]),
        ({"temperature": math.nan}, ["--temperature is nan"]),
    ],
)
def test_what_is_refused(tracer: Tracer, options: dict[str, object], words: list[str]) -> None:
    with pytest.raises(UserError) as refused:
        tracer.trace(prompt="z", **options)  # type: ignore[arg-type]
    for word in words:
        assert word in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_prompt_that_fills_the_window(tracer: Tracer) -> None:
    with pytest.raises(UserError, match="the prompt takes 60 tokens and the model reads 48"):
        tracer.trace(prompt="z" * 60)


def test_a_text_longer_than_a_training_sequence_is_said_to_be(tracer: Tracer) -> None:
    notes = tracer.trace(prompt="z" * 20, output="z", passages=0).notes
    assert any("trained on sequences of 16" in note for note in notes)


def test_without_an_index_there_are_no_passages_and_it_says_so(corpus: Corpus, tmp_path: Path) -> None:
    found = trace(make_run(tmp_path / "run", corpus), prompt=PROMPT, output=OUTPUT)
    assert found.corpus is None
    assert all(not behind.neighbours for behind in found.behind.values())
    assert any("prism index" in note for note in found.notes)
    assert "no index" in found.text()


def test_an_index_of_another_model_is_refused(run: Path, corpus: Corpus, tmp_path: Path) -> None:
    other = make_run(tmp_path / "run", corpus, seed=1)
    shutil.copytree(run / "index", other / "index")
    with pytest.raises(UserError, match="another model"):
        Tracer.open(other)
    with pytest.raises(UserError, match="dense"):
        trace(make_run(tmp_path / "dense", corpus, dense=True), prompt="a")


def test_plain_values(given_text: Trace) -> None:
    plain = json.loads(json.dumps(given_text.to_dict()))
    assert plain["sums"]["adds_up"] is True
    assert plain["sums"]["logit"] == pytest.approx(given_text.logit)
    assert [token["text"] for token in plain["tokens"]] == [token.text for token in given_text.tokens]
    assert plain["behind"].keys() == {str(prototype) for prototype in given_text.behind}


def test_the_table_has_a_row_for_each_part(given_text: Trace) -> None:
    rows = given_text.to_table().to_pylist()
    assert len(rows) == len(given_text.tokens) * (2 + 2)
    for order, token in enumerate(given_text.tokens):
        own = [row["slice"] for row in rows if row["order"] == order]
        assert sum(own) == pytest.approx(token.logit, abs=1e-4)


def test_hostile_text_is_shown_and_does_nothing(tracer: Tracer) -> None:
    hostile = "\x1b[2J<script>x</script>[bold]"
    found = tracer.trace(prompt="a", output=hostile, passages=1)
    for shown in (found.text(100), found._repr_html_(), found.html_document()):
        assert "\x1b" not in shown
    assert "[bold]" in found.text(100)
    assert "&lt;script&gt;" in found._repr_html_()
    assert "<script" not in found.html_document()
    for forbidden in ("http://", "https://", " src=", "url("):
        assert forbidden not in found.html_document()


@pytest.mark.parametrize("width", [60, 100, 200])
def test_no_line_is_wider_than_the_terminal(given_text: Trace, width: int) -> None:
    from rich.cells import cell_len

    lines = given_text.text(width).splitlines()
    assert max(map(cell_len, lines)) <= width
    assert any(" residual" in line for line in lines)
    assert sum("passages are neighbours" in line for line in lines) == 1
