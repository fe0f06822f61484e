"""Compare an index with the reference: every relevant lookup, and every stored entry.

A snapshot that is not exact may contain facts beyond its offsets. So everything is read first, then
the log up to its end; groups and keys that the facts in between concern are not compared.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial

import attrs
from numpy.random import Generator, default_rng

from narthex._base import Json
from narthex._ir import Cell, Column, DataType, Fact, IndexSpec
from narthex_proving.evidence import Evidence
from narthex_proving.findings import (
    ProofDifference,
    named,
    offset_ahead,
    same_named,
    told_instant,
)
from narthex_proving.log_proof import named_key
from narthex_proving.logs import Log, PartitionEnds
from narthex_proving.sampling import KeySample
from narthex_reference import Answer, Reference, same_cells
from narthex_stores import (
    IndexReader,
    LookupResult,
    Part,
    ShardedEntries,
    StoredDifference,
    StoredEntries,
)

MOST_INSTANTS = 24
"""The number of instants looked up per key: the newest, and others drawn from relevant ones."""

_ROWS_ONLY = sys.maxsize
_TILES_FIRST = 0


@attrs.frozen(kw_only=True, eq=False)
class Looked:
    """The part of an index that is compared.

    Attributes:
        log: The log that it is fed from, at least to the offsets that it contains.
        ends: The offsets that it contains.
        is_exact: Whether it contains no facts beyond them; else the log is read to its end.
        seed: The seed for drawing instants.
    """

    spec: IndexSpec
    log: Log
    ends: PartitionEnds
    is_exact: bool
    sample: KeySample
    seed: int

    @cached_property
    def changing(self) -> tuple[Fact, ...]:
        """The facts beyond its offsets that it may contain."""
        return () if self.is_exact else self.log.beyond(self.ends)

    @cached_property
    def changing_keys(self) -> frozenset[bytes]:
        """The keys, by `Log.key_of`, whose answers those facts may have changed."""
        return frozenset() if self.is_exact else self.log.changed_beyond(self.ends)

    def is_still(self, key: tuple[Cell, ...]) -> bool:
        """Whether no fact beyond its offsets may have changed the answers of a key."""
        return not self.changing_keys or self.log.key_of(key) not in self.changing_keys


def offset_differences(looked: Looked) -> Iterator[ProofDifference]:
    """Yield offsets that lie beyond the log's end."""
    log = looked.log
    for partition, offset in sorted(looked.ends.items()):
        end = log.ends.get(partition, 0)
        if offset > end:
            yield offset_ahead(log.dataset, "index", partition, offset, end)


def stored(
    looked: Looked, entries: StoredEntries | ShardedEntries, *, evidence: Evidence
) -> Iterator[ProofDifference]:
    """Compare the entries of an index with those computed from its log, up to its offsets."""
    log, sample = looked.log, looked.sample
    by_key = not looked.spec.by
    facts = [
        row.fact
        for row in log.below(looked.ends)
        if not by_key or sample.draws_key(log.spec.keys, row.fact.key)
    ]
    is_sample = by_key and not sample.is_whole
    for difference in entries.differences(facts, is_sample=is_sample, changing=looked.changing):
        if difference.part is Part.TILES and _tile_is_same(difference):
            continue
        yield _told(looked, difference, evidence)


def _tile_is_same(one: StoredDifference) -> bool:
    """Whether a tile differs only in the rounding of its floats."""
    return one.found is not None and one.meant is not None and same_named(one.found, one.meant)


def _told(looked: Looked, one: StoredDifference, evidence: Evidence) -> ProofDifference:
    log = looked.log.spec
    columns = (*log.keys, *log.values)
    types = {column.name: column.type for column in columns}
    key_names = looked.spec.by or tuple(column.name for column in log.keys)
    what = {
        Part.ROWS: "a stored row",
        Part.TILES: f"a tile of {(one.length_us or 0) / 1e6:g} s",
        Part.PLACES: "the position of a row",
    }[one.part]
    return ProofDifference(
        dataset=looked.log.dataset,
        store="index",
        what=what,
        key=None if one.key is None else named(key_names, one.key, types),
        instant=one.instant,
        row_id=one.row_id,
        found=_named(one.found, types),
        meant=_named(one.meant, types),
        made_of=evidence.of_log(looked.log, partial(_is_of, one)),
    )


