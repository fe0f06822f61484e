"""When this process last read datasets and features, until the ledger knows it.

A read costs one entry of a dictionary, whatever it reads; the ledger is not needed for it.
"""

import datetime as dt
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

import attrs

from narthex._query import ReadPlan
from narthex_ledger import Ledger, ReadEntity, ReadKind, TenantId
from narthex_server.background_loop import BackgroundLoop

Reads: TypeAlias = dict[tuple[str, ReadEntity], float]
"""The newest read of each entity of a branch, by the monotonic clock, seconds."""

MOST_DISTINCT: Final = 10_000
"""So many different queries are remembered as they are; then their entities are."""

EVERY_S: Final = 60.0


def read_by(plan: ReadPlan, datasets: Iterable[str]) -> frozenset[ReadEntity]:
    """Return what a query reads: the features that it asks for, and the datasets it looks up.

    The features and datasets from which these are computed follow from the lineage.
    """
    return frozenset(
        {
            *((ReadKind.FEATURE, name) for name in plan.outputs),
            *((ReadKind.DATASET, name) for name in datasets),
        }
    )


@attrs.define
class ReadInstants:
    """The newest reads of this process; any number of threads may note some."""

    _queries: dict[tuple[str, frozenset[ReadEntity]], float] = attrs.field(factory=dict)
    _entities: Reads = attrs.field(factory=dict)
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    def note(self, branch: str, entities: frozenset[ReadEntity]) -> None:
        """Remember that entities of a branch were read just now."""
        now_s = time.monotonic()
        with self._lock:
            self._queries[branch, entities] = now_s
            if len(self._queries) > MOST_DISTINCT:
                self._merge()

    def __len__(self) -> int:
        """How many queries and entities are remembered."""
        return len(self._queries) + len(self._entities)

    def take(self) -> Reads:
        """Return the newest reads, and forget them."""
        with self._lock:
            self._merge()
            taken, self._entities = self._entities, {}
        return taken

    def put_back(self, taken: Mapping[tuple[str, ReadEntity], float]) -> None:
        """Remember reads again that could not be stored."""
        with self._lock:
            for key, at_s in taken.items():
                self._entities[key] = max(at_s, self._entities.get(key, at_s))

    def _merge(self) -> None:
        for (branch, entities), at_s in self._queries.items():
            for entity in entities:
                key = (branch, entity)
                self._entities[key] = max(at_s, self._entities.get(key, at_s))
        self._queries = {}


def store_reads(ledger: Ledger, tenant: TenantId, instants: ReadInstants) -> None:
    """Store the newest reads of this process in the ledger.

    Raises:
        LedgerError: The ledger does not answer; the reads are stored in a later round.
    """
    taken = instants.take()
    now_s = time.monotonic()
    ages = {key: dt.timedelta(seconds=max(0.0, now_s - at_s)) for key, at_s in taken.items()}
    try:
        ledger.last_reads.advance(tenant, ages)
    except BaseException:
        instants.put_back(taken)
        raise


def reads_loop(ledger: Ledger, tenant: TenantId, instants: ReadInstants) -> BackgroundLoop:
    """Return the loop that stores the reads of a process each minute, and when it stops."""
    return BackgroundLoop(
        lambda: store_reads(ledger, tenant, instants),
        name="last-reads",
        event="reads_not_stored",
        pause_s=lambda: EVERY_S,
        ends_with_round=True,
    )
