"""What every folder that prism-lm leaves on disk has in common: errors, whole-or-absent writes, manifests.

Nothing here imports torch.
"""

from prism_lm.artifacts.errors import GateFailed, PrismError, UserError
from prism_lm.artifacts.folders import new_folder, write_file_atomic
from prism_lm.artifacts.manifest import (
    FORMAT_VERSION,
    MANIFEST_NAME,
    Manifest,
    read_manifest,
    verify_files,
    write_manifest,
)
from prism_lm.artifacts.progress import SILENT, Progress, Silent
from prism_lm.artifacts.units import format_bytes, format_count, format_seconds

__all__ = [
    "FORMAT_VERSION",
    "MANIFEST_NAME",
    "SILENT",
    "GateFailed",
    "Manifest",
    "PrismError",
    "Progress",
    "Silent",
    "UserError",
    "format_bytes",
    "format_count",
    "format_seconds",
    "new_folder",
    "read_manifest",
    "verify_files",
    "write_file_atomic",
    "write_manifest",
]
