# mypy: disable-error-code="explicit-any"
"""An LMDB environment with its tables: how it is opened, grows, and is made durable.

The flags: `writemap` is off, `sync` on and `metasync` off. A commit writes and flushes its pages
before the meta page that makes them visible, but does not wait for the meta page itself. So a
killed process loses and corrupts nothing that was committed, and a loss of power never corrupts.
It may undo the commits since the last `flush`, and with them their offsets, so the writer reads
those facts from the log again. With `sync` off, a loss of power could leave a meta page that
points at pages never written.

The map starts with 4 GiB of address space, not of disk: the file grows as it fills. A full map is
doubled, and the other processes adopt the new size at their next transaction. A process has 128 TiB
of address space, so that it can open thirty thousand small environments.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import lmdb

Transaction: TypeAlias = Any
"""An LMDB transaction."""

LmdbTable: TypeAlias = Any
"""A named table of an LMDB environment."""

MAP_SIZE = 4 << 30
MAX_READERS = 2048
SPARE_READERS = 8
"""How many ended read transactions an environment reuses, which saves their allocation."""
DATA_FILE = "data.mdb"
_RESIZE_WAIT_S = 30.0


class EnvironmentMissingError(FileNotFoundError):
    """The environment does not exist; only its adapter creates the directory."""


class EnvironmentBusyError(TimeoutError):
    """The environment could not grow, because readers of this process did not end in time."""


class LmdbEnvironment:
    """An open LMDB environment and its tables; at most one per process and path.

    Attributes:
        tables: The tables by name.
    """

    tables: Mapping[bytes, LmdbTable]

    def __init__(
        self, path: Path, *, tables: Sequence[bytes], readonly: bool, map_size: int = MAP_SIZE
    ) -> None:
        """Open the environment; a writer creates the tables and clears stale readers.

        Raises:
            EnvironmentMissingError: The directory does not exist, or holds no environment.
        """
        if path.is_symlink() or not path.is_dir():
            raise EnvironmentMissingError(f"no LMDB environment exists at `{path}`")
        try:
            self._env = lmdb.open(
                str(path),
                map_size=map_size,
                max_dbs=len(tables),
                max_readers=MAX_READERS,
                max_spare_txns=SPARE_READERS,
                readonly=readonly,
                create=not readonly,
                metasync=False,
                readahead=False,
            )
        except lmdb.Error as error:
            if readonly and not (path / DATA_FILE).exists():
                raise EnvironmentMissingError(f"no LMDB environment exists at `{path}`") from error
            raise
        self._env.reader_check()
        self._path = path
        self._identity = identity_of(path)
        self.tables = {name: self._env.open_db(name, create=not readonly) for name in tables}
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._running = 0
        self._resizing = False

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[Transaction]:
        """Run a transaction; it commits at the end, and an exception rolls it back."""
        transaction = self._begin(write=write)
        try:
            with transaction:
                yield transaction
        finally:
            self._end()

    def begin_read(self) -> Transaction:
        """Begin a read transaction; `end_read` must follow."""
        return self._begin(write=False)

    def end_read(self, transaction: Transaction) -> None:
        """End a read transaction."""
        transaction.abort()
        self._end()

    def _begin(self, *, write: bool) -> Transaction:
        while True:
            with self._lock:
                if self._resizing:
                    self._wait(lambda: not self._resizing)
                self._running += 1
            try:
                return self._env.begin(write=write)
            except lmdb.MapResizedError:
                self._end()
                self._resize(0)
            except BaseException:
                self._end()
                raise

    def _end(self) -> None:
        with self._lock:
            self._running -= 1
            if self._resizing:
                self._changed.notify_all()

    def grow(self) -> None:
        """Double the map, once the transactions of this process have ended."""
        self._resize(2 * self._env.info()["map_size"])

    def _resize(self, map_size: int) -> None:
        # LMDB forbids a resize while the process has a transaction; 0 adopts the current size.
        with self._lock:
            self._wait(lambda: not self._resizing)
            self._resizing = True
            try:
                self._wait(lambda: self._running == 0)
                self._env.set_mapsize(map_size)
            finally:
                self._resizing = False
                self._changed.notify_all()

    def _wait(self, until: Any) -> None:
        if not self._changed.wait_for(until, timeout=_RESIZE_WAIT_S):
            raise EnvironmentBusyError("the map cannot grow while a read snapshot is open")

    def is_replaced(self) -> bool:
        """Whether the path holds another environment, or none, by now.

        This object continues to read the environment that it opened.
        """
        return identity_of(self._path) != self._identity

    def flush(self) -> None:
        """Make all commits durable against a loss of power."""
        self._env.sync(force=True)

    def close(self) -> None:
        """Close the environment."""
        self._env.close()


def identity_of(path: Path) -> tuple[int, int] | None:
    """Return an id that a later environment at the same path does not share; None without one."""
    try:
        status = (path / DATA_FILE).stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino
