"""The three tables of an index, as parquet: prototypes, examples, triggers.

They are written a slice of prototypes at a time, ordered by prototype, so that reading one card touches
one row group.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9)
"""Quantiles of activation that the prototypes table holds."""
FIELDS = ("current", "next", "source")
"""What triggers are counted over: the token itself, the token after it, the source of its document."""

PROTOTYPES = pa.schema(
    [
        ("prototype", pa.int64()),
        ("usage", pa.int64()),
        ("usage_share", pa.float64()),
        ("mass", pa.float64()),
        ("mass_share", pa.float64()),
        ("coverage", pa.float32()),
        ("nearest_position", pa.int64()),
        ("activation_quantiles", pa.list_(pa.float64())),
        ("raised_tokens", pa.list_(pa.int64())),
        ("raised_words", pa.list_(pa.string())),
        ("raised_logits", pa.list_(pa.float32())),
        ("lowered_tokens", pa.list_(pa.int64())),
        ("lowered_words", pa.list_(pa.string())),
        ("lowered_logits", pa.list_(pa.float32())),
    ]
)
EXAMPLES = pa.schema(
    [
        ("prototype", pa.int64()),
        ("kind", pa.string()),
        ("rank", pa.int64()),
        ("band", pa.int64()),
        ("activation", pa.float32()),
        ("position", pa.int64()),
        ("document", pa.int64()),
        ("document_id", pa.string()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("context_start", pa.int64()),
        ("context_end", pa.int64()),
        ("firings_in_document", pa.int64()),
        ("copies", pa.int64()),
    ]
)
TRIGGERS = pa.schema(
    [
        ("prototype", pa.int64()),
        ("field", pa.string()),
        ("rank", pa.int64()),
        ("value", pa.int64()),
        ("text", pa.string()),
        ("count", pa.int64()),
        ("undercount", pa.int64()),
        ("share", pa.float64()),
        ("corpus_count", pa.int64()),
        ("corpus_share", pa.float64()),
        ("lift", pa.float64()),
    ]
)
SCHEMAS = {"prototypes": PROTOTYPES, "examples": EXAMPLES, "triggers": TRIGGERS}
ROWS_PER_GROUP = 1 << 14


def write_table(folder: Path, name: str, columns: Mapping[str, Any]) -> None:
    """Writes NAME.parquet; the columns are those of the schema."""
    table = pa.table({field.name: pa.array(columns[field.name], field.type) for field in SCHEMAS[name]})
    pq.write_table(table, folder / f"{name}.parquet", row_group_size=ROWS_PER_GROUP, compression="zstd")


def read_rows(folder: Path, name: str, prototype: int) -> list[dict[str, Any]]:
    """The rows of one prototype, in the order written."""
    table = pq.read_table(folder / f"{name}.parquet", filters=[("prototype", "==", prototype)])
    return table.to_pylist()
