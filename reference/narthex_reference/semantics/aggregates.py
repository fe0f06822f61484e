"""Aggregates of groups: their values for a lookup, and the instants at which those change.

There are two kinds. Where each aggregate has its own window, a group has one value, of the rows
that its windows contain as of the lookup. Where the group itself has a window, each span of it is
a separate group, with the key column `window`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, assert_never

import attrs

from narthex._formats import cell_bytes, key_bytes, keyed_row_id
from narthex._ir import (
    Aggregate,
    Cell,
    Column,
    Continuous,
    Emit,
    Hopping,
    NodeSchema,
    Session,
    Tumbling,
    Version,
)
from narthex_reference.semantics.content import Content, ContentRow, RowSource, content, key_of
from narthex_reference.semantics.grouped_rows import (
    Contribution,
    TypedSpec,
    contributions,
    typed_specs,
)
from narthex_reference.semantics.windows import lookback_of, next_end, sessions, span, windows_of

WINDOW = "window"
"""The key column with the span of a windowed group."""


@attrs.frozen(kw_only=True)
class AggregateValue:
    """The aggregates of a group as of an instant.

    Attributes:
        cells: Keys and values, by column.
        event_time: The newest change of the rows in the windows.
        sources: The facts that count.
        members: The rows that count in it, by identity.
    """

    cells: Mapping[str, Cell]
    event_time: int
    sources: frozenset[RowSource]
    members: frozenset[bytes]


class Group(Protocol):
    """The rows of one group key, ready for lookups."""

    @property
    def rows(self) -> Sequence[Contribution]:
        """Every row that ever counted."""

    @property
    def newest(self) -> int:
        """The place on the time axis of the newest row, or of the newest value of a span."""

    def values(self, asked_at: int, *, oldest: int | None = None) -> Sequence[AggregateValue]:
        """Return the values as of an instant: one value, or one per span; empty if the group was
        never seen.

        Rows before `oldest` do not count; None is the beginning of time.
        """

    def changes(self) -> Iterable[int]:
        """Return every instant at which the values may change."""


def groups(step: Aggregate, given: Content, schema: NodeSchema) -> dict[bytes, Group]:
    """Return the groups of an aggregate, by the bytes of the columns that it groups by."""
    by = _by(step, schema)
    rows: dict[bytes, list[Contribution]] = {}
    for one in contributions(step, given):
        rows.setdefault(key_of(one.row, by), []).append(one)
    specs = typed_specs(step, given)
    if step.window is not None:
        return {key: WindowedGroup(step, specs, found) for key, found in rows.items()}
    return {key: PlainGroup(step, specs, found) for key, found in rows.items()}


def _by(step: Aggregate, schema: NodeSchema) -> tuple[Column, ...]:
    """Return the columns that rows are grouped by, in the order of the key."""
    return tuple(column for column in schema.keys if step.window is None or column.name != WINDOW)


def find(
    step: Aggregate,
    found: Mapping[bytes, Group],
    schema: NodeSchema,
    key: Mapping[str, Cell],
    asked_at: int,
    *,
    oldest: int | None,
) -> AggregateValue | None:
    """Return the value of a key as of an instant, from what is not before `oldest`."""
    by = _by(step, schema)
    group = found.get(key_bytes(by, [key[column.name] for column in by]))
    if group is None:
        return None
    render = {column.name: cell_bytes(column.type) for column in schema.keys}
    for value in group.values(asked_at, oldest=oldest):
        if all(render[name](value.cells[name]) == render[name](key[name]) for name in render):
            return value
    return None


def versions(step: Aggregate, given: Content, schema: NodeSchema) -> Content:
    """Return the aggregates as keyed rows: one at each instant at which a group's values change."""
    made: list[ContentRow] = []
    for group in groups(step, given, schema).values():
        made += _versions(group, schema, counted=step.window is not None)
    return content(made, schema)


