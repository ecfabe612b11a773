"""Reading an index: the statistics of every prototype, and the way from a prototype to its passages."""

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from prism_lm.artifacts.errors import UserError
from prism_lm.artifacts.manifest import Manifest, read_manifest, verify_files
from prism_lm.artifacts.run import Run
from prism_lm.index.loading import open_prototype_run
from prism_lm.index.tables import read_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from prism_lm.corpus import Corpus
    from prism_lm.index.cards import PrototypeCard
    from prism_lm.index.passages import Passage

FOLDER = "index"
SORT_KEYS = ("mass", "usage", "coverage")
SortKey = Literal["mass", "usage", "coverage"]


class PrototypeIndex:
    """What one pass over a corpus found out about each prototype of a run. Open it with
    `PrototypeIndex.open`."""

    def __init__(self, run: Run, manifest: Manifest, corpus_path: Path) -> None:
        self.run = run
        self.manifest = manifest
        self.path = run.path / FOLDER
        self.corpus_path = corpus_path

    @classmethod
    def open(cls, run: str | Path | Run, *, corpus: str | Path | None = None) -> "PrototypeIndex":
        """The index of a run. `corpus` says where the corpus is now, if it was moved since.

        Raises:
            UserError: there is none, it is not whole, or it was made of another model.
        """
        opened = run if isinstance(run, Run) else open_prototype_run(run)
        folder = opened.path / FOLDER
        if not folder.exists():
            given = corpus or opened.configuration.get("corpus", "CORPUS")
            raise UserError(
                f"{opened.path} has no index; make it with: prism index {opened.path} --corpus {given}"
            )
        manifest = read_manifest(folder, kind="index")
        if manifest.sources["run"] != opened.hash:
            raise UserError(
                f"{folder} is the index of another model (hash {manifest.sources['run'][:12]}, this run has "
                f"{opened.hash[:12]}); make it again with: prism index {opened.path} --corpus CORPUS "
                f"--overwrite"
            )
        verify_files(folder, manifest)
        return cls(opened, manifest, Path(corpus or manifest.configuration["corpus"]))

    @property
    def num_prototypes(self) -> int:
        """K."""
        return int(self.manifest.configuration["num_prototypes"])

    @property
    def num_tokens(self) -> int:
        """Tokens that were read."""
        return int(self.manifest.figures["tokens"])

    @property
    def is_of_training_corpus(self) -> bool:
        """Whether the passages are of the text that the model was trained on."""
        return bool(self.manifest.configuration["trained_on_this_corpus"])

    @cached_property
    def corpus(self) -> "Corpus":
        """The corpus that was read, where the passages' text comes from.

        Raises:
            UserError: it is gone, or another one stands in its place.
        """
        from prism_lm.corpus import Corpus

        if not self.corpus_path.exists():
            raise UserError(
                f"{self.corpus_path}, the corpus that {self.path} was made of, is not there; say where it "
                f"is with --corpus"
            )
        corpus = Corpus.open(self.corpus_path)
        if corpus.hash != self.manifest.sources["corpus"]:
            raise UserError(
                f"{self.path} was made of another corpus than {self.corpus_path} (hash "
                f"{self.manifest.sources['corpus'][:12]}, this one has {corpus.hash[:12]}); give that one "
                f"with --corpus"
            )
        return corpus

    def table(self, name: Literal["prototypes", "examples", "triggers"]) -> "pa.Table":
        """A whole table of the index; the columns are described in docs/looking-inside.md."""
        import pyarrow.parquet as pq

        return pq.read_table(self.path / f"{name}.parquet")

    def to_frame(self) -> Any:
        """The prototypes table as a pandas DataFrame, or as a pyarrow Table where pandas is not installed."""
        return as_frame(self.table("prototypes"))

    def leading(self, by: SortKey = "mass", limit: int = 20) -> list[dict[str, Any]]:
        """Rows of the prototypes table with the largest mass, usage or coverage, largest first."""
        if by not in SORT_KEYS:
            raise UserError(f"prototypes cannot be sorted by {by!r}; expected one of {', '.join(SORT_KEYS)}")
        order = [(by, "descending"), ("prototype", "ascending")]
        return self.table("prototypes").sort_by(order).slice(0, limit).to_pylist()

    @cached_property
    def _masses(self) -> list[float]:
        import pyarrow.parquet as pq

        return pq.read_table(self.path / "prototypes.parquet", columns=["mass"])["mass"].to_pylist()

    def rank_by_mass(self, prototype: int) -> int:
        """1 for the prototype with the largest mass; among equal masses the lower id comes first."""
        own = self._masses[prototype]
        before = sum(mass > own or (mass == own and i < prototype) for i, mass in enumerate(self._masses))
        return before + 1

    def check(self, prototype: int) -> None:
        """Raises UserError unless the prototype exists."""
        if not 0 <= prototype < self.num_prototypes:
            raise UserError(
                f"prototype {prototype} is not in the bank of {self.run.path}; expected 0 to "
                f"{self.num_prototypes - 1}"
            )

    def rows(
        self, name: Literal["prototypes", "examples", "triggers"], prototype: int
    ) -> list[dict[str, Any]]:
        """The rows of a table that belong to one prototype."""
        self.check(prototype)
        return read_rows(self.path, name, prototype)

    def neighbours(self, prototype: int, limit: int | None = None) -> "list[Passage]":
        """The passages nearest to a prototype, nearest first, each from another document."""
        from prism_lm.index.passages import read_passage

        rows = [row for row in self.rows("examples", prototype) if row["kind"] != "band"]
        return [read_passage(self.corpus, row) for row in rows[:limit]]

    def card(self, prototype: int) -> "PrototypeCard":
        """Everything the index knows about one prototype."""
        from prism_lm.index.cards import make_card

        return make_card(self, prototype)


def as_frame(table: "pa.Table") -> Any:
    """A pandas DataFrame where pandas is installed; the pyarrow Table itself otherwise."""
    try:
        import pandas as pd  # noqa: F401
    except ModuleNotFoundError:
        return table
    return table.to_pandas()
