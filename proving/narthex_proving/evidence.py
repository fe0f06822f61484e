"""The facts that explain a difference, with their places in the logs."""

from collections.abc import Callable, Iterable, Mapping

import attrs

from narthex._ir import Cell, Fact, RowId
from narthex_proving.findings import EvidenceFact
from narthex_proving.logs import Log
from narthex_reference import Reference, RowSource

_MOST = 200
"""The greatest number of facts to look up per difference."""


@attrs.frozen(kw_only=True)
class Evidence:
    """Finds facts by identity.

    Attributes:
        logs: The logs of the datasets that sources fill.
    """

    logs: Mapping[str, Log]

    def of(self, sources: Iterable[RowSource]) -> tuple[EvidenceFact, ...]:
        """Return facts with the newest state's event time, by dataset and event time."""
        return tuple(
            sorted(
                (self._made(*one) for one in sorted(sources)[:_MOST]),
                key=lambda one: (one.dataset, one.event_time, one.row_id),
            )
        )

    def of_lookup(
        self, reference: Reference, dataset: str, key: tuple[Cell, ...], as_of: int
    ) -> tuple[EvidenceFact, ...]:
        """Return the facts behind the expected result of a lookup."""
        return self.of((one.dataset, one.row_id) for one in reference.explain(dataset, key, as_of))

    def of_log(self, log: Log, is_part: Callable[[Fact], bool]) -> tuple[EvidenceFact, ...]:
        """Return the facts of a dataset's own log that contribute to an entry."""
        row_ids = dict.fromkeys(row.fact.row_id for row in log.rows if is_part(row.fact))
        return tuple(_made(log, row_id) for row_id in list(row_ids)[:_MOST])

    def _made(self, dataset: str, row_id: RowId) -> EvidenceFact:
        return _made(self.logs[dataset], row_id)


def _made(log: Log, row_id: RowId) -> EvidenceFact:
    rows = log.states(row_id)
    newest = max(rows, key=lambda row: row.fact.version)
    return EvidenceFact(
        dataset=log.dataset,
        event_time=newest.fact.event_time,
        row_id=row_id,
        places=tuple((row.partition, row.offset) for row in rows),
    )
