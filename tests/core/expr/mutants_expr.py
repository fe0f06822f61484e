"""Bugs on purpose: each changes what one function means, as a hurried author might."""

import math
from collections.abc import Callable
from types import MappingProxyType

import attrs
import polars as pl
import pytest

from narthex._base.times import from_micros, to_micros
from narthex._expr import functions, time_formats
from narthex._expr.functions import FUNCTIONS, Nulls
from narthex._expr.polars import evaluation as columns
from narthex._expr.polars import functions as native
from narthex._expr.python import collections, evaluation, numbers, signature, texts, times
from narthex._expr.python.signature import Compute, Signature
from narthex._expr.time_units import UNIT_US
from narthex._expr.time_zones import zone
from narthex._ir.facts import Cell
from narthex._ir.types import Int

Patch = Callable[[pytest.MonkeyPatch], None]


@attrs.frozen
class Mutant:
    """A bug: what it does, and how it is put in."""

    name: str
    put_in: Patch


def computing(name: str, change: Callable[[Compute], Compute]) -> Patch:
    """Change how a function is computed on a row."""

    def put_in(monkeypatch: pytest.MonkeyPatch) -> None:
        known = evaluation._COMPUTE  # noqa: SLF001 (a bug goes where the meaning is)
        patched = MappingProxyType({**known, name: change(known[name])})
        monkeypatch.setattr(evaluation, "_COMPUTE", patched)

    return put_in


def instead(name: str, compute: Callable[..., Cell]) -> Patch:
    """Compute a function otherwise, from its cells."""
    return computing(name, lambda _: lambda _signature, cells: compute(*cells))


def in_columns(name: str, change: Callable[[native.Native], native.Native]) -> Patch:
    """Change how a function is rendered for columns."""

    def put_in(monkeypatch: pytest.MonkeyPatch) -> None:
        known = native.NATIVE
        patched = MappingProxyType({**known, name: change(known[name])})
        monkeypatch.setattr(native, "NATIVE", patched)
        monkeypatch.setattr(columns, "NATIVE", patched)

    return put_in


def replacing(module: object, name: str, value: object) -> Patch:
    """Replace a value of a module."""
    return lambda monkeypatch: monkeypatch.setattr(module, name, value)


def defining(name: str, **changes: object) -> Patch:
    """Change the definition of a function."""

    def put_in(monkeypatch: pytest.MonkeyPatch) -> None:
        patched = {**FUNCTIONS, name: attrs.evolve(FUNCTIONS[name], **changes)}
        for module in (functions, evaluation):
            monkeypatch.setattr(module, "FUNCTIONS", MappingProxyType(patched))

    return put_in


