"""Compare a history with the log that it was written from: each record once, unchanged."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from narthex._ir import Fact
from narthex_proving.findings import ProofDifference, offset_ahead
from narthex_proving.log_proof import named_key, same_fact, told
from narthex_proving.logs import Log, PartitionEnds
from narthex_stores import LogRow

IsWanted: TypeAlias = Callable[[Fact], bool]
"""Whether a fact belongs to a sampled key."""

PartitionOffset: TypeAlias = tuple[int, int]
"""Partition and offset."""


def history_differences(
    log: Log, rows: Sequence[LogRow], *, offsets: PartitionEnds, is_wanted: IsWanted
) -> Iterator[ProofDifference]:
    """Compare the rows of a history with the records of its log below the history's offsets."""
    yield from _ahead(log, offsets)
    kept: dict[PartitionOffset, list[Fact]] = {}
    for row in rows:
        if is_wanted(row.fact):
            kept.setdefault((row.partition, row.offset), []).append(row.fact)
    for row in log.below(offsets):
        if is_wanted(row.fact):
            found = kept.pop((row.partition, row.offset), [])
            yield from _of_record(log, row, found)
    for place, facts in kept.items():
        for fact in facts:
            yield _difference(log, place, found=fact, meant=None, what="a row of no record")


def _ahead(log: Log, offsets: PartitionEnds) -> Iterator[ProofDifference]:
    for partition, offset in sorted(offsets.items()):
        end = log.ends.get(partition, 0)
        if offset > end:
            yield offset_ahead(log.dataset, "history", partition, offset, end)


def _of_record(log: Log, row: LogRow, found: Sequence[Fact]) -> Iterator[ProofDifference]:
    place = (row.partition, row.offset)
    if not found:
        yield _difference(log, place, found=None, meant=row.fact, what="a missing row")
    for fact in found[1:]:
        yield _difference(log, place, found=fact, meant=None, what="a doubled row")
    if found and not (
        same_fact(found[0], row.fact)
        and found[0].row_id == row.fact.row_id
        and found[0].version == row.fact.version
    ):
        yield _difference(log, place, found=found[0], meant=row.fact, what="a changed row")


def _difference(
    log: Log, place: PartitionOffset, *, found: Fact | None, meant: Fact | None, what: str
) -> ProofDifference:
    either = found if meant is None else meant
    return ProofDifference(
        dataset=log.dataset,
        store="history",
        what=f"{what}, record {place[0]}/{place[1]}",
        key=None if either is None or not log.spec.keys else named_key(log.spec, either.key),
        instant=None if either is None else either.event_time,
        row_id=None if either is None else either.row_id,
        found=None if found is None else told(log.spec, found),
        meant=None if meant is None else told(log.spec, meant),
    )
