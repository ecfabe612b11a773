"""A tiny corpus and a tiny random prototype model as folders on disk, for tests of looking inside."""

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from transformers import GPT2Config, LlamaConfig

from prism_lm.artifacts.manifest import write_manifest
from prism_lm.corpus import Corpus, PrepareConfig
from prism_lm.corpus.prepare import prepare
from prism_lm.model import PrismConfig, PrismForCausalLM

SEQUENCE_LENGTH = 16
NUM_PROTOTYPES, ACTIVE = 24, 4
_SUBJECTS = ("the cat", "a dog", "my naïve friend", "das Mädchen", "[bold]nobody[/bold]", "<b>it</b>")
_VERBS = ("sat on", "ate", "dreamt of", "returned")
_OBJECTS = ("the mat", "日本語 text", "an 🙂 emoji", "x = f(y)", "\x1b[31mred\x1b[0m")


def texts() -> list[dict[str, str]]:
    """Short documents with copies of one another, a long one, and text that is hard to show."""
    documents = []
    for number in range(60):
        subject = _SUBJECTS[number % len(_SUBJECTS)]
        verb = _VERBS[number // 3 % len(_VERBS)]
        thing = _OBJECTS[number // 5 % len(_OBJECTS)]
        text = f"{subject} {verb} {thing}. Then {thing} {verb} {subject}."
        documents.append({"id": f"doc-{number}", "text": text, "source": f"source-{number % 3}"})
    documents += [{"id": f"copy-{n}", "text": documents[0]["text"], "source": "copies"} for n in range(4)]
    long = " ".join(document["text"] for document in documents[:20])
    return [*documents[:30], {"id": "long", "text": long, "source": "long"}, *documents[30:]]


def make_corpus(folder: Path, *, tokenizer: str | None = None) -> Corpus:
    """A corpus of `texts()` at `folder`."""
    source = folder.with_suffix(".jsonl")
    source.parent.mkdir(parents=True, exist_ok=True)
    source.write_text("".join(json.dumps(document) + "\n" for document in texts()), encoding="utf-8")
    return prepare(PrepareConfig(sources=(str(source),), out=folder, vocab_size=300, tokenizer=tokenizer))


def make_model(vocab_size: int, *, family: str = "gpt2", seed: int = 0) -> PrismForCausalLM:
    """A random model whose prototypes are near its own states, so that some fire often and some never."""
    torch.manual_seed(seed)
    common: dict[str, Any] = {"vocab_size": vocab_size, "bos_token_id": 0, "eos_token_id": 0}
    if family == "gpt2":
        text = GPT2Config(n_embd=32, n_layer=2, n_head=2, n_positions=48, initializer_range=0.4, **common)
    else:
        text = LlamaConfig(
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            max_position_embeddings=48,
            initializer_range=0.4,
            **common,
        )
    config = PrismConfig(text_config=text, num_prototypes=NUM_PROTOTYPES, active_prototypes=ACTIVE)
    model = PrismForCausalLM(config).eval()
    with torch.no_grad():
        some = torch.randint(0, vocab_size, (4, 6))
        model.bank.weight.copy_(model.model(input_ids=some).last_hidden_state.flatten(0, 1) * 0.5)
        model.bank.weight[3] = 0.0  # a zero prototype: cosine 0 with everything, never active
    return model


def make_run(
    folder: Path, corpus: Corpus, *, family: str = "gpt2", seed: int = 0, dense: bool = False
) -> Path:
    """A finished run at `folder` that says it was trained on `corpus`."""
    model = make_model(corpus.vocab_size, family=family, seed=seed)
    model.save_pretrained(folder)
    for path in Path(corpus.tokenizer_path).iterdir():
        shutil.copyfile(path, folder / path.name)
    write_manifest(
        folder,
        kind="run",
        configuration={
            "dense": dense,
            "corpus": str(corpus.path),
            "recipe": {"data": {"sequence_length": SEQUENCE_LENGTH}},
        },
        sources={"corpus": corpus.hash},
        figures={},
    )
    return folder
