from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from prism_lm.artifacts import UserError
from prism_lm.corpus import word_cache
from prism_lm.corpus.byte_level import byte_lengths
from prism_lm.corpus.encode import EncodedBatch, Encoder
from prism_lm.corpus.pieces import split_text
from prism_lm.corpus.tokenizer import CorpusTokenizer, as_corpus_tokenizer

PROSE = [
    "The fox ran over the hill and the dog ran after the fox.",
    "Größe, naïveté und Übermut; 東京タワーは高い。 🦊🦊 e\u0301 \r\n\r\n\ttabs   and    blanks",
]
TEXTS = st.lists(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
    | st.text(st.sampled_from("aé東🦊🏽\u200d\u0301 \r\n\0\t<|endoftext|>"), max_size=30),
    max_size=6,
)


def byte_alphabet() -> dict[str, int]:
    """As GPT-2 writes bytes: printable ones stand for themselves, the others are moved up to 256 and on."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + i): byte for i, byte in enumerate(others)}


BYTES = byte_alphabet()


def slices(batch: EncodedBatch) -> list[tuple[np.ndarray, np.ndarray]]:
    ends = np.cumsum(batch.counts)
    return [(batch.ids[e - n : e], batch.spans[e - n : e]) for e, n in zip(ends, batch.counts, strict=True)]


def slow_encoder(tokenizer: CorpusTokenizer) -> Encoder:
    """The same tokenizer, asked for all tokens and its own offsets."""
    encoder = Encoder(tokenizer)
    encoder._lengths = encoder._words = None
    return encoder


@given(TEXTS)
def test_byte_level_spans_equal_those_of_the_tokenizer(tokenizer: CorpusTokenizer, texts: list[str]) -> None:
    assert byte_lengths(tokenizer.backend) is not None
    fast, slow = Encoder(tokenizer).encode(texts), slow_encoder(tokenizer).encode(texts)
    assert fast.ids.tolist() == slow.ids.tolist()
    assert fast.counts.tolist() == slow.counts.tolist()
    assert fast.spans.tolist() == slow.spans.tolist()


BLANKS = st.text(
    st.sampled_from("a'sl1é東_ \n\t\r\v\x1c\x1f\x85\xa0\u180e\u2009\u200b\u2028\u3000\ufeff\0"), max_size=40
)


@given(st.lists(BLANKS, max_size=4))
def test_words_have_the_tokens_that_they_have_in_the_text(
    tokenizer: CorpusTokenizer, texts: list[str]
) -> None:
    encoder = Encoder(tokenizer)
    assert encoder._words is not None
    assert encoder.encode(texts).ids.tolist() == slow_encoder(tokenizer).encode(texts).ids.tolist()


def test_blanks_are_those_of_the_tokenizer(tokenizer: CorpusTokenizer) -> None:
    """Every character of Unicode between two letters."""
    characters = [chr(code) for code in range(0x11_0000) if not 0xD800 <= code < 0xE000]
    texts = [
        "".join(f"a {c}b{c} c" for c in characters[i : i + 4096]) for i in range(0, len(characters), 4096)
    ]
    for text in texts[:8] + texts[8::40]:
        parts = [
            text[start:end] for _, (start, end) in tokenizer.backend.pre_tokenizer.pre_tokenize_str(text)
        ]
        cuts = set(np.cumsum([len(part) for part in parts]).tolist())
        ours = np.cumsum([len(word) for word in word_cache._WORD.findall(text)]).tolist()
        assert set(ours) <= cuts


def test_full_cache_of_words_starts_again(
    tokenizer: CorpusTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(word_cache, "MAX_WORDS", 8)
    monkeypatch.setattr(word_cache, "LONGEST_KEPT", 4)
    texts = ["the fox ran over the hill and the dog ran after the fox", "the fox"]
    encoder = Encoder(tokenizer)
    for each in ([texts[0]], texts, ["", "another hill"], texts):
        assert encoder.encode(each).ids.tolist() == slow_encoder(tokenizer).encode(each).ids.tolist()
    assert encoder._words is not None
    assert all(len(word) <= 4 for word in encoder._words._known)


def test_words_are_looked_up_only_where_the_tokenizer_cuts_so(tokenizer: CorpusTokenizer) -> None:
    from tokenizers import AddedToken

    def grown(change: Callable[[Tokenizer], object]) -> Tokenizer:
        backend = Tokenizer.from_str(tokenizer.backend.to_str())
        change(backend)
        return backend

    byte_level = pre_tokenizers.ByteLevel
    assert word_cache.cuts_like_gpt2(tokenizer.backend)
    for change in (
        lambda b: setattr(b, "pre_tokenizer", byte_level(add_prefix_space=False, use_regex=False)),
        lambda b: setattr(b, "pre_tokenizer", byte_level(add_prefix_space=True)),
        lambda b: setattr(b, "pre_tokenizer", pre_tokenizers.Sequence([byte_level(add_prefix_space=False)])),
        lambda b: b.add_tokens([AddedToken("the fox", special=False)]),
    ):
        assert not word_cache.cuts_like_gpt2(grown(change))


@given(TEXTS)
def test_byte_level_tokens_give_the_text_back_and_cover_it(
    tokenizer: CorpusTokenizer, texts: list[str]
) -> None:
    for text, (ids, spans) in zip(texts, slices(Encoder(tokenizer).encode(texts)), strict=True):
        assert tokenizer.fast.decode(ids) == text
        covered = np.zeros(len(text), dtype=bool)
        for token, (start, end) in zip(ids, spans, strict=True):
            covered[start:end] = True
            raw = bytes(BYTES[character] for character in tokenizer.backend.id_to_token(token))
            assert raw in text[start:end].encode("utf-8")
        assert covered.all()
        assert (np.diff(spans[:, 0].astype(int)) >= 0).all()


@given(TEXTS)
def test_documents_do_not_influence_each_other(tokenizer: CorpusTokenizer, texts: list[str]) -> None:
    together = slices(Encoder(tokenizer).encode(texts))
    for text, (ids, spans) in zip(texts, together, strict=True):
        alone = Encoder(tokenizer).encode([text])
        assert alone.ids.tolist() == ids.tolist()
        assert alone.spans.tolist() == spans.tolist()


def test_spelled_special_token_is_plain_text(tokenizer: CorpusTokenizer) -> None:
    text = "before<|endoftext|>after"
    encoded = Encoder(tokenizer).encode([text])
    assert tokenizer.separator_id not in encoded.ids
    assert tokenizer.fast.decode(encoded.ids) == text


WORDS = ["the", "fox", "ran", "over", "hill", "and", "dog", "naïve", "größe"]


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=60), st.integers(8, 40))
def test_long_text_in_pieces_has_the_tokens_of_the_whole(
    tokenizer: CorpusTokenizer, words: list[str], max_piece: int
) -> None:
    text = " ".join(words)
    whole, pieces = (
        Encoder(tokenizer).encode([text, "x"]),
        Encoder(tokenizer, max_piece, max_piece * 2).encode([text, "x"]),
    )
    assert pieces.ids.tolist() == whole.ids.tolist()
    assert pieces.spans.tolist() == whole.spans.tolist()
    assert pieces.counts.tolist() == whole.counts.tolist()


@given(st.text(st.sampled_from("ab é\n東"), max_size=200), st.integers(1, 30))
def test_pieces_are_the_text_and_never_longer_than_asked(text: str, max_piece: int) -> None:
    pieces = list(split_text(text, max_piece))
    assert "".join(piece for _, piece in pieces) == text
    assert all(len(piece) <= max_piece and text[offset:].startswith(piece) for offset, piece in pieces)


def word_piece() -> Tokenizer:
    backend = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True, strip_accents=False)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(
        vocab_size=120, special_tokens=["[UNK]", "[SEP]"], show_progress=False
    )
    backend.train_from_iterator(PROSE * 3, trainer)
    return backend


def unigram() -> Tokenizer:
    backend = Tokenizer(models.Unigram())
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=120, special_tokens=["<unk>", "[SEP]"], unk_token="<unk>", show_progress=False
    )
    backend.train_from_iterator(PROSE * 3, trainer)
    return backend


def byte_level_with_prefix() -> Tokenizer:
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["[SEP]"],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    backend.train_from_iterator(PROSE, trainer)
    return backend


@pytest.mark.parametrize("make", [word_piece, unigram, byte_level_with_prefix])
def test_other_tokenizers_give_their_own_spans(make: Callable[[], Tokenizer]) -> None:
    fast = PreTrainedTokenizerFast(tokenizer_object=make(), sep_token="[SEP]")
    tokenizer = as_corpus_tokenizer(fast, None, "test")
    assert byte_lengths(tokenizer.backend) is None
    texts = ["The fox, the DOG [SEP] über 東 🦊\r\n next", "", "x"]
    for text, (ids, spans) in zip(texts, slices(Encoder(tokenizer).encode(texts)), strict=True):
        assert tokenizer.separator_id not in ids
        for token, (start, end) in zip(ids, spans, strict=True):
            assert 0 <= start <= end <= len(text)
            name = tokenizer.backend.id_to_token(int(token)).removeprefix("##").strip("▁Ġ\r\n")
            if name.isascii() and name not in ("", "[UNK]", "<unk>"):
                assert text[start:end].strip().lower() == name.lower()


def test_separator_of_one_character_that_text_is_written_with_is_refused(tokenizer: CorpusTokenizer) -> None:
    fox = as_corpus_tokenizer(tokenizer.fast, "x", "test")
    with pytest.raises(UserError, match=r"writes 'x', which is ordinary text.*--separator"):
        Encoder(fox).encode(["hex"])


def test_added_token_that_swallows_blanks_has_exact_spans(tokenizer: CorpusTokenizer) -> None:
    from tokenizers import AddedToken

    backend = Tokenizer.from_str(tokenizer.backend.to_str())
    backend.add_tokens([AddedToken("<fox>", lstrip=True, rstrip=True, special=False)])
    fast = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|endoftext|>")
    grown = as_corpus_tokenizer(fast, None, "grown")
    texts = ["über  <fox>  hill", "the dog"]
    fast_batch, slow_batch = Encoder(grown).encode(texts), slow_encoder(grown).encode(texts)
    assert fast_batch.spans.tolist() == slow_batch.spans.tolist()
    fox = fast_batch.ids.tolist().index(fast.convert_tokens_to_ids("<fox>"))
    start, end = fast_batch.spans[fox]
    assert texts[0][start:end].strip() == "<fox>"


@pytest.mark.parametrize(
    "change",
    [
        lambda backend: setattr(backend, "normalizer", normalizers.NFC()),
        lambda backend: setattr(backend, "pre_tokenizer", pre_tokenizers.ByteLevel(add_prefix_space=True)),
        lambda backend: setattr(backend, "pre_tokenizer", pre_tokenizers.Whitespace()),
        lambda backend: setattr(backend, "pre_tokenizer", None),
    ],
)
def test_lengths_are_trusted_only_where_no_byte_is_lost(
    tokenizer: CorpusTokenizer, change: Callable[[Tokenizer], None]
) -> None:
    backend = Tokenizer.from_str(tokenizer.backend.to_str())
    change(backend)
    assert byte_lengths(backend) is None


def test_lengths_are_trusted_behind_a_splitting_step(tokenizer: CorpusTokenizer) -> None:
    backend = Tokenizer.from_str(tokenizer.backend.to_str())
    split = pre_tokenizers.Split("-", "isolated")
    backend.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    assert byte_lengths(backend) is not None
