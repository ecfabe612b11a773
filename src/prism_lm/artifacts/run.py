"""Opening the folder of a finished training run, without torch."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prism_lm.artifacts.errors import UserError
from prism_lm.artifacts.manifest import Manifest, read_manifest, verify_files


@dataclass(frozen=True, kw_only=True)
class Run:
    """A trained model: a Hugging Face folder with the record of how it was made."""

    path: Path
    manifest: Manifest
    configuration: dict[str, Any]
    """The resolved settings, as in training.json."""

    @property
    def hash(self) -> str:
        """What names this run; an index made from it records it."""
        return self.manifest.hash

    @property
    def corpus_hash(self) -> str:
        """The hash of the corpus it was trained on."""
        return self.manifest.sources["corpus"]

    @property
    def is_dense(self) -> bool:
        """Whether it is the twin without prototypes."""
        return bool(self.configuration["dense"])


def open_run(path: str | Path) -> Run:
    """Opens a run and checks that its files are there with the sizes that were written.

    Raises:
        UserError: it is missing, not finished, not a run, or not whole.
    """
    folder = Path(path)
    if (folder / "training.json").is_file() and not (folder / "manifest.json").is_file():
        raise UserError(
            f"{folder} is a run that has not finished; go on with its prism train command and --resume"
        )
    manifest = read_manifest(folder, kind="run")
    verify_files(folder, manifest)
    return Run(path=folder, manifest=manifest, configuration=manifest.configuration)
