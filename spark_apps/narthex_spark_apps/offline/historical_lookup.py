# mypy: disable-error-code="arg-type,misc,dict-item"
"""Lookups for one bucket of keys, at given log offsets, from the states in a history."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec
import pyarrow as pa

from narthex._base import from_plain
from narthex._ir import Cell, IndexSpec
from narthex_stores import LmdbIndex, LogRow, LookupResult, fact_schema, to_rows

ReplayLimit: TypeAlias = str
"""JSON of partition to next offset; empty for the whole log."""

OUTPUT = "row long, found boolean, event_time long, cells binary"
"""The answers of a bucket as a Spark schema; cells are MessagePack."""

_ARROW_OUTPUT = pa.schema(
    [
        ("row", pa.int64()),
        ("found", pa.bool_()),
        ("event_time", pa.int64()),
        ("cells", pa.binary()),
    ]
)
_PACK = msgspec.msgpack.Encoder()


def answer_bucket(spec_json: str, spine: pa.Table, history: pa.Table) -> pa.Table:
    """Answer the lookups of one bucket of keys; runs in Spark's Python workers."""
    spec = from_plain(json.loads(spec_json))
    if not isinstance(spec, IndexSpec):
        raise TypeError("not the spec of an index")
    if spine.num_rows == 0:
        return _ARROW_OUTPUT.empty_table()
    schema = fact_schema(spec.log)
    rows = to_rows(spec.log, history.select(schema.names).cast(schema))
    keys = list(
        zip(*(_key_cells(spec, spine, place) for place in range(len(spec.log.keys))), strict=True)
    )
    as_of = spine.column("as_of").to_pylist()
    answers: list[LookupResult | None] = [None] * spine.num_rows
    with tempfile.TemporaryDirectory() as directory:
        playback = HistoricalLookup(spec, rows, directory=Path(directory))
        for limits, places in _by_limits(spine.column("limits").to_pylist()):
            playback.go_to(limits)
            # The watermark is that of the dataset, not of the bucket.
            newest = spine.column("newest")[places[0]].as_py()
            found = playback.lookup(
                [keys[p] for p in places], [as_of[p] for p in places], newest=newest
            )
            for place, one in zip(places, found, strict=True):
                answers[place] = one
        playback.close()
    return pa.table(
        {
            "row": spine.column("row"),
            "found": pa.array([answer is not None for answer in answers]),
            "event_time": pa.array(
                [answer.event_time if answer else None for answer in answers], pa.int64()
            ),
            "cells": pa.array(
                [_PACK.encode(answer.values if answer else ()) for answer in answers]
            ),
        }
    ).cast(_ARROW_OUTPUT)


def _key_cells(spec: IndexSpec, spine: pa.Table, place: int) -> list[Cell]:
    column = spec.log.keys[place]
    found: list[Cell] = (
        spine.column(f"k_{column.name}")
        .cast(fact_schema(spec.log).field(f"k_{column.name}").type)
        .to_pylist()
    )
    return found


def _by_limits(texts: Sequence[ReplayLimit]) -> list[tuple[dict[int, int] | None, list[int]]]:
    """Group places by their offsets, the earliest first, those without offsets last."""
    by_text: dict[ReplayLimit, list[int]] = {}
    for place, text in enumerate(texts):
        by_text.setdefault(text, []).append(place)
    parsed = [
        ({int(p): int(o) for p, o in json.loads(text).items()} if text else None, places)
        for text, places in by_text.items()
    ]
    return sorted(parsed, key=lambda one: (one[0] is None, sum((one[0] or {}).values())))


class HistoricalLookup:
    """An index that is moved to given log offsets, forward where possible."""

    def __init__(self, spec: IndexSpec, rows: Sequence[LogRow], *, directory: Path) -> None:
        """Start with an empty index below `directory`."""
        self._spec = spec
        self._directory = directory
        self._rows: dict[int, list[LogRow]] = {}
        for row in sorted(rows, key=lambda r: (r.partition, r.offset)):
            self._rows.setdefault(row.partition, []).append(row)
        self._index = self._fresh(0)
        self._applied = dict.fromkeys(self._rows, 0)
        self._round = 0

    def _fresh(self, number: int) -> LmdbIndex:
        path = self._directory / str(number)
        path.mkdir()
        return LmdbIndex(path, self._spec)

    def go_to(self, limits: Mapping[int, int] | None) -> None:
        """Apply exactly the facts below these next offsets; None applies all of them."""
        ends = {
            partition: len(rows) if limits is None else _end(rows, limits.get(partition, 0))
            for partition, rows in self._rows.items()
        }
        if any(ends[p] < self._applied[p] for p in ends):
            self._index.close()
            self._round += 1
            self._index = self._fresh(self._round)
            self._applied = dict.fromkeys(self._rows, 0)
        facts = [
            row.fact for p, rows in self._rows.items() for row in rows[self._applied[p] : ends[p]]
        ]
        if facts:
            self._index.apply(facts, offsets={}, epoch=1)
        self._applied = ends

    def lookup(
        self, keys: Sequence[tuple[Cell, ...]], as_of: Sequence[int], *, newest: int | None
    ) -> list[LookupResult | None]:
        """Look up with the reader that online queries use, by the newest row of the dataset."""
        with self._index.read() as reader:
            return reader.with_newest(newest).lookup(keys, as_of)

    def close(self) -> None:
        """Close the index."""
        self._index.close()


def _end(rows: Sequence[LogRow], limit: int) -> int:
    """Return the number of rows below a next offset; rows are sorted by offset."""
    low, high = 0, len(rows)
    while low < high:
        middle = (low + high) // 2
        if rows[middle].offset < limit:
            low = middle + 1
        else:
            high = middle
    return low
