"""The files of offline queries, which are deleted a week after their queries' end."""

import datetime as dt
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Final
from uuid import UUID

from narthex_ledger import Ledger

UNQUEUED: Final = dt.timedelta(days=1)
"""How long a directory without a query is left alone: its query may be about to be queued."""


def delete_expired(directory: Path, ledger: Ledger, *, now: dt.datetime) -> int:
    """Delete the directories of queries whose answers are not kept any more; return how many.

    Args:
        directory: The directory above those of all queries; it need not exist.
        ledger: Its clock decides which queries ended long enough ago.
        now: The present time by the clock of the files.
    """
    found = {
        query: path
        for path in (directory.iterdir() if directory.is_dir() else ())
        if (query := _query_of(path)) is not None and _age(path, now) > UNQUEUED
    }
    expired = _expired(found, ledger)
    for query in expired:
        shutil.rmtree(found[query], ignore_errors=True)
    return len(expired)


def _expired(queries: Collection[UUID], ledger: Ledger) -> frozenset[UUID]:
    return frozenset(queries) - ledger.offline_queries.kept(queries) if queries else frozenset()


def _query_of(path: Path) -> UUID | None:
    try:
        return UUID(path.name)
    except ValueError:
        return None


def _age(path: Path, now: dt.datetime) -> dt.timedelta:
    return now - dt.datetime.fromtimestamp(path.stat().st_mtime, dt.UTC)
