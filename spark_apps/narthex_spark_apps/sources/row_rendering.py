# mypy: disable-error-code="arg-type"
"""Raw rows parsed by `narthex._runtime.ingest.row_parser`, and rendered as records.

Every source uses them: bounded runs and files in Spark's Python workers, live runs in stages.
"""

import contextlib
import enum
import json
import struct
from collections.abc import Callable, Sequence
from typing import Final, assert_never

import attrs

from narthex._analysis import columns_of
from narthex._base import GREATEST_DEPTH, Json, from_plain, is_deeper
from narthex._formats import key_encoder, keyed_row_id
from narthex._formats.avro import FactCodec, fact_codec
from narthex._ir import (
    Cdc,
    Cell,
    Expectation,
    Fact,
    LogShape,
    RowId,
    SourceJobSpec,
    Version,
    is_quarantined,
    position,
)
from narthex._runtime.ingest import (
    BrokenSourceRow,
    FilteredRow,
    ParsedRow,
    Problem,
    RejectedRow,
    RekeyedRow,
    RowOutcome,
    RowParser,
    Runner,
)
from narthex._runtime.workers import WorkerPool
from narthex_spark_apps.facts.broken_counts import breaks, count_broken
from narthex_spark_apps.platform.json_values import plain
from narthex_spark_apps.platform.record_batches import RecordCells
from narthex_stores import GREATEST_RECORD_BYTES

_APPENDED = Version(b"\x00")
_MALFORMED = "the record is not a JSON object"

_BEGINNING: Final = 64 * 1024
"""How many characters of a row are stored if it is too large for the quarantine."""

UNFIT: Final = (ArithmeticError, LookupError, RecursionError, TypeError, ValueError, struct.error)
"""Errors of a row that a step cannot handle: every repetition would raise them again."""


@attrs.frozen(kw_only=True)
class RawRowPosition:
    """The position of a raw row in its source; `rest` as in `narthex._ir.facts.Position`."""

    partition: int = 0
    offset: int = 0
    ordinal: int = 0
    rest: bytes = b""


class PayloadKind(enum.Enum):
    """The form of a quarantined row: a JSON object, the record's text, or its bytes."""

    ROW = "row"
    TEXT = "text"
    BASE64 = "base64"


@attrs.frozen(kw_only=True)
class Arrived:
    """A raw row as it arrived.

    Attributes:
        row: The object, or its JSON; a text if it could not be read as an object.
        now_us: The value of the expression `now()` for the row, microseconds.
        unreadable: Why it could not be read, if so.
        kind: The form of the text, if it could not be read.
    """

    place: RawRowPosition
    row: dict[str, Json] | bytes | str
    now_us: int
    unreadable: str = _MALFORMED
    kind: PayloadKind = PayloadKind.TEXT


