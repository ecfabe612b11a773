"""The folder of a run: begun with training.json, ended with the Hugging Face files and a manifest."""

import fcntl
import json
import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel

from prism_lm.artifacts.errors import UserError, explain_full_disk
from prism_lm.artifacts.folders import write_file_atomic
from prism_lm.artifacts.manifest import FORMAT_VERSION, MANIFEST_NAME, command_line, write_manifest
from prism_lm.corpus import Corpus
from prism_lm.training.checkpoints import FOLDER as CHECKPOINTS
from prism_lm.training.config import TrainingConfig
from prism_lm.training.serialise import differences, from_dict, to_dict

CONFIG_NAME = "training.json"
# Folders that belong to a run but are not the run: they name themselves.
NOT_OURS = (CHECKPOINTS, "index")


def load_config(path: Path) -> TrainingConfig:
    """The configuration that a training.json holds, or the one in a run's folder: train() replays it."""
    return from_dict(TrainingConfig, _read(path / CONFIG_NAME if path.is_dir() else path)["configuration"])


def is_finished(run: Path) -> bool:
    """Whether the run has its manifest."""
    return (run / MANIFEST_NAME).is_file()


def check_free(run: Path) -> None:
    """Raises UserError where something stands already."""
    if (run / CONFIG_NAME).exists():
        state = "a finished run" if is_finished(run) else "an unfinished run"
        raise UserError(f"{run} holds {state}; add --resume to go on with it, or choose another --out")
    if os.path.lexists(run) and (not run.is_dir() or any(run.iterdir())):
        raise UserError(f"{run} exists and is not a run; choose another --out")


def begin(config: TrainingConfig, sources: dict[str, str]) -> None:
    """Makes the folder and writes training.json.

    Raises:
        UserError: something stands there already.
    """
    check_free(config.out)
    config.out.mkdir(parents=True, exist_ok=True)
    record = {
        "format_version": FORMAT_VERSION,
        "configuration": to_dict(config),
        "sources": sources,
        "command": _command(),
    }
    write_file_atomic(config.out / CONFIG_NAME, json.dumps(record, indent=1) + "\n")


def _command() -> str:
    command, processes = command_line(), os.environ.get("WORLD_SIZE", "1")
    if processes != "1":
        command = f"torchrun --nproc-per-node {processes} -m prism_lm{command.removeprefix('prism')}"
    return command


def check_same(config: TrainingConfig, sources: dict[str, str]) -> None:
    """Raises UserError unless the run in config.out was begun with this configuration and these corpora."""
    old = _read(config.out / CONFIG_NAME)
    known, given = dict(old["configuration"]), to_dict(config)
    for place in ("corpus", "held_out", "out"):  # folders may move; what is in them is compared by hash
        known.pop(place), given.pop(place)
    changed = differences(known, given) + differences(old["sources"], sources)
    if changed:
        raise UserError(
            f"{config.out} was begun with other settings ({'; '.join(changed)}); resume it with its own, "
            f"as in `{old['command']} --resume`, or choose another --out"
        )


@contextmanager
def locked(run: Path) -> Generator[None]:
    """Keeps a second process from writing in the same run. The lock dies with the process."""
    run.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(run, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise UserError(
            f"another process is writing in {run}; wait for it, or choose another --out"
        ) from error
    try:
        yield
    finally:
        os.close(descriptor)


def finish(config: TrainingConfig, model: PreTrainedModel, corpus: Corpus, figures: dict[str, Any]) -> None:
    """Puts model and tokenizer beside metrics.jsonl, and the manifest last."""
    run = config.out
    part = run / ".final"  # what a kill leaves of it is written anew: only the manifest makes a run whole
    shutil.rmtree(part, ignore_errors=True)
    with explain_full_disk(run):
        model.save_pretrained(part)
        for path in Path(corpus.tokenizer_path).iterdir():
            if path.is_file():
                shutil.copyfile(path, part / path.name)
        for path in part.iterdir():
            path.chmod(0o644)  # safetensors leaves 0600
            flush(path)
            path.replace(run / path.name)
        part.rmdir()
    record = _read(run / CONFIG_NAME)
    write_manifest(
        run,
        kind="run",
        configuration=record["configuration"],
        sources=record["sources"],
        figures=figures,
        command=record["command"],
        exclude=NOT_OURS,
    )


def flush(path: Path) -> None:
    """Forces a file to the disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _read(path: Path) -> dict[str, Any]:
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UserError(
            f"{path} is not there; expected a run that was begun, so leave out --resume"
        ) from error
    except ValueError as error:
        raise UserError(f"{path} is not JSON ({error}); the run cannot be read") from error
    if not isinstance(raw, dict) or set(raw) != {"format_version", "configuration", "sources", "command"}:
        raise UserError(f"{path} is no record of a training run")
    if raw["format_version"] > FORMAT_VERSION:
        raise UserError(f"{path} has format {raw['format_version']}; install a newer prism-lm")
    return raw
