"""Create, find and remove the directories of indexes."""

from pathlib import Path
from typing import Final

import attrs

from narthex._base import from_plain
from narthex._ir import AssetKind, AssetSpec, IndexSpec
from narthex_stores.adapters.directories import DirectoryAdapter, Owner, create_owned, find_owner
from narthex_stores.errors import PermanentError
from narthex_stores.indexes.lmdb.index import LmdbIndex

SHARD_PREFIX: Final = "s"
"""The directories of an index's shards are `s0`, `s1` and so on."""


def index_adapter(root: Path) -> DirectoryAdapter:
    """Return the adapter of the indexes below `root`.

    A new directory is created with an empty environment for each shard, so readers may open it
    before the writers do.
    """
    return DirectoryAdapter(kind=AssetKind.INDEX, root=root, fill=_fill)


def shard_path(path: Path, spec: IndexSpec, shard: int) -> Path:
    """Return the directory of a shard's environment; that of the index itself if it has one."""
    return path if spec.shards == 1 else path / f"{SHARD_PREFIX}{shard}"


def divided_index(name: str) -> str:
    """Return the index of a shard, given the name of the shard's snapshots; else the same name."""
    index, _, shard = name.rpartition(f"_{SHARD_PREFIX}")
    return index if index and shard.isdigit() else name


def ensure_parent(root: Path, owner: Owner) -> None:
    """Create the directory of a divided index without its shards, unless it exists."""
    if find_owner(root / owner.name) is None:
        create_owned(root, owner)


def create_shard(path: Path, shard: int) -> None:
    """Create an empty environment for a shard of a divided index, unless it has one.

    The mark of a shard names the owner of the index, so that a copy of any shard suffices to make
    the same index again.

    Args:
        path: The directory of the index.
        shard: The number of the shard.

    Raises:
        PermanentError: The directory does not exist, or is not that of an index.
    """
    owner = find_owner(path)
    spec = None if owner is None else from_plain(owner.spec)
    if owner is None or not isinstance(spec, IndexSpec):
        raise PermanentError(f"`{path}` is not the directory of an index")
    create_owned(
        path,
        attrs.evolve(owner, name=f"{SHARD_PREFIX}{shard}"),
        fill=lambda directory: _make_environment(directory, spec),
    )


def _fill(path: Path, spec: AssetSpec) -> None:
    if not isinstance(spec, IndexSpec):
        raise PermanentError(f"{type(spec).__name__} is not the spec of an index")
    if spec.shards == 1:
        _make_environment(path, spec)
        return
    for shard in range(spec.shards):
        create_shard(path, shard)


def _make_environment(path: Path, spec: IndexSpec) -> None:
    index = LmdbIndex(path, spec)
    index.sync()
    index.close()
