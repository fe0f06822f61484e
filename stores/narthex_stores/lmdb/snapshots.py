# mypy: disable-error-code="explicit-any"
"""Snapshots of LMDB environments: consistent copies that outlive a machine.

A snapshot is a copy of an environment between two of its transactions, with a description. So
offsets that an environment stores with its data in one transaction (an index its log offsets, a
job its input offsets) match the data in the copy too: restore it and resume from there.

Snapshots of one name are stored below `<directory>/<name>/`, each in a directory that is named by
its instant. The description is written last: without it the snapshot does not exist.
"""

import datetime as dt
import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias

import attrs
import lmdb
from pyarrow import fs

from narthex._base import Json, atomic_write, sync_path
from narthex_stores.adapters.directories import checked_name
from narthex_stores.errors import PermanentError, TransientError
from narthex_stores.lmdb.environment import (
    DATA_FILE,
    MAP_SIZE,
    MAX_READERS,
    EnvironmentMissingError,
)

_DESCRIPTION = "snapshot.json"
_STAMP = "%Y%m%dT%H%M%S.%fZ"
_CHUNK = 8 << 20

Opened: TypeAlias = Any
"""An open LMDB environment."""

Describe = Callable[[Path], Mapping[str, Json]]
"""Describes the content of a copy, given the directory of the copy."""


class NoSuchSnapshotError(PermanentError):
    """No complete snapshot of that name and id exists."""


class BrokenSnapshotError(PermanentError):
    """A snapshot was changed after it was taken."""


@attrs.frozen(kw_only=True)
class SnapshotView:
    """One snapshot.

    Attributes:
        name: The physical name of the copied environment.
        snapshot_id: Its instant; greater ones are later.
        size: The size in bytes.
        sha256: The hash of the data, in hexadecimal digits.
        state: The environment and its state; an equal state needs no other snapshot.
        said: The description from `describe`.
        files: Small files stored beside the data, and their text.
    """

    name: str
    snapshot_id: str
    size: int
    sha256: str
    state: str
    said: Mapping[str, Json]
    files: Mapping[str, str]

    @property
    def taken_at(self) -> dt.datetime:
        return dt.datetime.strptime(self.snapshot_id, _STAMP).replace(tzinfo=dt.UTC)