@attrs.define
class RowRenderer:
    """Turns raw rows of one source into records of its log or of its quarantine.

    Attributes:
        newest_us: The greatest event time of the admitted rows.
        broken: The counts of rows that break expectations, as in `facts.broken_counts`.
    """

    spec: SourceJobSpec
    source_id: str
    output: str
    quarantine: str
    row_parser: RowParser
    newest_us: int | None = None
    broken: dict[str, int] = attrs.field(factory=dict)
    _workers: WorkerPool | None = None
    _codec: FactCodec = attrs.field(init=False)
    _key: Callable[[Sequence[Cell]], bytes] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        # Looked up once: their arguments are large and expensive to hash for each row.
        self._codec = fact_codec(self.spec.log)
        self._key = key_encoder(self.spec.log.keys)

    @classmethod
    def of(cls, spec: str, *, source_id: str, output: str, quarantine: str) -> "RowRenderer":
        """Return a renderer for the source job with this spec, as plain JSON text."""
        found = from_plain(json.loads(spec))
        if not isinstance(found, SourceJobSpec):
            raise TypeError("not the spec of a source")
        source = found.source
        if source.cdc is Cdc.NATIVE:
            # `delta_changes` renders a table's own change feed as envelopes.
            source = attrs.evolve(source, cdc=Cdc.DEBEZIUM)
        return cls(
            spec=found,
            source_id=source_id or found.source_id,
            output=output,
            quarantine=quarantine,
            row_parser=RowParser.of(source, found.schema, found.enforced),
        )

    def render(self, rows: Sequence[Arrived]) -> list[tuple[RecordCells, ...]]:
        """Return the records of each row: none if it is filtered, two if its key has changed.

        Code of the author is called once for all rows.
        """
        typed = [
            self.row_parser.parse_json(one.row) if isinstance(one.row, bytes) else None
            for one in rows
        ]
        others = [
            _decoded(one) for one, outcome in zip(rows, typed, strict=True) if outcome is None
        ]
        rendered = iter(self._rendered(others))
        return [
            next(rendered) if outcome is None else self._records(one, outcome)
            for one, outcome in zip(rows, typed, strict=True)
        ]

    def _rendered(self, rows: Sequence[Arrived]) -> list[tuple[RecordCells, ...]]:
        """Render rows that are objects or unreadable texts."""
        parsed = iter(
            self._parsed([(one.row, one.now_us) for one in rows if isinstance(one.row, dict)])
        )
        return [
            self._records(one, next(parsed))
            if isinstance(one.row, dict)
            else (self._refusal(one, str(one.row), one.unreadable),)
            for one in rows
        ]

    def _parsed(self, rows: Sequence[tuple[dict[str, Json], int]]) -> list[RowOutcome]:
        """Validate rows; a row that cannot be evaluated is refused and blocks no other row."""
        if not rows:
            return []
        try:
            return self.row_parser.parse_rows(
                [row for row, _ in rows],
                now_us=[now_us for _, now_us in rows],
                runner=self._runner(),
            )
        except UNFIT as error:
            if len(rows) == 1:
                reason = f"the row cannot be checked: {error}"
                return [RejectedRow(problems=(Problem(field="", reason=reason),))]
            middle = len(rows) // 2
            return self._parsed(rows[:middle]) + self._parsed(rows[middle:])

    def close(self) -> None:
        """Stop the worker that runs code of the author, if it was started."""
        if self._workers is not None:
            self._workers.close()
            self._workers = None

    def _runner(self) -> Runner | None:
        if self._workers is None and self.row_parser.runs_code:
            self._workers = WorkerPool(size=1)
        return self._workers

    def _records(self, arrived: Arrived, admission: RowOutcome) -> tuple[RecordCells, ...]:
        place = arrived.place
        match admission:
            case FilteredRow():
                return ()
            case RejectedRow(problems=problems):
                reason = "; ".join(str(problem) for problem in problems)
                return (self._refused(arrived, reason, field=problems[0].field),)
            case BrokenSourceRow(broken=broken):
                return self._broken(arrived, broken)
            case ParsedRow() | RekeyedRow():
                try:
                    return self._facts(self._position(place), admission)
                except UNFIT as error:
                    return (self._refused(arrived, f"the row cannot be stored: {error}"),)
            case _:
                assert_never(admission)

    def _broken(self, arrived: Arrived, broken: tuple[Expectation, ...]) -> tuple[RecordCells, ...]:
        count_broken(self.broken, broken)
        if not is_quarantined(broken):
            return ()
        titles = [one.title for one in broken]
        field = columns_of(broken[0])[0]
        return (self._refused(_decoded(arrived), breaks(titles), field=field, broken=titles),)

    def _refused(
        self,
        arrived: Arrived,
        reason: str,
        *,
        field: str | None = None,
        broken: Sequence[str] = (),
    ) -> RecordCells:
        payload = json.dumps(arrived.row, default=plain)
        of_row = attrs.evolve(arrived, kind=PayloadKind.ROW)
        return self._refusal(of_row, payload, reason, field=field, broken=broken)

    def _facts(self, at: bytes, admission: ParsedRow | RekeyedRow) -> tuple[RecordCells, ...]:
        """Render the facts of a row.

        Raises:
            ValueError: A record is too large, or has a cell that the log cannot hold.
            TypeError: A cell has a type that the log cannot hold.
        """
        if isinstance(admission, RekeyedRow):
            made = [admission.ended, admission.admitted]
        else:
            made = [admission]
        records = tuple(self._fact(at, one) for one in made)
        for _, key, value in records:
            if len(key) + len(value) > GREATEST_RECORD_BYTES:
                raise ValueError(f"it has {len(key) + len(value)} bytes in the log")
        self._note_newest(made)
        return records

    def _note_newest(self, made: Sequence[ParsedRow]) -> None:
        instants = [one.cells[self.spec.log.time_field] for one in made]
        known = [instant for instant in (*instants, self.newest_us) if isinstance(instant, int)]
        self.newest_us = max(known, default=None)

    def _position(self, place: RawRowPosition) -> bytes:
        return position(self.source_id, place.partition, place.offset, place.ordinal, place.rest)

    def _fact(self, place: bytes, admitted: ParsedRow) -> RecordCells:
        log, cells = self.spec.log, admitted.cells
        key = tuple(cells[column.name] for column in log.keys)
        instant = cells[log.time_field]
        if not isinstance(instant, int):
            raise TypeError("the event time must be an integer of microseconds")
        row_id, version, record_key = RowId(place), _APPENDED, place
        if log.shape is LogShape.KEYED:
            record_key = self._key(key)
            row_id, version = keyed_row_id(record_key, instant), Version(place)
        fact = Fact(
            row_id=row_id,
            version=version,
            event_time=instant,
            key=key,
            values=tuple(cells[column.name] for column in log.values),
            alive=admitted.alive,
        )
        return self.output, record_key, self._codec.encode(fact)

    def _refusal(
        self,
        arrived: Arrived,
        payload: str,
        reason: str,
        *,
        field: str | None = None,
        broken: Sequence[str] = (),
    ) -> RecordCells:
        described = {
            "payload": payload,
            "kind": arrived.kind.value,
            "reason": reason,
            "source": self.source_id,
            "partition": arrived.place.partition,
            "offset": arrived.place.offset,
            "ordinal": arrived.place.ordinal,
            "now_us": arrived.now_us,
            "field": field,
            "expectations": list(broken),
        }
        value = json.dumps(described).encode()
        if len(value) > GREATEST_RECORD_BYTES:
            begun = {"payload": payload[:_BEGINNING], "kind": PayloadKind.TEXT.value}
            value = json.dumps(described | begun | {"reason": reason[:_BEGINNING]}).encode()
        return self.quarantine, self._position(arrived.place), value


def json_object(text: bytes) -> dict[str, Json] | str:
    """Parse a JSON object; any other value, or one with too deep nesting, stays text."""
    decoded = None
    if not is_deeper(text, GREATEST_DEPTH):
        with contextlib.suppress(ValueError):
            decoded = json.loads(text)
    return decoded if isinstance(decoded, dict) else text.decode(errors="replace")


def _decoded(arrived: Arrived) -> Arrived:
    if not isinstance(arrived.row, bytes):
        return arrived
    return attrs.evolve(arrived, row=json_object(arrived.row))
