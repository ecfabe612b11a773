"""An index on disk against a plain loop over tokens and prototypes, and what must not change it."""

import math
import shutil
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_run import ACTIVE, NUM_PROTOTYPES, SEQUENCE_LENGTH, make_corpus, make_model, make_run

import prism_lm.index.collect as collect_module
import prism_lm.index.config as config_module
import prism_lm.index.reading as reading_module
from prism_lm.artifacts.errors import UserError
from prism_lm.artifacts.run import open_run
from prism_lm.corpus import Corpus, Sequences
from prism_lm.index import IndexConfig, IndexPlan, PrototypeIndex, build_index
from prism_lm.index.loading import load_model

TABLES = ("prototypes", "examples", "triggers")


class Plain:
    """Equations (1) and (2) by loops, one training sequence at a time."""

    def __init__(self, run: Path, corpus: Corpus) -> None:
        model = load_model(open_run(run), "cpu")
        bank = model.bank.weight.detach().double()
        self.active: list[tuple[int, int, float]] = []
        self.cosines = np.zeros((corpus.num_tokens, NUM_PROTOTYPES))
        position = 0
        sequences = Sequences(corpus, SEQUENCE_LENGTH)
        for number in range(len(sequences)):
            ids = torch.from_numpy(sequences[number])[None]
            with torch.no_grad():
                states = model.model(input_ids=ids).last_hidden_state[0].double()
            for state in states:
                for i in range(NUM_PROTOTYPES):
                    lengths = float(state.norm() * bank[i].norm())
                    self.cosines[position, i] = float(state @ bank[i]) / lengths if lengths else 0.0
                row = self.cosines[position]
                chosen = sorted(range(NUM_PROTOTYPES), key=lambda i: (-row[i], i))[:ACTIVE]
                self.active += [(position, i, row[i]) for i in chosen if row[i] > 0]
                position += 1

    def of(self, prototype: int) -> list[tuple[int, float]]:
        return [(position, value) for position, i, value in self.active if i == prototype]


@pytest.fixture(scope="module")
def plain(run: Path, corpus: Corpus) -> Plain:
    return Plain(run, corpus)


def rows(index: PrototypeIndex, name: Any) -> list[dict[str, Any]]:
    return index.table(name).to_pylist()


def test_usage_mass_and_coverage(index: PrototypeIndex, plain: Plain, corpus: Corpus) -> None:
    total = sum(value for _, _, value in plain.active)
    for row in rows(index, "prototypes"):
        firings = plain.of(row["prototype"])
        assert row["usage"] == len(firings)
        assert row["usage_share"] == pytest.approx(len(firings) / corpus.num_tokens)
        assert row["mass"] == pytest.approx(sum(value for _, value in firings), abs=1e-4)
        assert row["mass_share"] == pytest.approx(row["mass"] / total, abs=1e-6)
        column = plain.cosines[:, row["prototype"]]
        assert row["coverage"] == pytest.approx(column.max(), abs=1e-6)
        assert column[row["nearest_position"]] == pytest.approx(column.max(), abs=1e-6)
        median = row["activation_quantiles"]
        assert (median is None) == (not firings)


def test_a_prototype_that_is_never_active_has_its_nearest_token(index: PrototypeIndex) -> None:
    (row,) = index.rows("examples", 3)
    assert row["kind"] == "nearest"
    assert row["activation"] == 0.0
    assert index.card(3).usage == 0
    assert "never active" in index.card(3).text()


def test_neighbours(index: PrototypeIndex, plain: Plain, corpus: Corpus) -> None:
    for prototype in range(NUM_PROTOTYPES):
        best: dict[int, tuple[float, int]] = {}
        counts: Counter[int] = Counter()
        for position, value in plain.of(prototype):
            document = corpus.document_index(position)
            counts[document] += 1
            best[document] = max(best.get(document, (-math.inf, 0)), (value, -position))
        found = [row for row in index.rows("examples", prototype) if row["kind"] == "neighbour"]
        assert len({row["document"] for row in found}) == len(found) == min(5, len(found))
        values = [row["activation"] for row in found]
        assert values == sorted(values, reverse=True)
        for row in found:
            value, _ = best[row["document"]]
            assert row["activation"] == pytest.approx(value, abs=1e-6)
            assert plain.cosines[row["position"], prototype] == pytest.approx(value, abs=1e-6)
            assert row["firings_in_document"] == counts[row["document"]]
            assert row["copies"] >= 1
        if found:
            assert found[0]["activation"] == pytest.approx(max(v for v, _ in best.values()), abs=1e-6)