@attrs.frozen
class SnapshotStore:
    """Snapshots below one directory of a file system, local or of an object store."""

    system: fs.FileSystem
    directory: str

    def take(
        self,
        name: str,
        environment: Path,
        *,
        at: dt.datetime,
        describe: Describe,
        beside: Sequence[str] = (),
    ) -> SnapshotView:
        """Copy an environment between two of its transactions; writers continue.

        No other environment of that path may be open in this process.

        Args:
            name: The physical name of the environment.
            environment: The directory of the environment.
            at: The instant that names the snapshot.
            describe: Describes the copy's offsets, for people and for choosing a snapshot later.
            beside: Small files of the directory to keep with it.

        Raises:
            EnvironmentMissingError: The environment does not exist.
            TransientError: The store refused or did not answer; no snapshot was stored.
        """
        with tempfile.TemporaryDirectory(prefix="snapshot-") as making:
            state = state_of(environment)
            copy_environment(environment, Path(making))
            data = Path(making) / DATA_FILE
            taken = SnapshotView(
                name=checked_name(name),
                snapshot_id=at.astimezone(dt.UTC).strftime(_STAMP),
                size=data.stat().st_size,
                sha256=_digest(data),
                state=state,
                said=dict(describe(Path(making))),
                files={file: (environment / file).read_text() for file in beside},
            )
            try:
                self._store(taken, data)
            except OSError as error:
                raise TransientError(f"snapshot of `{name}`: {error}") from error
        return taken

    def _store(self, taken: SnapshotView, data: Path) -> None:
        place = self._place(taken.name, taken.snapshot_id)
        self.system.create_dir(place, recursive=True)
        with (
            data.open("rb") as source,
            self.system.open_output_stream(f"{place}/{DATA_FILE}") as target,
        ):
            shutil.copyfileobj(source, target, _CHUNK)
        description = attrs.asdict(taken, filter=lambda field, _: field.name in _DESCRIBED)
        with self.system.open_output_stream(f"{place}/{_DESCRIPTION}") as target:
            target.write(json.dumps(description, sort_keys=True).encode())

    def list(self, name: str | None = None) -> tuple[SnapshotView, ...]:
        """List complete snapshots, of one name or of all; by name, the latest first.

        Raises:
            TransientError: The store did not answer.
        """
        below = self.directory if name is None else f"{self.directory}/{checked_name(name)}"
        selector = fs.FileSelector(below, allow_not_found=True, recursive=True)
        try:
            found = [
                one.path
                for one in self.system.get_file_info(selector)
                if one.type is fs.FileType.File and one.base_name == _DESCRIPTION
            ]
            views = [self._read(path) for path in found]
        except OSError as error:
            raise TransientError(f"`{below}`: {error}") from error
        by_time = sorted(views, key=lambda view: view.snapshot_id, reverse=True)
        return tuple(sorted(by_time, key=lambda view: view.name))

    def _read(self, path: str) -> SnapshotView:
        *_, name, snapshot_id, _ = path.split("/")
        with self.system.open_input_stream(path) as source:
            description = json.loads(source.read())
        return SnapshotView(name=name, snapshot_id=snapshot_id, **description)

    def find(self, name: str, snapshot_id: str | None = None) -> SnapshotView:
        """Find a snapshot: that one, or the latest.

        Raises:
            NoSuchSnapshotError: The snapshot does not exist.
        """
        for view in self.list(name):
            if snapshot_id in {None, view.snapshot_id}:
                return view
        which = f"snapshot `{snapshot_id}`" if snapshot_id else "snapshot"
        raise NoSuchSnapshotError(f"`{self.directory}` has no {which} of `{name}`")

    def restore(self, view: SnapshotView, target: Path) -> None:
        """Restore a snapshot atomically into the directory `target`, which must not exist.

        Raises:
            BrokenSnapshotError: The data differs from the snapshot's hash.
            TransientError: The store did not answer, or the directory exists by now.
        """
        making = target.with_name(f".restoring-{target.name}")
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir(parents=True)
        place = self._place(view.name, view.snapshot_id)
        try:
            with (
                self.system.open_input_stream(f"{place}/{DATA_FILE}") as source,
                (making / DATA_FILE).open("xb") as data,
            ):
                shutil.copyfileobj(source, data, _CHUNK)
            if _digest(making / DATA_FILE) != view.sha256:
                raise BrokenSnapshotError(
                    f"snapshot `{view.snapshot_id}` of `{view.name}` is damaged; use another"
                )
            for name, text in view.files.items():
                atomic_write(making / name, text, mode=0o644)
            sync_path(making / DATA_FILE)
            sync_path(making)
            making.rename(target)
            sync_path(target.parent)
        except OSError as error:
            raise TransientError(f"`{target}`: {error}") from error
        finally:
            shutil.rmtree(making, ignore_errors=True)

    def prune(self, name: str, *, keep: int) -> int:
        """Delete all snapshots of a name but the latest; return the number deleted."""
        gone = self.list(name)[keep:]
        try:
            for view in gone:
                place = self._place(name, view.snapshot_id)
                # The description goes first: without it, the rest is not a snapshot.
                self.system.delete_file(f"{place}/{_DESCRIPTION}")
                self.system.delete_dir(place)
        except OSError as error:
            raise TransientError(f"`{self.directory}`: {error}") from error
        return len(gone)

    def names(self) -> tuple[str, ...]:
        """List the names that have snapshots, complete or not.

        Raises:
            TransientError: The store did not answer.
        """
        selector = fs.FileSelector(self.directory, allow_not_found=True)
        try:
            return tuple(sorted(one.base_name for one in self.system.get_file_info(selector)))
        except OSError as error:
            raise TransientError(f"`{self.directory}`: {error}") from error

    def delete(self, name: str) -> None:
        """Delete all snapshots of a name, complete or not; there may be none.

        Raises:
            TransientError: The store did not answer; some may be left.
        """
        try:
            self.system.delete_dir(f"{self.directory}/{checked_name(name)}")
        except FileNotFoundError:
            return
        except OSError as error:
            raise TransientError(f"snapshots of `{name}`: {error}") from error

    def _place(self, name: str, snapshot_id: str) -> str:
        return f"{self.directory}/{checked_name(name)}/{snapshot_id}"


_DESCRIBED = frozenset({"size", "sha256", "state", "said", "files"})


def copy_environment(path: Path, directory: Path) -> None:
    """Copy the current state of an LMDB environment into an empty directory, without free pages.

    Raises:
        EnvironmentMissingError: The environment does not exist.
    """
    with _opened(path) as environment:
        environment.copy(str(directory), compact=True)


def state_of(path: Path) -> str:
    """Return an id of the environment's current state; each transaction changes it.

    Raises:
        EnvironmentMissingError: The environment does not exist.
    """
    with _opened(path) as environment:
        transaction = environment.info()["last_txnid"]
    return f"{(path / DATA_FILE).stat().st_ino}:{transaction}"


@contextmanager
def _opened(path: Path) -> Iterator[Opened]:
    if not (path / DATA_FILE).is_file():
        raise EnvironmentMissingError(f"no LMDB environment exists at `{path}`")
    environment = lmdb.open(str(path), map_size=MAP_SIZE, readonly=True, max_readers=MAX_READERS)
    try:
        with suppress(lmdb.MapResizedError):
            environment.begin().abort()
        environment.set_mapsize(0)
        yield environment
    finally:
        environment.close()


def _digest(path: Path) -> str:
    with path.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()
