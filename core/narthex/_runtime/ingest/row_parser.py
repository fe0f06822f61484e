"""Parse raw rows of a source: accept them as cells, filter them, or reject them with reasons.

The order is the documented one: preproc, then `where`, then the type check, then the sample and
the bounds of event time, then the enforced expectations.
Pushed rows are parsed here before they are accepted; each engine's implementation of a source must
agree with this one.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import attrs

from narthex._base.records import Json
from narthex._expr.python import literal_cell
from narthex._formats.debezium import Envelope, NoEnvelopeError, open_envelope
from narthex._ir.entities import (
    Cdc,
    ColumnRef,
    Constant,
    Expectation,
    Source,
    Where,
    WhereByCode,
)
from narthex._ir.facts import Cell
from narthex._ir.schema import Column, Schema
from narthex._ir.types import Bool, DataType, Optional
from narthex._runtime.enforcement import RowJudge
from narthex._runtime.ingest.preproc_steps import (
    CodeCall,
    DraftRow,
    Expression,
    Problem,
    RequiredColumn,
    Runner,
    prepare_preproc,
    run_code,
)
from narthex._runtime.ingest.sampling import is_drawn
from narthex._runtime.ingest.typed_json import TypedJson

__all__ = [
    "BrokenSourceRow",
    "FilteredRow",
    "ParsedRow",
    "Problem",
    "RejectedRow",
    "RekeyedRow",
    "RowOutcome",
    "RowParser",
    "Runner",
    "parse_row",
]


@attrs.frozen(kw_only=True)
class ParsedRow:
    """The row as cells, by field name.

    Attributes:
        alive: False ends the row of that key at that event time; the values are then null.
    """

    cells: dict[str, Cell]
    alive: bool = True


@attrs.frozen(kw_only=True)
class RekeyedRow:
    """An update that changed the key: the row ends under the old key and begins under the new."""

    ended: ParsedRow
    admitted: ParsedRow


@attrs.frozen(kw_only=True)
class FilteredRow:
    """The author's `where`, `since`, `until` or `sample` excludes the row; it is counted."""


@attrs.frozen(kw_only=True)
class RejectedRow:
    """The row cannot be a row of the dataset; `problems` lists all reasons."""

    problems: tuple[Problem, ...]


@attrs.frozen(kw_only=True)
class BrokenSourceRow:
    """The row breaks enforced expectations, at least one, and is not a row of the dataset."""

    broken: tuple[Expectation, ...]


RowOutcome: TypeAlias = ParsedRow | RekeyedRow | FilteredRow | RejectedRow | BrokenSourceRow
_Raw: TypeAlias = Mapping[str, Json]
_LEFT_OUT = FilteredRow()


def parse_row(source: Source, schema: Schema, raw: _Raw, *, now_us: int) -> RowOutcome:
    """Parse a raw row; unused columns are ignored.

    Args:
        source: The row's source, with its preproc and `where`, without author code.
        schema: The fields that the row must become.
        raw: The row as it arrived.
        now_us: The value of the expression `now()`, microseconds.
    """
    return RowParser.of(source, schema).parse_row(raw, now_us=now_us)


def _runner(runner: Runner | None) -> Runner:
    if runner is None:
        raise TypeError("the source has author code, and no worker was given to run it")
    return runner