def _is_of(one: StoredDifference, fact: Fact) -> bool:
    """Whether a fact contributes to an entry."""
    if one.row_id:
        return fact.row_id == one.row_id
    if one.key is None or one.instant is None or fact.key != one.key:
        return False
    return one.instant <= fact.event_time < one.instant + (one.length_us or 1)


def _named(
    cells: Mapping[str, Cell] | None, types: Mapping[str, DataType]
) -> dict[str, Json] | None:
    return None if cells is None else named(list(cells), list(cells.values()), types)


@attrs.frozen(kw_only=True)
class IndexLookups:
    """Lookups of an index and of the reference, in columns of equal length.

    Attributes:
        answers: The answers of the index, by how they were computed.
    """

    reference: Reference
    keys: list[tuple[Cell, ...]]
    instants: list[int]
    answers: dict[str, list[LookupResult | None]]


def read_lookups(reference: Reference, looked: Looked, snapshot: IndexReader) -> IndexLookups:
    """Look up each sampled key, at instants at which it changes and just before them.

    Instants as of which the index answers no lookup any more are left out. With tiles, each answer
    is computed once from rows alone and once from tiles where possible. A sample has a watermark of
    its own, by which the index answers too.
    """
    if not looked.sample.is_whole:
        snapshot = snapshot.with_newest(reference.newest(looked.log.dataset))
    rng = default_rng(looked.seed)
    keys: list[tuple[Cell, ...]] = []
    instants: list[int] = []
    for key, changes in reference.instants(looked.log.dataset):
        if looked.sample.draws_key(looked.log.spec.keys, key):
            chosen = _chosen(changes, rng, from_us=snapshot.answered_from)
            keys += [key] * len(chosen)
            instants += chosen
    ways = {"an answer": _ROWS_ONLY}
    if looked.spec.ladder_us:
        ways["an answer by tiles"] = _TILES_FIRST
    answers = {
        what: snapshot.reading(newest_rows).lookup(keys, instants)
        for what, newest_rows in ways.items()
    }
    return IndexLookups(reference=reference, keys=keys, instants=instants, answers=answers)


def _chosen(changes: Sequence[int], rng: Generator, *, from_us: int | None) -> list[int]:
    every = sorted({*changes, *(change - 1 for change in changes)})
    if from_us is not None:
        every = [instant for instant in every if from_us <= instant]
    if len(every) <= MOST_INSTANTS:
        return every
    drawn = sorted(int(at) for at in rng.permutation(len(every) - 1)[: MOST_INSTANTS - 1])
    return [every[at] for at in drawn] + [every[-1]]


def lookup_differences(
    looked: Looked, lookups: IndexLookups, *, evidence: Evidence
) -> Iterator[ProofDifference]:
    """Compare the answers of an index with those of the reference."""
    dataset, reference = looked.log.dataset, lookups.reference
    columns = reference.value_columns(dataset)
    wanted = reference.lookup(dataset, lookups.keys, lookups.instants)
    for what, found in lookups.answers.items():
        rows = zip(lookups.keys, lookups.instants, wanted, found, strict=True)
        for key, instant, want, have in rows:
            if looked.is_still(key) and not _same(want, have):
                yield ProofDifference(
                    dataset=dataset,
                    store="index",
                    what=what,
                    key=named_key(looked.log.spec, key),
                    instant=instant,
                    found=None if have is None else _answer(columns, have),
                    meant=None if want is None else _answer(columns, want),
                    made_of=evidence.of_lookup(reference, dataset, key, instant),
                )


def _same(want: Answer | None, have: LookupResult | None) -> bool:
    if want is None or have is None:
        return want is None and have is None
    return want.event_time == have.event_time and same_cells(want.values, have.values)


def _answer(columns: Sequence[Column], answer: Answer | LookupResult) -> dict[str, Json]:
    types = {column.name: column.type for column in columns}
    values = named(list(types), answer.values, types)
    return {**values, "event_time": told_instant(answer.event_time)}
