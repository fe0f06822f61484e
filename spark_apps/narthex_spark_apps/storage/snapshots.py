"""Snapshots of the indexes and the jobs' states of a machine, restored when one is lost.

They are taken by a process of its own while writers go on, so that a large copy keeps none of them
busy. An index and a state contain the offsets of the logs that they were made of, so a restored one
is read on from where the snapshot stood.
"""

import datetime as dt
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import attrs
import structlog
from pyarrow import fs

from narthex._base import Json, from_plain
from narthex._ir import AssetKind, IndexSpec, ResolvedNeed
from narthex.settings import Settings, environment_of
from narthex_spark_apps.storage.file_store import is_url, open_store
from narthex_stores import (
    OWNER_FILE,
    LmdbIndex,
    NoSuchSnapshotError,
    Owner,
    PartitionKey,
    SnapshotStore,
    SnapshotView,
    find_owner,
    index_adapter,
    offsets_in_state,
    state_of,
)

log = structlog.get_logger()

OffsetsOf: TypeAlias = Callable[[Path], Mapping[PartitionKey, int]]
"""Says which offsets a copy contains."""

STATE = "state"
"""The directory of a checkpoint in which a job that keeps a state of its own has it."""

_CREATE_WITHIN_S = 30.0


class NoSnapshotsError(RuntimeError):
    """The installation keeps no snapshots."""


def snapshots_of(settings: Settings) -> SnapshotStore:
    """Return the snapshot store of the installation.

    Raises:
        NoSnapshotsError: Nowhere.
    """
    if not settings.snapshot_dir:
        raise NoSnapshotsError("`snapshot_dir` says nowhere to keep snapshots; set it")
    path = settings.snapshot_dir.rstrip("/")
    return SnapshotStore(*(open_store(path) if is_url(path) else (fs.LocalFileSystem(), path)))


def place_of(settings: Settings, name: str) -> Path:
    """Say where a machine has an index, or the state of the job with a checkpoint of that name."""
    if (settings.checkpoint_dir / name).is_dir():
        return settings.checkpoint_dir / name / STATE
    return settings.index_dir / name


def names_here(settings: Settings) -> tuple[str, ...]:
    """Name the indexes of a machine, and the checkpoints with a state of a job."""
    indexes = (path for path in sorted(settings.index_dir.glob("[a-z]*")) if path.is_dir())
    states = sorted(settings.checkpoint_dir.glob(f"[a-z]*/{STATE}"))
    return (
        *(path.name for path in indexes if _is_index(find_owner(path))),
        *(path.parent.name for path in states),
    )


def _is_index(owner: Owner | None) -> bool:
    return owner is not None and owner.kind is AssetKind.INDEX


def take_snapshot(
    store: SnapshotStore,
    name: str,
    path: Path,
    *,
    at: dt.datetime,
    keep: int,
    only_changed: bool = False,
) -> SnapshotView | None:
    """Take a snapshot of an index or a state, and let older ones go.

    Args:
        store: Where it is kept.
        name: Under which name; see `place_of`.
        path: Where it stands.
        at: The instant that names the snapshot.
        keep: So many of this name stay.
        only_changed: Take none, and give None, when the latest says the same.

    Raises:
        EnvironmentMissingError: Nothing stands there.
        StoreError: The snapshot could not be kept.
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
    """Says which offsets a copy of an index contains."""

    path: Path

    def __call__(self, copy: Path) -> Mapping[PartitionKey, int]:
        index = LmdbIndex(copy, spec_at(self.path), readonly=True)
        offsets = index.offsets()
        index.close()
        return offsets


def _plain(offsets: Mapping[PartitionKey, int]) -> dict[str, Json]:
    return {f"{topic} {number}": at for (topic, number), at in offsets.items()}


def spec_at(path: Path) -> IndexSpec:
    """Read what the index in a directory was made for."""
    owner = find_owner(path)
    spec = None if owner is None else from_plain(owner.spec)
    if not isinstance(spec, IndexSpec):
        raise TypeError(f"`{path}` is no directory of an index")
    return spec


def ensure_index(settings: Settings, need: ResolvedNeed) -> None:
    """Make sure that an index stands on this machine: as its latest snapshot, else empty.

    Either way its writer reads on from the offsets that it contains.

    Raises:
        StoreError: The snapshots could not be read.
    """
    path = settings.index_dir / need.physical_name
    if path.is_dir() or _restored(settings, need.physical_name, path, event="index_restored"):
        return
    log.warning("index_recreated", index=need.physical_name)
    index_adapter(settings.index_dir).create(
        need.physical_name, need.spec, asset_id=need.asset_id, timeout_s=_CREATE_WITHIN_S
    )


def ensure_state(settings: Settings, checkpoint: Path) -> None:
    """Make sure that the state of a job stands on this machine, if a snapshot of it was taken.

    The job reads on from the offsets that it contains. A state that is older than the job's log
    first takes over what the log says; one without a snapshot is made anew by the job.

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
    """Restore the latest snapshot of a name; say whether there was one."""
    try:
        store = snapshots_of(settings)
        latest = store.find(name)
    except (NoSnapshotsError, NoSuchSnapshotError):
        return False
    began = time.monotonic()
    store.restore(latest, path)
    log.info(
        event,
        name=name,
        snapshot=latest.snapshot_id,
        size=latest.size,
        took_s=round(time.monotonic() - began, 3),
    )
    return True


@attrs.define
class SnapshotRounds:
    """Every few minutes, a process that takes snapshots of what has changed."""

    settings: Settings
    story: Path
    _began: float = attrs.field(factory=time.monotonic)
    _process: "subprocess.Popen[bytes] | None" = None

    def reconcile(self, names: Sequence[str]) -> None:
        """Begin a round when it is time, and the one before is over."""
        if self._process is not None and self._process.poll() is None:
            return
        now = time.monotonic()
        is_due = now - self._began >= self.settings.snapshot_every_s
        if not is_due or not names or not self.settings.snapshot_dir:
            return
        self._began = now
        take = ("snapshots", "take", "--changed", "--json", *names)
        with self.story.open("ab") as story:
            self._process = subprocess.Popen(
                ["nice", "-n", "10", sys.executable, "-m", "narthex.cli", *take],
                stdout=story,
                stderr=story,
                env={**os.environ, **environment_of(self.settings)},
            )

    def stop(self) -> None:
        """End the round that is under way; what it has taken stays."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
