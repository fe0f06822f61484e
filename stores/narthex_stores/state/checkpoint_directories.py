"""The checkpoint directories from which Spark resumes jobs."""

from pathlib import Path

from narthex._ir import AssetKind
from narthex_stores.adapters.directories import DirectoryAdapter


def checkpoint_adapter(root: Path) -> DirectoryAdapter:
    """Return the adapter of the checkpoints below `root`.

    Spark creates its own files below the directory: `live` and `backfill`.
    """
    return DirectoryAdapter(kind=AssetKind.CHECKPOINT, root=root)
