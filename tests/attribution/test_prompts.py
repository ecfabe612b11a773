"""Where prompt and output meet, with tokenizers that merge across the border and ones that do not."""

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from prism_lm.artifacts.errors import UserError
from prism_lm.attribution.prompts import PromptEncoder, encode_prompt


def byte_level(merges: list[tuple[str, str]]) -> PreTrainedTokenizerFast:
    """Bytes and the given merges; the separator is entry 0."""
    entries = ["<sep>", *sorted(pre_tokenizers.ByteLevel.alphabet()), *(a + b for a, b in merges)]
    backend = Tokenizer(models.BPE(vocab={entry: i for i, entry in enumerate(entries)}, merges=merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<sep>")


def prefixing() -> PreTrainedTokenizerFast:
    """A sentencepiece-like tokenizer, which puts a space before every text."""
    entries = ["<sep>", "<unk>", "▁", *"abcdelo", "▁a", "▁b", "lo"]
    backend = Tokenizer(
        models.BPE(
            vocab={entry: i for i, entry in enumerate(entries)},
            merges=[("▁", "a"), ("▁", "b"), ("l", "o")],
            unk_token="<unk>",
        )
    )
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<sep>", unk_token="<unk>")


@pytest.fixture(scope="module")
def encoder() -> PromptEncoder:
    return PromptEncoder(byte_level([("w", "o"), ("wo", "r"), ("l", "d"), ("Ġ", "wor"), ("wor", "ld")]), 0)


def texts(encoder: PromptEncoder, ids: list[int]) -> list[str]:
    return [encoder.texts.text(token) for token in ids]


def test_output_is_what_follows_the_prompt_in_the_whole_text(encoder: PromptEncoder) -> None:
    prompt = encoder.prompt("a").ids
    found = encoder.output("a", prompt, " world")
    assert texts(encoder, found.ids) == [" wor", "ld"]
    assert found.note is None


def test_a_merge_across_the_border_leaves_the_prompt_as_it_is(encoder: PromptEncoder) -> None:
    prompt = encoder.prompt("wor").ids
    found = encoder.output("wor", prompt, "ld")
    assert texts(encoder, encoder.prompt("world").ids) == ["world"]
    assert texts(encoder, prompt) == ["wor"]
    assert texts(encoder, found.ids) == ["ld"]
    assert found.note is not None
    assert "apart" in found.note


def test_the_prompt_is_encoded_as_for_writing(encoder: PromptEncoder) -> None:
    assert (
        encode_prompt(byte_level([("w", "o")]), "wow", 0)
        == PromptEncoder(byte_level([("w", "o")]), 0).prompt("wow").ids
    )
    assert encode_prompt(byte_level([]), "", 0) == [0]


def test_text_that_spells_the_separator_is_text(encoder: PromptEncoder) -> None:
    assert 0 not in encoder.prompt("<sep>").ids
    assert texts(encoder, encoder.prompt("<sep>").ids) == list("<sep>")


def test_a_tokenizer_that_adds_a_space(encoder: PromptEncoder) -> None:
    spaced = PromptEncoder(prefixing(), 0)
    prompt = spaced.prompt("a").ids
    assert texts(spaced, prompt) == [" a"]
    assert texts(spaced, spaced.output("a", prompt, " b").ids) == [" b"]
    assert texts(spaced, spaced.output("a", prompt, "b").ids) == ["b"]
    cut = spaced.prompt("al").ids
    with pytest.raises(UserError, match="meet inside a word"):
        spaced.output("al", cut, "o")


def test_decoding_leaves_the_last_separator_out(encoder: PromptEncoder) -> None:
    ids = encoder.prompt("world").ids
    assert encoder.decode([*ids, 0]) == "world"
    assert encoder.decode([]) == ""
    assert encoder.decode([0, *ids]) == "<sep>world"


def test_a_rival_is_one_token(encoder: PromptEncoder) -> None:
    assert encoder.texts.text(encoder.rival(" wor")) == " wor"
    with pytest.raises(UserError, match=r"is 2 tokens, not one: ' wor', 'ld'"):
        encoder.rival(" world")
