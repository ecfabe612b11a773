"""How tokens and texts are made visible."""

from prism_lm.corpus import Corpus
from prism_lm.index.words import TokenTexts, byte_alphabet


def test_every_entry_reads_as_it_decodes_or_as_its_bytes(corpus: Corpus) -> None:
    texts = TokenTexts(corpus.tokenizer)
    for token in range(len(texts)):
        shown = texts.text(token)
        decoded = corpus.tokenizer.decode([token])
        if "\ufffd" in decoded:
            assert shown.startswith("⟨")
            entry = corpus.tokenizer.convert_ids_to_tokens(token)
            assert bytes.fromhex(shown.strip("⟨⟩")) == bytes(byte_alphabet()[c] for c in entry)
        else:
            assert shown == decoded
    assert texts.text(0) == "<|endoftext|>"
    assert texts.text(99_999) == "⟨id 99999⟩"
    assert texts.text(-1) == "⟨id -1⟩"


def test_the_byte_alphabet_is_that_of_byte_level_tokenizers() -> None:
    from tokenizers.pre_tokenizers import ByteLevel

    assert set(byte_alphabet()) == set(ByteLevel.alphabet())
    assert sorted(byte_alphabet().values()) == list(range(256))
