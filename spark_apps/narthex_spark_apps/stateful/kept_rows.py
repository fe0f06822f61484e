# mypy: disable-error-code="explicit-any"
"""Single rows in the form in which the steps of a stateful job keep and exchange them."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import attrs
import msgspec

from narthex._formats import Conversion, from_storage, key_encoder, key_of, keyed_row_id, to_storage
from narthex._ir import Cell, Column, NodeSchema, RowId
from narthex._runtime.steps import Absence, RowBatch, ValidityInterval


class Element(msgspec.Struct, frozen=True, array_like=True):
    """A row, or the absence of a key from an instant on.

    A struct of msgspec, not of attrs, because a job makes, packs and unpacks several for each row.

    Attributes:
        cells: Key and value columns in the order of the schema; for an absence, the keys.
        life: Its validity interval; None if every row is valid from its own instant on.
    """

    row_id: RowId
    time: int
    # The decoder needs the type, and `Cell` refers to itself.
    cells: tuple[Any, ...]
    alive: bool = True
    life: ValidityInterval | None = None


ElementChanges: TypeAlias = "dict[RowId, Element | None]"
"""The new state of each changed row; None if the row no longer exists."""

Conversions: TypeAlias = tuple[tuple[int, Conversion], ...]
"""The positions of the cells that must be converted, and their conversions."""

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Element)


@attrs.frozen
class ElementCodec:
    """Converts elements of one schema to bytes, and to the rows that steps take."""

    schema: NodeSchema
    names: tuple[str, ...] = attrs.field(init=False)
    _encode_key: Callable[[Sequence[Cell]], bytes] = attrs.field(init=False)
    _lower: Conversions = attrs.field(init=False)
    _lift: Conversions = attrs.field(init=False)

    @names.default
    def _find_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self._columns())

    @_encode_key.default
    def _make_encoder(self) -> Callable[[Sequence[Cell]], bytes]:
        return key_encoder(self.schema.keys)

    @_lower.default
    def _find_lower(self) -> Conversions:
        return _needed(to_storage(column.type) for column in self._columns())

    @_lift.default
    def _find_lift(self) -> Conversions:
        return _needed(from_storage(column.type) for column in self._columns())

    def _columns(self) -> tuple[Column, ...]:
        return (*self.schema.keys, *self.schema.values)

    def key(self, element: Element) -> bytes:
        """Return the canonical bytes of a keyed row's key."""
        return self._encode_key(element.cells[: len(self.schema.keys)])

    def pack(self, element: Element) -> bytes:
        """Serialize an element."""
        if self._lower:
            element = _with_cells(element, self._lower)
        return _encoder.encode(element)

    def unpack(self, packed: bytes) -> Element:
        """Deserialize an element."""
        element = _decoder.decode(packed)
        return _with_cells(element, self._lift) if self._lift else element

    def rows(self, elements: Sequence[Element]) -> RowBatch:
        """Convert elements to rows; for keyed elements, each interval that ends adds an absence."""
        living = [element for element in elements if element.alive]
        gone = [
            Absence(id=element.row_id, time=element.time, cells=element.cells)
            for element in elements
            if not element.alive
        ]
        lives: list[ValidityInterval] | None = None
        if self.schema.keys:
            ends = ((element, end_of(element)) for element in living)
            gone += [self._ended(element, end) for element, end in ends if end is not None]
        elif any(element.life is not None for element in living):
            lives = [element.life or (element.time, None) for element in living]
        return self._batch(living, gone=tuple(gone), lives=lives)

    def valid_rows(self, elements: Sequence[Element]) -> RowBatch:
        """Convert rows that are alive to rows with their validity intervals."""
        lives = [element.life or (element.time, None) for element in elements]
        return self._batch(elements, lives=lives)

    def _batch(
        self,
        elements: Sequence[Element],
        *,
        gone: tuple[Absence, ...] = (),
        lives: Sequence[ValidityInterval] | None = None,
    ) -> RowBatch:
        columns = zip(*(element.cells for element in elements), strict=True) if elements else ()
        cells: dict[str, Sequence[Cell]] = dict.fromkeys(self.names, ())
        cells |= dict(zip(self.names, columns, strict=bool(elements)))
        return RowBatch(
            schema=self.schema,
            ids=[element.row_id for element in elements],
            times=[element.time for element in elements],
            cells=cells,
            gone=gone,
            lives=lives,
        )

    def _ended(self, element: Element, end: int) -> Absence:
        row_id = keyed_row_id(key_of(element.row_id), end)
        return Absence(id=row_id, time=end, cells=element.cells[: len(self.schema.keys)])

    def elements(self, rows: RowBatch) -> list[Element]:
        """Convert the output of a step to elements."""
        columns = [rows.column(name) for name in self.names]
        made = [
            Element(row_id, time, cells)
            for row_id, time, cells in zip(
                rows.ids, rows.times, _cells(columns, len(rows)), strict=True
            )
        ]
        made += [Element(one.id, one.time, one.cells, alive=False) for one in rows.gone]
        return made


def end_of(element: Element) -> int | None:
    """Return the exclusive end of a row's validity interval; None for a current row."""
    return None if element.life is None else element.life[1]


def _cells(columns: Sequence[Sequence[Cell]], count: int) -> Iterable[tuple[Cell, ...]]:
    return zip(*columns, strict=True) if columns else [()] * count


def _needed(conversions: Iterable[Conversion | None]) -> Conversions:
    return tuple((at, one) for at, one in enumerate(conversions) if one is not None)


def _with_cells(element: Element, conversions: Conversions) -> Element:
    """Return the element with converted cells."""
    converted = list(element.cells)
    # An absence has only the cells of its key, so there may be fewer cells than columns.
    for at, convert in conversions:
        if at < len(converted) and converted[at] is not None:
            converted[at] = convert(converted[at])
    return msgspec.structs.replace(element, cells=tuple(converted))
