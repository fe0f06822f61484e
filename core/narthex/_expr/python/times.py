"""`dt.*` and `from_epoch` on single values."""

from collections.abc import Callable, Mapping
from datetime import datetime
from types import MappingProxyType

from narthex._expr.python.signature import Compute, Signature, int64, text, timezone_of, whole
from narthex._expr.time_formats import render_formatted
from narthex._expr.time_units import UNIT_US, whole_units
from narthex._expr.time_zones import wall_clock
from narthex._ir.facts import Cell


def _part(compute: Callable[[datetime], int]) -> Compute:
    def part(signature: Signature, cells: tuple[Cell, ...]) -> Cell:
        shown = wall_clock(whole(cells[0]), timezone_of(signature))
        return None if shown is None else compute(shown)

    return part


def _strftime(signature: Signature, cells: tuple[Cell, ...]) -> Cell:
    format_text = text(signature.option("format"))
    return render_formatted(whole(cells[0]), format_text, timezone_of(signature))


def _since(signature: Signature, cells: tuple[Cell, ...]) -> Cell:
    return int64(whole_units(whole(cells[0]) - whole(cells[1]), text(signature.option("unit"))))


TIMES: Mapping[str, Compute] = MappingProxyType(
    {
        "dt.year": _part(lambda at: at.year),
        "dt.month": _part(lambda at: at.month),
        "dt.week": _part(lambda at: at.isocalendar().week),
        "dt.day": _part(lambda at: at.day),
        "dt.hour": _part(lambda at: at.hour),
        "dt.minute": _part(lambda at: at.minute),
        "dt.second": _part(lambda at: at.second),
        "dt.millisecond": _part(lambda at: at.microsecond // 1000),
        "dt.microsecond": _part(lambda at: at.microsecond),
        "dt.since": _since,
        "dt.since_epoch": lambda signature, cells: _since(signature, (cells[0], 0)),
        "dt.strftime": _strftime,
        "dt.add": lambda signature, cells: int64(
            whole(cells[0]) + whole(signature.option("duration_us"))
        ),
        "dt.sub": lambda signature, cells: int64(
            whole(cells[0]) - whole(signature.option("duration_us"))
        ),
        "from_epoch": lambda signature, cells: int64(
            whole(cells[0]) * UNIT_US[text(signature.option("unit"))]
        ),
    }
)
