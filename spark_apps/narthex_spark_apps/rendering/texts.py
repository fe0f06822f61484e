"""`str.*` as Spark columns."""

import re
from collections.abc import Mapping

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as sf

from narthex.expr.instants import expanded
from narthex.times import DAY_US, HOUR_US, MINUTE_US, SECOND_US
from narthex_spark_apps.rendering.calls import NotRenderedError, Rendered, Rendering

_DIGITS = {"Y": 4, "m": 2, "d": 2, "H": 2, "M": 2, "S": 2, "f": 6}


def quoted(literal: str) -> str:
    """Give a Java pattern that matches just this text."""
    return "".join(
        rf"\x{{{ord(character):x}}}" if not character.isalnum() else character
        for character in literal
    )


def _split(call: Rendered) -> SparkColumn:
    separator = call.option("sep")
    if not isinstance(separator, str) or not separator:
        raise NotRenderedError("`str.split` without a separator")
    return sf.split(call.arguments[0], quoted(separator), -1)


def _strptime(call: Rendered) -> SparkColumn:
    pieces = [piece for piece in re.split(r"(%.)", expanded(str(call.option("format")))) if piece]
    names = [piece[1] for piece in pieces if piece[0] == "%" and piece[1] in _DIGITS]
    pattern = "".join(_piece_pattern(piece) for piece in pieces)
    text = call.arguments[0]
    whole = rf"\A{pattern}\z"
    parts = {
        name: sf.regexp_extract(text, whole, index + 1).cast("int")
        for index, name in enumerate(names)
    }
    return sf.when(text.rlike(whole), _instant(parts))


def _piece_pattern(piece: str) -> str:
    if piece[0] != "%" or len(piece) == 1:
        return quoted(piece)
    return "%" if piece == "%%" else f"([0-9]{{{_DIGITS[piece[1]]}}})"


def _instant(parts: Mapping[str, SparkColumn]) -> SparkColumn:
    day = sf.unix_date(sf.make_date(parts["Y"], parts["m"], parts["d"])).cast("long")
    clock = day * DAY_US
    valid = parts["Y"] >= 1
    for name, unit_us, limit in (
        ("H", HOUR_US, 24),
        ("M", MINUTE_US, 60),
        ("S", SECOND_US, 60),
        ("f", 1, SECOND_US),
    ):
        if name in parts:
            clock = clock + parts[name].cast("long") * unit_us
            valid = valid & (parts[name] < limit)
    return sf.when(valid, clock)


TEXTS: Mapping[str, Rendering] = {
    "str.len": lambda call: sf.length(call.arguments[0]).cast("long"),
    "str.lower": lambda call: sf.lower(call.arguments[0]),
    "str.upper": lambda call: sf.upper(call.arguments[0]),
    "str.concat": lambda call: sf.concat(*call.arguments),
    "str.contains": lambda call: sf.contains(*call.arguments),
    "str.startswith": lambda call: sf.startswith(*call.arguments),
    "str.endswith": lambda call: sf.endswith(*call.arguments),
    "str.split": _split,
    "str.strptime": _strptime,
}