def wrapped(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63


def half_to_even(sign: Signature, cells: tuple[Cell, ...]) -> Cell:
    value, places = cells[0], sign.option("precision") or 0
    if isinstance(value, int) or not math.isfinite(value) or abs(value) > 2**62:  # type: ignore[arg-type]
        return numbers.NUMBERS["num.round"](sign, cells)
    return round(value, places) if places else round(value)  # type: ignore[call-overload]


def later_of_two(clock: object, timezone: str) -> int:
    return to_micros(clock.replace(tzinfo=zone(timezone), fold=1))  # type: ignore[attr-defined]


def in_a_gap_too(clock: object, timezone: str) -> int:
    return to_micros(clock.replace(tzinfo=zone(timezone)))  # type: ignore[attr-defined]


def padded_zip(sign: Signature, cells: tuple[Cell, ...]) -> Cell:
    longest = max(len(cell) for cell in cells)  # type: ignore[arg-type]
    even = tuple((*cell, *[0] * (longest - len(cell))) for cell in cells)  # type: ignore[arg-type, misc]
    return collections.COLLECTIONS["list.zip"](sign, even)


MUTANTS = [
    Mutant("`//` cuts toward 0", instead("floordiv", lambda a, b: int(a / b) if b else None)),
    Mutant(
        "`%` has the dividend's sign", instead("mod", lambda a, b: math.fmod(a, b) if b else None)
    ),
    Mutant("ints wrap around", replacing(numbers, "int64", wrapped)),
    Mutant("x / 0 is null", instead("div", lambda a, b: a / b if b else None)),
    Mutant("NaN is a result", replacing(numbers, "defined", lambda value: value)),
    Mutant("NaN differs from itself", replacing(numbers, "rank", lambda cell: (False, cell))),
    Mutant("halves go to the even", computing("num.round", lambda _: half_to_even)),
    Mutant("decimals have no end", replacing(signature, "DECIMAL_LIMIT", 10**60)),
    Mutant("`false & null` is null", defining("and", nulls=Nulls.PROPAGATE)),
    Mutant("`~null` is true", defining("not", nulls=Nulls.OWN)),
    Mutant("isnull is never", instead("isnull", lambda _: False)),
    Mutant(
        "text is ordered as UTF-16",
        instead(
            "lt",
            lambda a, b: (
                a.encode("utf-16-be") < b.encode("utf-16-be") if isinstance(a, str) else a < b
            ),
        ),
    ),
    Mutant("length counts bytes", instead("str.len", lambda text: len(text.encode()))),
    Mutant(
        "split drops empty parts",
        computing(
            "str.split",
            lambda known: (
                lambda sign, cells: tuple(
                    part
                    for part in known(sign, cells)
                    if part  # type: ignore[union-attr]
                )
            ),
        ),
    ),
    Mutant(
        "case by the machine's table",
        replacing(
            texts,
            "change_case",
            lambda text, change: change(text.replace("\U00010d50", "\U00010d70")),
        ),
    ),
    Mutant(
        "JSON text stays quoted",
        computing(
            "str.json_extract",
            lambda known: (
                lambda sign, cells: f'"{known(sign, cells)}"' if known(sign, cells) else None
            ),
        ),
    ),
    Mutant("parse rounds", replacing(texts, "_whole", round)),
    Mutant("clocks show what they skip", replacing(time_formats, "instant_of", in_a_gap_too)),
    Mutant("of two times the later", replacing(time_formats, "instant_of", later_of_two)),
    Mutant(
        "parts are UTC's always",
        replacing(
            times,
            "wall_clock",
            lambda instant, _zone: from_micros(instant) if abs(instant) < 2**57 else None,
        ),
    ),
    Mutant(
        "weeks begin with the year",
        computing(
            "dt.week",
            lambda _: (
                lambda _sign, cells: int(from_micros(cells[0]).strftime("%W"))  # type: ignore[arg-type]
            ),
        ),
    ),
    Mutant(
        "spans are rounded down",
        replacing(times, "whole_units", lambda span_us, unit: span_us // UNIT_US[unit]),
    ),
    Mutant(
        "an item too far is the last",
        instead(
            "list.at",
            lambda items, index: (
                items[max(min(index, len(items) - 1), -len(items))] if items else None
            ),
        ),
    ),
    Mutant(
        "null items are not there", instead("list.contains", lambda items, wanted: wanted in items)
    ),
    Mutant(
        "the sum of nothing is null",
        computing(
            "list.sum", lambda known: lambda sign, cells: known(sign, cells) if cells[0] else None
        ),
    ),
    Mutant(
        "`all` is null with any null",
        instead("list.all", lambda items: None if None in items else all(items)),
    ),
    Mutant(
        "the default replaces null",
        computing(
            "dict.get",
            lambda known: (
                lambda sign, cells: (
                    known(sign, cells)
                    if known(sign, cells) is not None
                    else (cells[2] if len(cells) > 2 else None)
                )
            ),
        ),
    ),
    Mutant(
        "undefined items stay",
        replacing(collections, "whole_items", lambda members, _of: tuple(members)),
    ),
    Mutant(
        "structs keep undefined members",
        computing(
            "struct.make",
            lambda _: (
                lambda sign, cells: dict(
                    zip([field.name for field in sign.call.target.fields], cells, strict=True)
                )  # type: ignore[union-attr]
            ),
        ),
    ),
    Mutant("zip pads", computing("list.zip", lambda _: padded_zip)),
    Mutant(
        "a filter passes null",
        replacing(
            evaluation,
            "kept_items",
            lambda found, _of: tuple(i for i, holds in found if holds is not False),
        ),
    ),
    Mutant(
        "negative repeats are none",
        computing(
            "repeat",
            lambda known: (
                lambda sign, cells: (
                    () if isinstance(cells[1], int) and cells[1] < 0 else known(sign, cells)
                )
            ),
        ),
    ),
    Mutant(
        "columns add in 64 bits",
        in_columns(
            "add",
            lambda known: (
                lambda sign, given: (
                    given[0] + given[1] if isinstance(sign.result, Int) else known(sign, given)
                )
            ),
        ),
    ),
    Mutant(
        "columns look for patterns",
        in_columns("str.contains", lambda _: lambda _sign, given: given[0].str.contains(given[1])),
    ),
    Mutant(
        "columns find among unknowns",
        in_columns(
            "is_in",
            lambda _: (
                lambda _sign, given: pl.any_horizontal(
                    *(given[0] == option for option in given[1:])
                )
            ),
        ),
    ),
    Mutant(
        "columns have newer letters",
        in_columns("str.lower", lambda _: lambda _sign, given: given[0].str.to_lowercase()),
    ),
    Mutant(
        "columns divide by reciprocals",
        in_columns(
            "div",
            lambda _: (
                lambda _sign, given: given[0].cast(pl.Float64) * (1.0 / given[1].cast(pl.Float64))
            ),
        ),
    ),
]
"""Each must be caught by the table of expressions, on rows or on columns."""