def test_copied_documents_are_one_neighbour_that_says_how_many_there_are(index: PrototypeIndex) -> None:
    for prototype in range(NUM_PROTOTYPES):
        texts = [passage.before + passage.token for passage in index.neighbours(prototype)]
        assert len(set(texts)) == len(texts)
    copies = [row["copies"] for row in rows(index, "examples") if row["copies"] is not None]
    assert max(copies) > 1


def test_bands(index: PrototypeIndex, plain: Plain) -> None:
    for prototype in range(NUM_PROTOTYPES):
        values = dict(plain.of(prototype))
        found = [row for row in index.rows("examples", prototype) if row["kind"] == "band"]
        assert len(found) == min(10, len(found))
        assert len(found) >= min(5, len(values))
        for row in found:
            assert row["activation"] == pytest.approx(values[row["position"]], abs=1e-6)
        numbers = [row["band"] for row in found]
        assert numbers == sorted(numbers, reverse=True)
        for weaker, stronger in zip(found[1:], found[:-1], strict=True):
            if weaker["band"] < stronger["band"]:
                assert weaker["activation"] <= stronger["activation"]


def test_triggers(index: PrototypeIndex, plain: Plain, corpus: Corpus) -> None:
    tokens = corpus.tokens(0, corpus.num_tokens).tolist()
    sources = [int(corpus.sources[corpus.document_index(p)]) for p in range(corpus.num_tokens)]
    fields = {"current": tokens, "next": tokens[1:], "source": sources}
    for prototype in range(NUM_PROTOTYPES):
        for field, values in fields.items():
            fired = Counter(values[p] for p, _ in plain.of(prototype) if p < len(values))
            expected = sorted(fired.items(), key=lambda pair: (-pair[1], pair[0]))[:5]
            found = [row for row in index.rows("triggers", prototype) if row["field"] == field]
            assert [(row["value"], row["count"]) for row in found] == expected
            for row in found:
                share = row["count"] / fired.total()
                in_corpus = values.count(row["value"]) / len(values)
                assert row["share"] == pytest.approx(share)
                assert row["corpus_share"] == pytest.approx(in_corpus)
                assert row["lift"] == pytest.approx(share / in_corpus)
                assert row["undercount"] == 0


def test_triggers_are_named(index: PrototypeIndex, corpus: Corpus) -> None:
    for row in rows(index, "triggers"):
        if row["field"] == "source":
            assert row["text"] == corpus.source_names[row["value"]]
        elif "⟨" not in row["text"]:
            assert row["text"] == corpus.tokenizer.decode([row["value"]])


def test_signature_words(index: PrototypeIndex, run: Path, corpus: Corpus) -> None:
    model = load_model(open_run(run), "cpu")
    table = rows(index, "prototypes")
    occurring = sorted(set(corpus.tokens(0, corpus.num_tokens).tolist()))
    weight = model.lm_head.weight.detach().double().numpy()
    bank = model.bank.weight.detach().double().numpy()
    mean = sum(row["mass"] * bank[row["prototype"]] for row in table) / sum(row["mass"] for row in table)
    for row in table:
        every = weight @ (bank[row["prototype"]] - mean)
        special = {token: every[token] - every[occurring].mean() for token in occurring}
        ranked = sorted(special.values())
        assert row["lowered_logits"] == pytest.approx(ranked[:20], abs=1e-4)
        assert row["raised_logits"] == pytest.approx(ranked[::-1][:20], abs=1e-4)
        for name in ("raised", "lowered"):
            values = [special[token] for token in row[f"{name}_tokens"]]
            assert values == pytest.approx(row[f"{name}_logits"], abs=1e-4)
    assert len(occurring) < corpus.vocab_size


