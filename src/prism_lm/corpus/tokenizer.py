"""Tokenizers: a byte-level BPE trained here or any fast one of Hugging Face, and what separates documents."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from prism_lm.artifacts.errors import UserError
from prism_lm.artifacts.manifest import MANIFEST_NAME, read_manifest
from prism_lm.corpus.problems import printable

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

END_OF_TEXT = "<|endoftext|>"
TOKENIZER_FOLDER = "tokenizer"
SEPARATOR_ROLES = ("eos_token", "sep_token", "bos_token")


@dataclass(frozen=True, kw_only=True)
class CorpusTokenizer:
    """A tokenizer as a corpus needs it.

    `fast` is the Hugging Face object, for saving; `backend` the part of it that encodes, set up so that
    document text is plain text: nothing is cut or padded, no special token is added, none is read out of the
    text.
    """

    fast: "PreTrainedTokenizerFast"
    backend: "Tokenizer"
    separator_id: int
    vocab_size: int

    def save(self, folder: Path) -> None:
        """Writes the Hugging Face files that AutoTokenizer loads."""
        self.fast.save_pretrained(str(folder))


def train_tokenizer(texts: Iterable[str], vocab_size: int) -> CorpusTokenizer:
    """Trains a byte-level BPE: every text can be written with it, and decoding gives the text back exactly.

    The separator `<|endoftext|>` is entry 0 and serves as beginning, end and padding. The same texts give the
    same tokenizer. Text that has too few repetitions for `vocab_size` entries gives fewer.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    backend.train_from_iterator(texts, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token=END_OF_TEXT,
        eos_token=END_OF_TEXT,
        pad_token=END_OF_TEXT,
        clean_up_tokenization_spaces=False,
    )
    return as_corpus_tokenizer(fast, None, "the trained tokenizer")


def load_tokenizer(given: str, separator: str | None = None) -> CorpusTokenizer:
    """A Hugging Face tokenizer from a folder or by name, or the one of another corpus.

    Raises:
        UserError: there is none, it is a slow one (which knows no character offsets), or it has no token that
            can separate documents.
    """
    return as_corpus_tokenizer(load_fast(str(_tokenizer_folder(given) or given)), separator, given)


def load_fast(given: str) -> "PreTrainedTokenizerFast":
    """The fast Hugging Face tokenizer in a folder or of a name.

    Raises:
        UserError: there is none, or it is a slow one.
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    try:
        loaded = AutoTokenizer.from_pretrained(given, trust_remote_code=False)
    except Exception as error:
        reason = printable(str(error).strip().split("\n")[0])[:200]
        raise UserError(
            f"no tokenizer was loaded from {printable(given)} ({reason}); give a folder with tokenizer.json, "
            "the name of a model on the Hugging Face hub, or another corpus"
        ) from error
    if not isinstance(loaded, PreTrainedTokenizerFast):
        raise UserError(
            f"{printable(given)} is a {type(loaded).__name__}, a slow tokenizer without character offsets, "
            "so tokens could not be traced to the text; give a fast one (a folder with tokenizer.json)"
        )
    return loaded


def as_corpus_tokenizer(fast: "PreTrainedTokenizerFast", separator: str | None, name: str) -> CorpusTokenizer:
    """Checks a fast tokenizer and sets up a copy of its backend for plain text.

    Raises:
        UserError: no separator is known, or the one asked for is no single token of it.
    """
    from tokenizers import Tokenizer

    separator_id = _separator_id(fast, separator, name)
    # A copy: the settings below must not be saved with the tokenizer, which is used for prompts later on.
    backend = Tokenizer.from_str(fast.backend_tokenizer.to_str())
    backend.no_truncation()
    backend.no_padding()
    backend.post_processor = None
    backend.encode_special_tokens = True
    ids = backend.get_vocab(with_added_tokens=True).values()
    return CorpusTokenizer(fast=fast, backend=backend, separator_id=separator_id, vocab_size=max(ids) + 1)


def _separator_id(fast: "PreTrainedTokenizerFast", separator: str | None, name: str) -> int:
    if separator is not None:
        found = fast.get_vocab().get(separator)
        if found is None:
            raise UserError(
                printable(f"{separator!r} is not a token of {name}; give one of its tokens as --separator")
            )
        return found
    for role in SEPARATOR_ROLES:
        token = getattr(fast, role, None)
        if token is not None:
            return fast.get_vocab()[str(token)]
    raise UserError(
        printable(
            f"the tokenizer {name} has no end-of-text token to put between documents; name one: --separator"
        )
    )


def _tokenizer_folder(given: str) -> Path | None:
    """The folder to load from; None where `given` is a name on the hub."""
    path = Path(given)
    if (path / MANIFEST_NAME).is_file() and (path / TOKENIZER_FOLDER).is_dir():
        read_manifest(path, kind="corpus")
        return path / TOKENIZER_FOLDER
    return path if path.is_dir() else None
