import gzip
import json

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from prism_lm.artifacts.errors import UserError
from prism_lm.artifacts.progress import Silent
from prism_lm.evaluation.minimal_pairs import (
    MinimalPair,
    compare_minimal_pairs,
    read_minimal_pairs,
    sentence_scores,
)


def tiny():
    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, vocab_size=300,
            initializer_range=0.5, pad_token_id=None, bos_token_id=0, eos_token_id=0,
        )
    ).eval()  # fmt: skip


class Characters:
    def __call__(self, sentences, add_special_tokens):
        assert not add_special_tokens
        return {"input_ids": [[ord(character) for character in sentence] for sentence in sentences]}


@torch.no_grad()
def test_scores_against_a_loop_whatever_the_batch():
    model = tiny()
    sequences = [[0, 5, 9, 7], [0, 3], [0], [0, 5, 9, 7, 8, 8, 1], [0, 5, 9, 7]]
    expected = []
    for sequence in sequences:
        log_probabilities = model(torch.tensor([sequence])).logits[0].log_softmax(-1)
        expected.append(sum(float(log_probabilities[t, token]) for t, token in enumerate(sequence[1:])))
    for tokens_at_once in (1, 8, 1000):
        scores = sentence_scores(model, sequences, tokens_at_once, Silent())
        assert scores == pytest.approx(expected, abs=1e-4)


def test_accuracy_is_the_mean_over_paradigms_and_equal_scores_are_wrong():
    model = tiny()
    pairs = [
        MinimalPair(paradigm="a", good="to be", bad="to bx"),
        MinimalPair(paradigm="a", good="to bx", bad="to be"),
        MinimalPair(paradigm="b", good="same", bad="same"),
    ]
    result = compare_minimal_pairs(model, Characters(), pairs, separator_id=0)
    assert sorted(result.correct[:2]) == [False, True]
    assert result.correct[2] is False
    assert result.by_paradigm == {"a": 0.5, "b": 0.0}
    assert result.accuracy == 0.25


def test_reading_plain_and_compressed(tmp_path):
    row = {"uid": "a", "phenomenon": "p", "good": "yes", "bad": "no"}
    plain, packed = tmp_path / "pairs.jsonl", tmp_path / "pairs.jsonl.gz"
    plain.write_text(json.dumps(row) + "\n")
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert (
        read_minimal_pairs(plain)
        == read_minimal_pairs(packed)
        == [MinimalPair(paradigm="a", good="yes", bad="no")]
    )
    plain.write_text(json.dumps(row) + "\n{\n")
    with pytest.raises(UserError, match="line 2"):
        read_minimal_pairs(plain)
    plain.write_text("")
    with pytest.raises(UserError, match="holds no pair"):
        read_minimal_pairs(plain)