def _versions(group: Group, schema: NodeSchema, *, counted: bool) -> list[ContentRow]:
    """Return the versions of a group; if `counted`, each row creates a new version of a span."""
    made: list[ContentRow] = []
    standing: dict[bytes, object] = {}
    for instant in sorted(set(group.changes())):
        values = {_key(value, schema): value for value in group.values(instant)}
        for key, value in values.items():
            seen = (_rendered(value, schema), value.members if counted else None)
            if standing.get(key) != seen:
                made.append(_row(key, value.cells, value.sources, instant, schema))
            standing[key] = seen
        for key in [key for key in standing if key not in values]:
            del standing[key]
            made.append(_absence(made, key, instant, schema))
    return made


def _key(value: AggregateValue, schema: NodeSchema) -> bytes:
    return key_bytes(schema.keys, [value.cells[column.name] for column in schema.keys])


def _rendered(value: AggregateValue, schema: NodeSchema) -> tuple[bytes, ...]:
    return tuple(cell_bytes(column.type)(value.cells[column.name]) for column in schema.values)


def _row(
    key: bytes,
    cells: Mapping[str, Cell],
    sources: frozenset[RowSource],
    instant: int,
    schema: NodeSchema,
) -> ContentRow:
    return ContentRow(
        row_id=keyed_row_id(key, instant),
        version=Version(b""),
        event_time=instant,
        cells={**cells, schema.timestamp: instant},
        sources=sources,
    )


def _absence(
    made: Sequence[ContentRow], key: bytes, instant: int, schema: NodeSchema
) -> ContentRow:
    """Return the absence of a span that other rows were merged into."""
    last = [row for row in made if key_of(row, schema.keys) == key][-1]
    names = {column.name for column in schema.keys}
    kept = {name: cell for name, cell in last.cells.items() if name in names}
    return attrs.evolve(_row(key, kept, last.sources, instant, schema), alive=False)


def _sources(counted: Iterable[Contribution]) -> frozenset[RowSource]:
    return frozenset[RowSource]().union(*(one.row.sources for one in counted))


def _members(counted: Iterable[Contribution]) -> frozenset[bytes]:
    return frozenset(one.row.row_id for one in counted)


def _keys(step: Aggregate, one: Contribution) -> dict[str, Cell]:
    return {name: one.row.cells[name] for name in step.by}


@attrs.frozen
class PlainGroup:
    """A group whose aggregates have their own windows."""

    step: Aggregate
    specs: Sequence[TypedSpec]
    rows: Sequence[Contribution]

    @property
    def newest(self) -> int:
        """The place of the newest row."""
        return max(one.instant for one in self.rows)

    def values(self, asked_at: int, *, oldest: int | None = None) -> Sequence[AggregateValue]:
        """Return the one value; a group was seen if any window has contained a row of it."""
        rows = [one for one in self.rows if oldest is None or oldest <= one.instant]
        known_until = max(span(one.spec.window, asked_at)[1] for one in self.specs)
        seen = [
            one
            for one in rows
            if one.instant <= known_until and one.since <= self._as_of(known_until, asked_at)
        ]
        if not seen:
            return ()
        counted = [self._counted(typed, rows, asked_at) for typed in self.specs]
        cells = _keys(self.step, seen[0])
        for typed, rows in zip(self.specs, counted, strict=True):
            decays_to = asked_at - lookback_of(typed.spec.window)
            cells[typed.spec.into] = typed.value(rows, decays_to)
        changed = [one.since for one in seen] + [
            one.until
            for one in seen
            if one.until is not None and one.until <= self._as_of(known_until, asked_at)
        ]
        flat = [one for rows in counted for one in rows]
        value = AggregateValue(
            cells=cells, event_time=max(changed), sources=_sources(flat), members=_members(flat)
        )
        return (value,)

    def _counted(
        self, typed: TypedSpec, rows: Sequence[Contribution], asked_at: int
    ) -> list[Contribution]:
        begin, last = span(typed.spec.window, asked_at)
        as_of = self._as_of(last, asked_at)
        return [
            one
            for one in rows
            if (begin is None or begin <= one.instant) and one.instant <= last
            if one.is_there(as_of)
        ]

    def _as_of(self, last: int, asked_at: int) -> int:
        """Return the instant whose rows count.

        It is the last one of the window. With `along` another column than event time, a row that
        arrives after its window has closed still belongs to it.
        """
        if self.step.along is None:
            return last
        return asked_at - max(lookback_of(one.spec.window) for one in self.specs)

    def changes(self) -> Iterable[int]:
        """Return the instants at which a row enters a window, leaves it, or is replaced."""
        for typed in self.specs:
            for one in self.rows:
                yield from self._changes(typed, one)

    def _changes(self, typed: TypedSpec, one: Contribution) -> Iterable[int]:
        window = typed.spec.window
        instants = {one.instant, one.since, *(() if one.until is None else (one.until,))}
        match window:
            case Continuous(duration=duration):
                yield from instants
                if duration is not None:
                    yield one.instant + duration + 1
            case Tumbling() | Hopping():
                later = window.lookback
                yield from (next_end(window, instant) + later for instant in instants)
                if self.step.along is not None:
                    yield from (instant + later for instant in instants)
                if window.duration is not None:
                    yield next_end(window, one.instant + window.duration) + later
            case Session():
                raise TypeError("an aggregate cannot have a session of its own")
            case _:
                assert_never(window)


