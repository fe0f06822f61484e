"""The answers of offline queries in the world of crash tests: directories that must go in time."""

import datetime as dt
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from uuid import UUID

import attrs

from narthex_ledger import Ledger
from narthex_server.deploy.offline_files import delete_expired, remove_tree
from tests.crash.points import FaultHook

STARTED: Final = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
"""When the clock of the files begins."""


@attrs.define
class OutputFiles:
    """The directory of all answers, which outlives every process.

    Attributes:
        written: When each answer was written, in seconds.
    """

    root: Path
    written: dict[UUID, float] = attrs.field(factory=dict)

    def write(self, query: UUID, *, seconds: float) -> None:
        """Write the answer of a query, so long after the clock has begun."""
        self.written[query] = seconds
        directory = self.root / str(query)
        directory.mkdir(parents=True, exist_ok=True)
        written = (STARTED + dt.timedelta(seconds=seconds)).timestamp()
        for name in ("part-0.parquet", "part-1.parquet"):
            (directory / name).write_bytes(b"rows")
        os.utime(directory, (written, written))

    def names(self) -> set[UUID]:
        """The queries with an answer, whole or in part."""
        there = self.root.iterdir() if self.root.is_dir() else ()
        return {UUID(path.name) for path in there}

    def clear(self) -> None:
        """Delete all answers."""
        self.written.clear()
        shutil.rmtree(self.root, ignore_errors=True)

    def again(self, written: Mapping[UUID, float]) -> None:
        """Have exactly these answers."""
        self.clear()
        for query, seconds in written.items():
            self.write(query, seconds=seconds)


@attrs.frozen
class ExpiringOutputs:
    """The answers as one process deletes them: every deletion is a point."""

    files: OutputFiles
    ledger: Ledger
    fault_hook: FaultHook

    def delete(self, *, seconds: float) -> None:
        """Delete what is not kept any more, so long after the clock has begun."""
        now = STARTED + dt.timedelta(seconds=seconds)
        delete_expired(
            self.files.root, self.ledger, now=now, remove=lambda path: self._remove(path, now)
        )

    def _remove(self, path: Path, now: dt.datetime) -> None:
        def half() -> None:
            for part in sorted(path.iterdir())[:1]:
                part.unlink()
            os.utime(path, (now.timestamp(), now.timestamp()))

        self.fault_hook.call("call output destroy", lambda: remove_tree(path), half)
