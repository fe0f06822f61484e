"""The files of offline queries and training sets that nothing refers to any more.

Those of a query are deleted a week after its end, those of a training set when it is deleted.
"""

import datetime as dt
import shutil
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final
from uuid import UUID

from narthex_ledger import Ledger

UNQUEUED: Final = dt.timedelta(days=1)
"""How long files are left alone of which the ledger does not know yet: it may be about to."""


def remove_tree(path: Path) -> None:
    """Delete a directory; what cannot be deleted stays for the next time."""
    shutil.rmtree(path, ignore_errors=True)


def delete_expired(
    directory: Path,
    ledger: Ledger,
    *,
    now: dt.datetime,
    remove: Callable[[Path], None] = remove_tree,
) -> int:
    """Delete the directories of queries whose answers are not kept any more; return how many.

    Args:
        directory: The directory above those of all queries; it need not exist.
        ledger: Its clock decides which queries ended long enough ago.
        now: The present time by the clock of the files.
        remove: Deletes a directory; one that was begun is begun again after a crash.
    """
    found = {
        query: path
        for path in (directory.iterdir() if directory.is_dir() else ())
        if (query := _id_of(path.name)) is not None and _age(path, now) > UNQUEUED
    }
    expired = _expired(found, ledger)
    for query in expired:
        remove(found[query])
    return len(expired)


def delete_unnamed(directory: Path, ledger: Ledger, *, now: dt.datetime) -> int:
    """Delete the files that no training set has; return how many.

    Args:
        directory: The directory of the files; it need not exist.
        ledger: It has the sets.
        now: The present time by the clock of the files.
    """
    found = {
        training_set: path
        for path in (directory.glob("*.parquet") if directory.is_dir() else ())
        if (training_set := _id_of(path.stem)) is not None and _age(path, now) > UNQUEUED
    }
    unnamed = frozenset(found) - ledger.training_sets.known(found) if found else frozenset()
    for training_set in unnamed:
        found[training_set].unlink(missing_ok=True)
    return len(unnamed)


def _expired(queries: Collection[UUID], ledger: Ledger) -> frozenset[UUID]:
    return frozenset(queries) - ledger.offline_queries.kept(queries) if queries else frozenset()


def _id_of(name: str) -> UUID | None:
    try:
        return UUID(name)
    except ValueError:
        return None


def _age(path: Path, now: dt.datetime) -> dt.timedelta:
    return now - dt.datetime.fromtimestamp(path.stat().st_mtime, dt.UTC)