@attrs.frozen
class WindowedGroup:
    """A group with a window, each span of which is a separate group."""

    step: Aggregate
    specs: Sequence[TypedSpec]
    rows: Sequence[Contribution]

    @property
    def newest(self) -> int:
        """The newest change of all spans, known when all are closed."""
        return max(value.event_time for value in self.values(max(self.changes())))

    def values(self, asked_at: int, *, oldest: int | None = None) -> Sequence[AggregateValue]:
        """Return a value per span; with `emit="final"`, only of spans that are closed.

        A span counts all of its rows; its value is a row, which `oldest` leaves out.
        """
        at = asked_at - self._lookback
        known = [one for one in self.rows if one.instant <= at]
        found: list[AggregateValue] = []
        for (begin, end), rows in self._spans(known):
            told_at = rows[-1].instant
            if self.step.emit is Emit.FINAL:
                told_at = self._closes_at(end)
                if at < told_at:
                    continue
            if oldest is not None and told_at + self._lookback < oldest:
                continue
            cells = _keys(self.step, rows[0])
            cells[WINDOW] = {"begin": begin, "end": end}
            cells |= {typed.spec.into: typed.value(rows, at) for typed in self.specs}
            found.append(
                AggregateValue(
                    cells=cells,
                    event_time=told_at + self._lookback,
                    sources=_sources(rows),
                    members=_members(rows),
                )
            )
        return found

    def _spans(
        self, known: Sequence[Contribution]
    ) -> list[tuple[tuple[int, int], list[Contribution]]]:
        window = self.step.window
        if isinstance(window, Session):
            cut = sessions(known, window.gap, lambda one: one.instant)
            return [((rows[0].instant, rows[-1].instant + 1), rows) for rows in cut]
        spans: dict[tuple[int, int], list[Contribution]] = {}
        if window is not None:
            for one in known:
                for begin_and_end in windows_of(window, one.instant):
                    spans.setdefault(begin_and_end, []).append(one)
        return list(spans.items())

    @property
    def _lookback(self) -> int:
        return 0 if self.step.window is None else lookback_of(self.step.window)

    def _closes_at(self, end: int) -> int:
        """Return the instant from which on no row can enter: a session waits for its gap."""
        window = self.step.window
        return end + window.gap if isinstance(window, Session) else end

    def changes(self) -> Iterable[int]:
        """Return the instants at which a row arrives, or a span closes."""
        for one in self.rows:
            yield one.instant + self._lookback
            window = self.step.window
            if isinstance(window, Session):
                yield self._closes_at(one.instant + 1)
            elif window is not None:
                for _, end in windows_of(window, one.instant):
                    yield end + self._lookback