@attrs.frozen(kw_only=True)
class RowParser:
    """The requirements of a source on its rows, prepared once for many rows."""

    source: Source
    timestamp: str
    _types: Mapping[str, DataType]
    _fields: tuple[RequiredColumn, ...]
    _keys: tuple[RequiredColumn, ...]
    _wanted: Expression | CodeCall | None
    _preprocs: tuple[tuple[str, Constant | ColumnRef | Expression | CodeCall], ...]
    _typed_json: TypedJson | None
    _judge_rows: RowJudge

    @classmethod
    def of(
        cls, source: Source, schema: Schema, enforced: Sequence[Expectation] = ()
    ) -> "RowParser":
        """Prepare the parser of a source's rows.

        Args:
            source: The source.
            schema: The fields of the dataset.
            enforced: The enforced expectations of the dataset; none where rows are only accepted,
                and judged later.
        """
        is_plain = not source.preproc and source.where is None and source.cdc is not Cdc.DEBEZIUM
        columns = tuple(Column(field.name, field.type) for field in schema.fields)
        return cls(
            source=source,
            timestamp=schema.timestamp,
            types=schema.columns,
            fields=tuple(map(RequiredColumn.of, columns)),
            keys=tuple(map(RequiredColumn.of, schema.keys)),
            wanted=_prepare_where(source.where),
            preprocs=tuple(
                (name, prepare_preproc(one, schema.columns.get(name)))
                for name, one in source.preproc
            ),
            typed_json=TypedJson.of(columns) if is_plain else None,
            judge_rows=RowJudge.of(enforced, schema.columns),
        )

    @property
    def runs_code(self) -> bool:
        """Whether parsing a row runs author code."""
        steps = (self._wanted, *(step for _, step in self._preprocs))
        return any(isinstance(step, CodeCall) for step in steps)

    def parse_row(self, raw: _Raw, *, now_us: int) -> RowOutcome:
        """Parse a raw row of a source without author code."""
        if self.source.cdc is Cdc.DEBEZIUM:
            return self._parse_envelopes([raw], [now_us], None)[0]
        row = DraftRow(raw, raw, now_us)
        rows = (row,)
        if self._preprocs:
            self._preprocess(rows, None)
        if self._wanted is not None:
            self._judge(rows, None)
        return self._finish(row)

    def parse_json(self, text: bytes) -> RowOutcome | None:
        """Parse a JSON object as `parse_rows` parses the object that `json` reads from it.

        Returns:
            None where this takes `json` and `parse_rows`: the source converts its rows, the text is
            not an object, or a value does not have the declared type already.
        """
        cells = None if self._typed_json is None else self._typed_json.read(text)
        return None if cells is None else self._accept(cells)

    def parse_rows(
        self, raws: Sequence[_Raw], *, now_us: Sequence[int], runner: Runner | None = None
    ) -> list[RowOutcome]:
        """Parse raw rows, each with its own `now()`.

        Args:
            raws: The rows as they arrived; each is parsed independently.
            now_us: The value of the expression `now()` for each, microseconds.
            runner: Runs author code, many rows at a time.
        """
        if self.source.cdc is Cdc.DEBEZIUM:
            return self._parse_envelopes(raws, now_us, runner)
        rows = [DraftRow.of(raw, now) for raw, now in zip(raws, now_us, strict=True)]
        self._preprocess(rows, runner)
        self._judge(rows, runner)
        return [self._finish(row) for row in rows]

    def _preprocess(self, rows: Sequence[DraftRow], runner: Runner | None) -> None:
        for name, step in self._preprocs:
            match step:
                case CodeCall():
                    output = Column(name, self._types[name])
                    title = f"`preproc` of `{name}`"
                    for row, cell in run_code(step, rows, output, _runner(runner), title=title):
                        row.cells[name] = cell
                case _:
                    for row in rows:
                        _take_step(row, name, step)

    def _judge(self, rows: Sequence[DraftRow], runner: Runner | None) -> None:
        """Mark the rows that `where` selects; it is not evaluated for rows with problems."""
        match self._wanted:
            case None:
                return
            case CodeCall() as call:
                output = Column("where", Optional(Bool()))
                for row, cell in run_code(call, rows, output, _runner(runner), title="`where`"):
                    row.is_wanted = cell is True
            case Expression() as expression:
                for row in rows:
                    if not row.problems:
                        seen = row.typed(expression.inputs, row.problems)
                        if not row.problems:
                            row.is_wanted = expression.value(seen, row.now_us) is True

    def _finish(self, row: DraftRow) -> RowOutcome:
        if row.problems:
            return RejectedRow(problems=tuple(row.problems))
        if not row.is_wanted:
            return _LEFT_OUT
        cells = row.typed(self._fields, row.problems)
        if row.problems:
            return RejectedRow(problems=tuple(row.problems))
        return self._accept(cells)

    def _accept(self, cells: dict[str, Cell]) -> ParsedRow | FilteredRow | BrokenSourceRow:
        sample = self.source.sample
        if sample is not None and not is_drawn(sample, cells, self._types):
            return _LEFT_OUT
        if not self._is_within(cells[self.timestamp]):
            return _LEFT_OUT
        broken = self._judge_rows.broken(cells) if self._judge_rows else ()
        return BrokenSourceRow(broken=broken) if broken else ParsedRow(cells=cells)

    def _is_within(self, event_time: Cell) -> bool:
        if not isinstance(event_time, int):
            return False
        since, until = self.source.since_us, self.source.until_us
        return (since is None or event_time >= since) and (until is None or event_time < until)

    def _parse_envelopes(
        self, raws: Sequence[_Raw], now_us: Sequence[int], runner: Runner | None
    ) -> list[RowOutcome]:
        opened = [_OpenedEnvelope.of(raw, now) for raw, now in zip(raws, now_us, strict=True)]
        after = [one.after for one in opened if one.after is not None]
        before = [one.before for one in opened if one.before is not None]
        self._preprocess([*after, *before], runner)
        self._judge(after, runner)
        return [self._finish_envelope(one) for one in opened]

    def _finish_envelope(self, opened: "_OpenedEnvelope") -> RowOutcome:
        match opened:
            case _OpenedEnvelope(refused=RejectedRow() as refused):
                return refused
            case _OpenedEnvelope(envelope=None):
                return _LEFT_OUT
            case _OpenedEnvelope(
                after=None, before=DraftRow() as before, envelope=Envelope() as envelope
            ):
                return self._deleted(before, envelope.at_us)
            case _OpenedEnvelope(
                after=DraftRow() as after, before=before, envelope=Envelope() as envelope
            ):
                return self._updated(after, before, envelope)
            case _:
                return _LEFT_OUT

    def _updated(self, after: DraftRow, before: DraftRow | None, envelope: Envelope) -> RowOutcome:
        row = self._finish(after)
        if not envelope.is_update or isinstance(row, RejectedRow):
            return row
        own = self._own_time(after)
        at_us = envelope.at_us if own is None else own
        if not after.is_wanted:  # `where` excludes the new row
            return self._end(before or after, at_us)
        ended = None if before is None else self._end(before, at_us)
        if not isinstance(row, ParsedRow) or not isinstance(ended, ParsedRow):
            return row
        return row if self._same_key(ended, row) else RekeyedRow(ended=ended, admitted=row)

    def _deleted(self, before: DraftRow, at_us: int | None) -> RowOutcome:
        own = self._own_time(before)
        known = [instant for instant in (at_us, own) if instant is not None]
        return self._end(before, max(known, default=None))

    def _same_key(self, one: ParsedRow, other: ParsedRow) -> bool:
        return all(one.cells[key.name] == other.cells[key.name] for key in self._keys)

    def _own_time(self, row: DraftRow) -> int | None:
        wanted = [field for field in self._fields if field.name == self.timestamp]
        found = row.typed(wanted, []).get(self.timestamp)
        return found if isinstance(found, int) else None

    def _end(self, row: DraftRow, at_us: int | None) -> RowOutcome:
        problems: list[Problem] = []
        known = row.typed(self._keys, problems)
        if at_us is None:
            problems.append(Problem(field="ts_ms", reason="found null; a delete has an instant"))
        if problems:
            return RejectedRow(problems=tuple(problems))
        cells = dict.fromkeys(self._types) | known | {self.timestamp: at_us}
        sample = self.source.sample
        by_key = sample is not None and known.keys() >= set(sample.using)
        if by_key and sample is not None and not is_drawn(sample, cells, self._types):
            return _LEFT_OUT
        return ParsedRow(cells=cells, alive=False) if self._is_within(at_us) else _LEFT_OUT


