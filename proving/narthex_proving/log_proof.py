"""Compare a dataset's log with the rows that the definitions compute from the sources' logs."""

from collections.abc import Iterator, Mapping

import attrs

from narthex._base import Json
from narthex._ir import Cell, Fact, LogShape, LogSpec, RowId, Version
from narthex_proving.evidence import Evidence
from narthex_proving.findings import ProofDifference, named
from narthex_proving.logs import standing
from narthex_reference import ContentRow, Contribution, Reference, fact_of, same_cells


@attrs.frozen
class ExpectedRow:
    """A row that should exist, and the facts that it is made of."""

    fact: Fact
    row: ContentRow


def wanted_rows(reference: Reference, dataset: str, log: LogSpec) -> dict[RowId, ExpectedRow]:
    """Return the current rows that a dataset's log should have."""
    if log.shape is LogShape.CONTRIBUTIONS:
        made = reference.contributions(dataset)
        return {one.row.row_id: ExpectedRow(_contributed(one, log), one.row) for one in made}
    rows = reference.rows(dataset)
    return {row.row_id: ExpectedRow(fact_of(row, log.keys, log.values), row) for row in rows}


def _contributed(one: Contribution, log: LogSpec) -> Fact:
    cells = one.row.cells
    life: tuple[Cell, ...] = (one.since, one.until) if log.lives else ()
    return Fact(
        row_id=one.row.row_id,
        version=Version(b""),
        event_time=one.instant,
        key=tuple(cells[column.name] for column in log.keys),
        values=(*[cells[column.name] for column in log.inputs], *life),
    )


def log_differences(
    dataset: str,
    log: LogSpec,
    *,
    facts: list[Fact],
    wanted: Mapping[RowId, ExpectedRow],
    evidence: Evidence,
) -> Iterator[ProofDifference]:
    """Compare the rows of a log with the expected ones; versions are an engine's own."""
    found = standing(log, facts)
    for row_id in sorted({*found, *wanted}):
        have, want = found.get(row_id), wanted.get(row_id)
        if have is None or want is None or not same_fact(have, want.fact):
            either = have if want is None else want.fact
            if either is None:
                continue
            yield ProofDifference(
                dataset=dataset,
                store="log",
                what="a row" if log.shape is not LogShape.CONTRIBUTIONS else "a contribution",
                key=named_key(log, either.key) if log.keys else None,
                instant=either.event_time,
                row_id=row_id,
                found=None if have is None else told(log, have),
                meant=None if want is None else told(log, want.fact),
                made_of=() if want is None else evidence.of(want.row.sources),
            )


def same_fact(left: Fact, right: Fact) -> bool:
    """Whether two facts have the same content, apart from identities and versions."""
    return (
        left.event_time == right.event_time
        and left.alive == right.alive
        and same_cells(left.key, right.key)
        and same_cells(left.values, right.values)
    )


def named_key(log: LogSpec, key: tuple[Cell, ...]) -> dict[str, Json]:
    """Render a key by name."""
    names = [column.name for column in log.keys]
    return named(names, key, {column.name: column.type for column in log.keys})


def told(log: LogSpec, fact: Fact) -> dict[str, Json]:
    """Render a fact by name: alive or gone, its instant, key and values."""
    columns = (*log.keys, *log.values)
    cells = (*fact.key, *fact.values)
    types = {column.name: column.type for column in columns}
    rendered = named([column.name for column in columns], cells, types)
    return {"alive": fact.alive, log.time_field: fact.event_time, **rendered}
