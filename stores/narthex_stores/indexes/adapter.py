"""Makes, finds and removes the directories of indexes."""

from pathlib import Path

from narthex._ir import AssetKind, AssetSpec, IndexSpec
from narthex_stores.adapters.directories import DirectoryAdapter
from narthex_stores.errors import PermanentError
from narthex_stores.indexes.lmdb.index import LmdbIndex


def index_adapter(root: Path) -> DirectoryAdapter:
    """Return the adapter of the indexes below `root`.

    A new directory holds an empty environment from its first instant, so readers may open it
    before the writer has.
    """
    return DirectoryAdapter(kind=AssetKind.INDEX, root=root, fill=_fill)


def _fill(path: Path, spec: AssetSpec) -> None:
    if not isinstance(spec, IndexSpec):
        raise PermanentError(f"{type(spec).__name__} is not the spec of an index")
    index = LmdbIndex(path, spec)
    index.sync()
    index.close()
