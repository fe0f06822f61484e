"""Snapshots of the indexes of a machine: taken while they are written, restored when one is lost.

They are taken by a process of its own, so that a copy of a large index keeps no writer busy. An
index contains its log offsets, so a restored one is read on from where the snapshot stood.
"""

import datetime as dt
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs
import structlog

from narthex.assets import IndexSpec, ResolvedNeed
from narthex.records import Json, from_plain
from narthex.settings import Settings, environment_of
from narthex_spark_apps.file_store import open_store
from narthex_stores import (
    OWNER_FILE,
    LmdbIndex,
    NoSuchSnapshotError,
    SnapshotStore,
    SnapshotView,
    find_owner,
    index_adapter,
    state_of,
)

log = structlog.get_logger()

_CREATE_WITHIN_S = 30.0


class NoSnapshotsError(RuntimeError):
    """The installation keeps no snapshots."""


def snapshots_of(settings: Settings) -> SnapshotStore:
    """Give where the installation keeps its snapshots.

    Raises:
        NoSnapshotsError: Nowhere.
    """
    if not settings.snapshot_dir:
        raise NoSnapshotsError("`snapshot_dir` says nowhere to keep snapshots; set it")
    return SnapshotStore(*open_store(settings.snapshot_dir.rstrip("/")))


def take_index(
    store: SnapshotStore, path: Path, *, at: dt.datetime, keep: int, only_changed: bool = False
) -> SnapshotView | None:
    """Take a snapshot of an index, and let older ones go; None when the latest says the same.

    Raises:
        EnvironmentMissingError: No index stands there.
        StoreError: The snapshot could not be kept.
    """
    latest = store.list(path.name)[:1]
    if only_changed and latest and latest[0].state == state_of(path):
        return None
    taken = store.take(path.name, path, at=at, describe=_Described(path), beside=(OWNER_FILE,))
    store.prune(path.name, keep=keep)
    return taken


@attrs.frozen
class _Described:
    """Says which offsets a copy of an index contains."""

    path: Path

    def __call__(self, copy: Path) -> Mapping[str, Json]:
        index = LmdbIndex(copy, spec_at(self.path), readonly=True)
        offsets = index.offsets()
        index.close()
        return {"offsets": {f"{topic} {number}": at for (topic, number), at in offsets.items()}}


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
    if path.is_dir():
        return
    try:
        store = snapshots_of(settings)
        latest = store.find(need.physical_name)
    except (NoSnapshotsError, NoSuchSnapshotError):
        log.warning("index_made_anew", index=need.physical_name)
        index_adapter(settings.index_dir).create(
            need.physical_name, need.spec, asset_id=need.asset_id, timeout_s=_CREATE_WITHIN_S
        )
        return
    began = time.monotonic()
    store.restore(latest, path)
    log.info(
        "index_restored",
        index=need.physical_name,
        snapshot=latest.snapshot_id,
        size=latest.size,
        took_s=round(time.monotonic() - began, 3),
    )


@attrs.define
class SnapshotRounds:
    """Every few minutes, a process that takes snapshots of the indexes that changed."""

    settings: Settings
    story: Path
    _began: float = attrs.field(factory=time.monotonic)
    _process: "subprocess.Popen[bytes] | None" = None

    def tend(self, names: Sequence[str]) -> None:
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
