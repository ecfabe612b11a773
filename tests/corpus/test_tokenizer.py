import json
import shutil
from pathlib import Path

import pytest
from tokenizers import Tokenizer, processors
from transformers import AutoTokenizer, ByT5Tokenizer, PreTrainedTokenizerFast

from prism_lm.artifacts import UserError
from prism_lm.corpus.encode import Encoder
from prism_lm.corpus.tokenizer import CorpusTokenizer, load_tokenizer, train_tokenizer

TEXTS = ["the fox and the dog", "größe und 東京 🦊", "the hill, the hill, the hill"]


def test_training_is_deterministic_and_starts_with_the_separator() -> None:
    first, second = train_tokenizer(TEXTS, 280), train_tokenizer(TEXTS, 280)
    assert first.backend.to_str() == second.backend.to_str()
    assert first.backend.id_to_token(0) == "<|endoftext|>"
    assert first.separator_id == 0
    assert first.vocab_size == 280
    fast = first.fast
    assert fast.eos_token_id == fast.bos_token_id == fast.pad_token_id == 0


def test_saved_tokenizer_loads_as_any_other(tokenizer: CorpusTokenizer, tokenizer_folder: Path) -> None:
    loaded = AutoTokenizer.from_pretrained(str(tokenizer_folder))
    assert loaded("the fox").input_ids == tokenizer.fast("the fox").input_ids
    assert load_tokenizer(str(tokenizer_folder)).vocab_size == tokenizer.vocab_size


def test_slow_tokenizer_is_refused_by_name(tmp_path: Path) -> None:
    ByT5Tokenizer().save_pretrained(str(tmp_path))
    with pytest.raises(UserError, match=r"ByT5Tokenizer, a slow tokenizer.*give a fast one"):
        load_tokenizer(str(tmp_path))


@pytest.mark.parametrize("content", [None, "{}", "not json"])
def test_folder_without_a_tokenizer_is_refused(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(UserError, match="no tokenizer was loaded from") as caught:
        load_tokenizer(str(tmp_path))
    assert "\n" not in str(caught.value)


def without_end_of_text(tokenizer: CorpusTokenizer, folder: Path) -> Path:
    PreTrainedTokenizerFast(tokenizer_object=tokenizer.backend).save_pretrained(str(folder))
    return folder


def test_separator_must_be_known(tokenizer: CorpusTokenizer, tmp_path: Path) -> None:
    folder = str(without_end_of_text(tokenizer, tmp_path))
    with pytest.raises(UserError, match=r"no end-of-text token.*--separator"):
        load_tokenizer(folder)
    assert load_tokenizer(folder, separator="<|endoftext|>").separator_id == 0
    with pytest.raises(UserError, match="'<none>' is not a token"):
        load_tokenizer(folder, separator="<none>")


def test_beginning_of_text_is_never_added_and_nothing_is_cut_or_padded(
    tokenizer: CorpusTokenizer, tokenizer_folder: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "with_bos"
    shutil.copytree(tokenizer_folder, folder)
    backend = Tokenizer.from_file(str(folder / "tokenizer.json"))
    backend.post_processor = processors.TemplateProcessing(
        single="<|endoftext|> $A <|endoftext|>", special_tokens=[("<|endoftext|>", 0)]
    )
    backend.enable_truncation(max_length=3)
    backend.enable_padding(length=8)
    backend.save(str(folder / "tokenizer.json"))
    assert AutoTokenizer.from_pretrained(str(folder))("the fox").input_ids[0] == 0
    texts = ["the fox ran over the hill and the dog", "x"]
    ours, plain = Encoder(load_tokenizer(str(folder))).encode(texts), Encoder(tokenizer).encode(texts)
    assert ours.ids.tolist() == plain.ids.tolist()
    assert ours.spans.tolist() == plain.spans.tolist()
    assert json.loads((folder / "tokenizer.json").read_text())["truncation"]["max_length"] == 3


def test_tokenizer_with_more_than_65536_entries_needs_wide_tokens() -> None:
    from prism_lm.corpus.layout import token_dtype

    assert [token_dtype(size) for size in (300, 65_536, 65_537)] == ["uint16", "uint16", "uint32"]