def _prepare_where(where: Where | WhereByCode | None) -> Expression | CodeCall | None:
    match where:
        case None:
            return None
        case WhereByCode():
            return CodeCall.of(where.code, where.required, where.offered)
        case Where():
            return Expression.of(where.expression, where.schema)


def _take_step(row: DraftRow, name: str, step: Constant | ColumnRef | Expression) -> None:
    match step:
        case Constant(value=value):
            row.cells[name] = literal_cell(value)
        case ColumnRef(column=column, path=path):
            row.rename(name, column, path)
        case Expression(inputs=inputs, value=calculate):
            before = len(row.problems)
            read = row.typed(inputs, row.problems)
            if len(row.problems) == before:
                row.cells[name] = calculate(read, row.now_us)


@attrs.frozen(kw_only=True)
class _OpenedEnvelope:
    """An envelope with its rows, or the reason why it has none."""

    envelope: Envelope | None = None
    after: DraftRow | None = None
    before: DraftRow | None = None
    refused: RejectedRow | None = None

    @classmethod
    def of(cls, raw: _Raw, now_us: int) -> "_OpenedEnvelope":
        try:
            envelope = open_envelope(raw)
        except NoEnvelopeError as error:
            problem = Problem(field="op", reason=str(error))
            return cls(refused=RejectedRow(problems=(problem,)))
        if envelope is None:
            return cls()
        after = None if envelope.after is None else DraftRow.of(envelope.after, now_us)
        before = None if envelope.before is None else DraftRow.of(envelope.before, now_us)
        return cls(envelope=envelope, after=after, before=before)
