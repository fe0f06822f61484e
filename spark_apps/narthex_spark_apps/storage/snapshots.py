"""Snapshots of a machine's indexes and job states, restored when one is lost.

Indexes on Redis servers have none: the servers' persistence and replicas protect them.

A separate process takes them while writers continue, so that a large copy blocks no writer.
An index and a state contain the offsets of their logs, so after a restore reading continues at the
offsets of the snapshot.
"""

import datetime as dt
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import attrs
import structlog
from pyarrow import fs

from narthex._base import Json, from_plain
from narthex._ir import AssetKind, IndexSpec, ResolvedNeed
from narthex.settings import Settings, environment_of
from narthex_spark_apps.storage.file_store import is_url, open_store
from narthex_stores import (
    OWNER_FILE,
    SHARD_PREFIX,
    Absent,
    BrokenSnapshotError,
    LmdbIndexStore,
    NoSuchSnapshotError,
    Owner,
    PartitionKey,
    SnapshotStore,
    SnapshotView,
    create_shard,
    ensure_parent,
    find_owner,
    index_store,
    offsets_in_state,
    shard_path,
    state_of,
)

log = structlog.get_logger()

STATE = "state"
"""The directory of a job's own state, in its checkpoint."""

_CREATE_WITHIN_S = 30.0
_OF_SHARD = f"_{SHARD_PREFIX}"


class NoSnapshotsError(RuntimeError):
    """The installation keeps no snapshots."""


def snapshots_of(settings: Settings) -> SnapshotStore:
    """Return the snapshot store of the installation.

    Raises:
        NoSnapshotsError: The installation keeps no snapshots.
    """
    if not settings.snapshot_dir:
        raise NoSnapshotsError("`snapshot_dir` is not set; set it to a directory for snapshots")
    path = settings.snapshot_dir.rstrip("/")
    return SnapshotStore(*(open_store(path) if is_url(path) else (fs.LocalFileSystem(), path)))


def place_of(settings: Settings, name: str) -> Path:
    """Return the local path of the index, shard or state that snapshots of a name are of."""
    if (settings.checkpoint_dir / name).is_dir():
        return settings.checkpoint_dir / name / STATE
    index, _, shard = name.rpartition(_OF_SHARD)
    if shard.isdigit() and not (settings.index_dir / name).is_dir():
        return settings.index_dir / index / f"{SHARD_PREFIX}{shard}"
    return settings.index_dir / name


def snapshot_name(index: str, shard: int | None) -> str:
    """Return the name of the snapshots of an index, or of one shard of a divided index."""
    return index if shard is None else f"{index}{_OF_SHARD}{shard}"


def names_here(settings: Settings) -> tuple[str, ...]:
    """Return the names of a machine's indexes, and of its checkpoints with a job state."""
    directories = (path for path in sorted(settings.index_dir.glob("[a-z]*")) if path.is_dir())
    owners = () if index_store(settings).is_shared else map(find_owner, directories)
    states = sorted(settings.checkpoint_dir.glob(f"[a-z]*/{STATE}"))
    return (
        *(name for owner in owners if owner is not None for name in _parts(owner)),
        *(path.parent.name for path in states),
    )


def _parts(owner: Owner) -> tuple[str, ...]:
    """Return the names of the shards of an index; none for another directory.

    The mark of the ledger has the kind of the store, but is not an asset.
    """
    if owner.kind is not AssetKind.INDEX or owner.is_ledger_mark:
        return ()
    spec = spec_of(owner)
    return tuple(
        snapshot_name(owner.name, None if spec.shards == 1 else shard)
        for shard in range(spec.shards)
    )


def take_snapshot(
    store: SnapshotStore,
    name: str,
    path: Path,
    *,
    at: dt.datetime,
    keep: int,
    only_changed: bool = False,
) -> SnapshotView | None:
    """Take a snapshot of an index or a state, and delete older ones.

    Args:
        store: The snapshot store.
        name: The name of the snapshot; see `place_of`.
        path: The directory to copy.
        at: The instant that names the snapshot.
        keep: How many snapshots of this name to keep.
        only_changed: Return None, without a new snapshot, if the latest one has the same state.

    Raises:
        EnvironmentMissingError: Nothing exists at the path.
        StoreError: The snapshot could not be stored.
    """
    latest = store.list(name)[:1]
    if only_changed and latest and latest[0].state == state_of(path):
        return None
    is_index = (path / OWNER_FILE).is_file()
    offsets_in: Callable[[Path], Mapping[PartitionKey, int]] = (
        _OfIndex(path) if is_index else offsets_in_state
    )
    taken = store.take(
        name,
        path,
        at=at,
        describe=lambda copy: {"offsets": _plain(offsets_in(copy))},
        beside=(OWNER_FILE,) if is_index else (),
    )
    store.prune(name, keep=keep)
    return taken


@attrs.frozen
class _OfIndex:
    """Returns the offsets that a copy of an index contains."""

    path: Path

    def __call__(self, copy: Path) -> Mapping[PartitionKey, int]:
        spec = attrs.evolve(spec_at(self.path), shards=1)
        index = LmdbIndexStore(copy.parent).open(copy.name, spec, readonly=True)
        offsets = index.offsets()
        index.close()
        return offsets


def _plain(offsets: Mapping[PartitionKey, int]) -> dict[str, Json]:
    return {f"{topic} {number}": at for (topic, number), at in offsets.items()}