def test_examples_point_at_their_text(index: PrototypeIndex, corpus: Corpus) -> None:
    for row in rows(index, "examples"):
        location = corpus.locate(row["position"])
        document = corpus.document(row["document"])
        assert (location.document_index, location.document_id) == (row["document"], row["document_id"])
        assert (location.start, location.end) == (row["start"], row["end"])
        assert 0 <= row["context_start"] <= row["start"] <= row["end"] <= row["context_end"]
        assert row["context_end"] <= len(document.text)
    for passage in index.neighbours(0):
        text = corpus.document(passage.document_index).text
        shown = passage.before + passage.token + passage.after
        assert text[passage.context_start : passage.context_end] == shown


@pytest.mark.parametrize("batch_tokens", [1, 40, 65536])
def test_nothing_depends_on_the_batch_size(
    index: PrototypeIndex, run: Path, corpus: Corpus, tmp_path: Path, batch_tokens: int
) -> None:
    other = Path(shutil.copytree(run, tmp_path / "run", ignore=shutil.ignore_patterns("index")))
    again = build_index(IndexConfig(run=other, corpus=corpus.path, neighbours=5, batch_tokens=batch_tokens))
    for name in TABLES:
        assert_same_rows(rows(index, name), rows(again, name))


def assert_same_rows(ones: list[dict[str, Any]], twos: list[dict[str, Any]], *, but: str = "") -> None:
    """Equal, but for the last digits of what is not counted."""
    for one, two in zip(ones, twos, strict=True):
        assert one.keys() == two.keys()
        for key in one.keys() - {but}:
            rounded = isinstance(one[key], float) or key.endswith(("logits", "quantiles"))
            assert two[key] == (pytest.approx(one[key], abs=1e-5) if rounded else one[key]), key


def test_small_blocks_cut_documents_and_change_nothing(
    index: PrototypeIndex, run: Path, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading_module, "BLOCK_TOKENS", 3 * SEQUENCE_LENGTH)
    other = Path(shutil.copytree(run, tmp_path / "run", ignore=shutil.ignore_patterns("index")))
    again = build_index(IndexConfig(run=other, corpus=corpus.path, neighbours=5))
    for name in TABLES:
        # Copies are a lower bound, which may depend on where blocks end.
        assert_same_rows(rows(index, name), rows(again, name), but="copies")


def test_the_same_index_twice_has_the_same_hash(run: Path, corpus: Corpus, tmp_path: Path) -> None:
    config = IndexConfig(run=run, corpus=corpus.path)
    hashes = []
    for name in ("one", "two"):
        other = Path(shutil.copytree(run, tmp_path / name, ignore=shutil.ignore_patterns("index")))
        hashes.append(build_index(replace(config, run=other)).manifest.hash)
    assert hashes[0] == hashes[1]


def test_an_index_is_not_replaced_unasked(index: PrototypeIndex, run: Path, corpus: Corpus) -> None:
    with pytest.raises(UserError, match="--overwrite"):
        build_index(IndexConfig(run=run, corpus=corpus.path))


