"""Create, find and remove the directories of indexes."""

from pathlib import Path

from narthex._ir import AssetKind, AssetSpec, IndexSpec
from narthex_stores.adapters.directories import DirectoryAdapter
from narthex_stores.errors import PermanentError
from narthex_stores.indexes.lmdb.index import LmdbIndex


def index_adapter(root: Path) -> DirectoryAdapter:
    """Return the adapter of the indexes below `root`.

    A new directory is created with an empty environment, so readers may open it before the writer
    does.
    """
    return DirectoryAdapter(kind=AssetKind.INDEX, root=root, fill=_fill)


def _fill(path: Path, spec: AssetSpec) -> None:
    if not isinstance(spec, IndexSpec):
        raise PermanentError(f"{type(spec).__name__} is not the spec of an index")
    index = LmdbIndex(path, spec)
    index.sync()
    index.close()