def spec_at(path: Path) -> IndexSpec:
    """Read the spec of the index in a directory."""
    owner = find_owner(path)
    if owner is None:
        raise TypeError(f"`{path}` is not the directory of an index")
    return spec_of(owner)


def spec_of(owner: Owner) -> IndexSpec:
    """Return the spec of the index that an owner marks."""
    spec = from_plain(owner.spec)
    if not isinstance(spec, IndexSpec):
        raise TypeError(f"`{owner.name}` is not an index")
    return spec


def ensure_index(settings: Settings, need: ResolvedNeed, shard: int | None = None) -> None:
    """Make sure that an index exists: restore its latest snapshot, or else create an empty one.

    In both cases its writer continues from the offsets that it contains.

    Args:
        settings: The settings of the installation.
        need: The index.
        shard: The shard of a divided index that must exist; None for the only one.

    Raises:
        StoreError: The snapshots could not be read, or the index store does not answer.
    """
    store, name = index_store(settings), need.physical_name
    if shard is not None and not store.is_shared:
        _ensure_shard(settings, need, shard)
        return
    adapter = store.adapter()
    if not isinstance(adapter.probe(name, need.spec, timeout_s=_CREATE_WITHIN_S), Absent):
        return
    path = settings.index_dir / name
    if not store.is_shared and _restored(settings, name, path, event="index_restored"):
        return
    log.warning("index_recreated", index=name)
    adapter.create(name, need.spec, asset_id=need.asset_id, timeout_s=_CREATE_WITHIN_S)


def _ensure_shard(settings: Settings, need: ResolvedNeed, shard: int) -> None:
    if not isinstance(need.spec, IndexSpec):
        raise TypeError(f"asset {need.asset_id} is not an index")
    index = settings.index_dir / need.physical_name
    path = shard_path(index, need.spec, shard)
    known = snapshot_name(need.physical_name, shard)
    if path.is_dir() or _restored(settings, known, path, event="index_restored"):
        return
    log.warning("index_recreated", index=known)
    owner = Owner.of_new(need.physical_name, need.kind, need.spec, asset_id=need.asset_id)
    ensure_parent(settings.index_dir, owner)
    create_shard(index, shard)


def ensure_state(settings: Settings, checkpoint: Path) -> None:
    """Restore the state of a job if it is missing on this machine and has a snapshot.

    The job continues from the offsets that it contains. A state that is older than the job's log
    first takes over the facts of the log; without a snapshot the job creates a new state.

    Raises:
        StoreError: The snapshots could not be read.
    """
    path = checkpoint / STATE
    if path.is_dir() or _restored(settings, checkpoint.name, path, event="state_restored"):
        return
    if not checkpoint.is_dir():
        log.warning("state_recreated", state=checkpoint.name)
        checkpoint.mkdir(parents=True)


def _restored(settings: Settings, name: str, path: Path, *, event: str) -> bool:
    """Restore the latest snapshot of a name; return whether there was one."""
    try:
        store = snapshots_of(settings)
        latest = store.find(name)
    except (NoSnapshotsError, NoSuchSnapshotError):
        return False
    began = time.monotonic()
    restore_snapshot(store, latest, path)
    log.info(
        event,
        name=name,
        snapshot=latest.snapshot_id,
        size=latest.size,
        took_s=round(time.monotonic() - began, 3),
    )
    return True


def restore_snapshot(store: SnapshotStore, view: SnapshotView, path: Path) -> None:
    """Restore a snapshot into a directory that does not exist.

    If the directory is that of a shard, and its index is missing, the index is created as the owner
    of the shard knew it: other shards are restored into it, and the ledger recognises it.

    Raises:
        StoreError: The snapshot could not be read, or the directory exists.
    """
    mark = view.files.get(OWNER_FILE)
    if mark is not None and path.name != view.name:
        index = path.parent
        ensure_parent(index.parent, attrs.evolve(_owner_in(view, mark), name=index.name))
    store.restore(view, path)


def _owner_in(view: SnapshotView, mark: str) -> Owner:
    try:
        return Owner.parse(mark)
    except ValueError as error:
        raise BrokenSnapshotError(
            f"snapshot `{view.snapshot_id}` of `{view.name}` is damaged ({error}); use another"
        ) from error


@attrs.define
class SnapshotRounds:
    """A process that takes snapshots of changed stores, every few minutes."""

    settings: Settings
    log_path: Path
    _began: float = attrs.field(factory=time.monotonic)
    _process: "subprocess.Popen[bytes] | None" = None

    def reconcile(self, names: Sequence[str]) -> None:
        """Start a round if it is due and the previous one is over."""
        if self._process is not None and self._process.poll() is None:
            return
        now = time.monotonic()
        is_due = now - self._began >= self.settings.snapshot_every_s
        if not is_due or not names or not self.settings.snapshot_dir:
            return
        self._began = now
        take = ("snapshots", "take", "--changed", "--json", *names)
        with self.log_path.open("ab") as output:
            self._process = subprocess.Popen(
                ["nice", "-n", "10", sys.executable, "-m", "narthex.cli", *take],
                stdout=output,
                stderr=output,
                env={**os.environ, **environment_of(self.settings)},
            )

    def stop(self) -> None:
        """Stop the current round; its finished snapshots stay."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