def test_a_pass_that_breaks_leaves_the_old_index(
    run: Path, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Path(shutil.copytree(run, tmp_path / "run", ignore=shutil.ignore_patterns("index")))
    config = IndexConfig(run=other, corpus=corpus.path)
    first = build_index(config)
    with monkeypatch.context() as patch:
        patch.setattr(collect_module.Statistics, "triggers", lambda *_: sys.exit(9))
        with pytest.raises(SystemExit):
            build_index(replace(config, overwrite=True))
    assert PrototypeIndex.open(other).manifest == first.manifest
    assert [path.name for path in other.iterdir() if ".part" in path.name] == []


def test_what_an_index_is_refused_for(
    index: PrototypeIndex, run: Path, corpus: Corpus, tmp_path: Path
) -> None:
    dense = make_run(tmp_path / "dense", corpus, dense=True)
    with pytest.raises(UserError, match="dense"):
        build_index(IndexConfig(run=dense, corpus=corpus.path))
    with pytest.raises(UserError, match="prism index"):
        PrototypeIndex.open(make_run(tmp_path / "without", corpus))
    shutil.copytree(run / "index", tmp_path / "other" / "index")
    with pytest.raises(UserError, match="another model"):
        PrototypeIndex.open(make_run(tmp_path / "other", corpus, seed=1))


def test_another_corpus_is_refused_for_building_and_for_reading(
    index: PrototypeIndex, run: Path, corpus: Corpus, tmp_path: Path
) -> None:
    source = tmp_path / "other.jsonl"
    source.write_text('{"text": "some other text"}\n')
    from prism_lm.corpus import PrepareConfig
    from prism_lm.corpus.prepare import prepare

    other = prepare(PrepareConfig(sources=(str(source),), out=tmp_path / "other", tokenizer=str(corpus.path)))
    with pytest.raises(UserError, match="was not trained on"):
        build_index(IndexConfig(run=run, corpus=other.path, overwrite=True))
    with pytest.raises(UserError, match="another corpus"):
        PrototypeIndex.open(run, corpus=other.path).neighbours(0)
    with pytest.raises(UserError, match="--corpus"):
        PrototypeIndex.open(run, corpus=tmp_path / "gone").neighbours(0)
    copy = Path(shutil.copytree(run, tmp_path / "run", ignore=shutil.ignore_patterns("index")))
    allowed = build_index(IndexConfig(run=copy, corpus=other.path, other_corpus=True))
    assert not allowed.is_of_training_corpus
    assert "not trained on" in allowed.card(0).text(width=400)


def test_another_tokenizer_is_refused(run: Path, tmp_path: Path) -> None:
    from prism_lm.corpus import PrepareConfig
    from prism_lm.corpus.prepare import prepare

    source = tmp_path / "other.jsonl"
    source.write_text('{"text": "some other text some other text"}\n')
    other = prepare(PrepareConfig(sources=(str(source),), out=tmp_path / "other", vocab_size=260))
    with pytest.raises(UserError, match="another tokenizer"):
        build_index(IndexConfig(run=run, corpus=other.path, other_corpus=True, overwrite=True))


@pytest.mark.parametrize("name", ["neighbours", "bands", "per_band", "words", "triggers", "batch_tokens"])
def test_settings_out_of_range(name: str) -> None:
    with pytest.raises(UserError, match=name):
        IndexConfig(run=Path("run"), corpus=Path("corpus"), **{name: 0})


def test_the_largest_batch(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="65536"):
        IndexConfig(run=tmp_path, corpus=tmp_path, batch_tokens=config_module.BLOCK_TOKENS + 1)


def test_the_plan_says_what_it_costs(run: Path, corpus: Corpus) -> None:
    plan = IndexPlan.of(IndexConfig(run=run, corpus=corpus.path, overwrite=True))
    what, cost = plan.describe().split("\n")
    assert "3,224 tokens of 65 documents, 24 prototypes" in what
    assert "memory at most" in cost
    assert "disk" in cost


def test_a_llama_backbone_and_a_bank_with_ties(corpus: Corpus, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", corpus, family="llama")
    index = build_index(IndexConfig(run=run, corpus=corpus.path))
    assert index.manifest.figures["tokens"] == corpus.num_tokens
    assert sum(row["usage"] for row in rows(index, "prototypes")) <= ACTIVE * corpus.num_tokens
    assert make_model(300).config.num_prototypes == NUM_PROTOTYPES
    assert make_corpus(tmp_path / "again", tokenizer=str(corpus.path)).num_tokens == corpus.num_tokens


def test_a_kill_leaves_no_half_of_an_index(run: Path, corpus: Corpus, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(run, tmp_path / "run", ignore=shutil.ignore_patterns("index")))
    program = (
        "import os, signal, sys; from pathlib import Path\n"
        "import prism_lm.index.build as build; from prism_lm.index import IndexConfig\n"
        "build.spans = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # two of three tables are written\n"
        "build.build_index(IndexConfig(run=Path(sys.argv[1]), corpus=Path(sys.argv[2])))"
    )
    words = [sys.executable, "-c", program, str(copy), str(corpus.path)]
    done = subprocess.run(words, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL
    with pytest.raises(UserError, match="has no index"):
        PrototypeIndex.open(copy)
    again = build_index(IndexConfig(run=copy, corpus=corpus.path))
    assert again.num_prototypes == NUM_PROTOTYPES
    assert [path.name for path in copy.iterdir() if "part" in path.name] == []
