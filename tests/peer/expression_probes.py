# mypy: ignore-errors
"""Evaluates expressions with `fennel`, whichever module that is; prints the outcome of each as JSON.

    python expression_probes.py

It runs in the environment of the peer's client, and under `import fennel` of Narthex.
"""

import datetime as dt
import json
import math
import sys
import warnings
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal as PythonDecimal
from typing import Any, Dict, List, Optional

import fennel.expr
import numpy as np
import pandas as pd
from fennel.dtypes import Decimal, between
from fennel.expr import col, lit, now, var, when

AT = datetime(2024, 2, 29, 3, 4, 5, 678000, tzinfo=dt.UTC)
BEFORE = datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=dt.UTC)

DIRECTIVES = (
    *(
        "C",
        "Y",
        "y",
        "m",
        "b",
        "h",
        "B",
        "d",
        "e",
        "a",
        "A",
        "w",
        "u",
        "U",
        "W",
        "G",
        "g",
        "V",
        "j",
    ),
    *(
        "x",
        "v",
        "H",
        "k",
        "I",
        "l",
        "P",
        "p",
        "M",
        "S",
        ".f",
        ".3f",
        ".6f",
        ".9f",
        "3f",
        "6f",
        "9f",
    ),
    *(
        "R",
        "T",
        "X",
        "r",
        "Z",
        "z",
        ":z",
        "::z",
        ":::z",
        "#z",
        "c",
        "+",
        "s",
        "t",
        "n",
        "L",
        "q",
        "E",
    ),
    *(
        "-d",
        "-m",
        "_d",
        "0e",
        "_m",
        "-H",
        "-I",
        "-j",
        "-y",
        "0k",
        "_H",
        "_j",
        "-S",
        "-e",
        "-Y",
        "-l",
    ),
    *("-a", "_p", "-F", "o", "i"),
)
"""Directives of `strftime`, valid and invalid ones."""

READ = (
    ("%Y-%m-%d %H:%M", "2024-02-29 03:04"),
    ("%Y-%m-%d %H:%M:%S", "2024-02-29 3:4:5"),
    ("%Y-%m-%d %H:%M:%S.%f", "2024-02-29 03:04:05.678901234"),
    ("%Y-%m-%d %H:%M:%S.%f", "2024-02-29 03:04:05.678"),
    ("%Y-%m-%d %H:%M:%S%.f", "2024-02-29 03:04:05.678"),
    ("%Y-%m-%d %H:%M:%S%.f", "2024-02-29 03:04:05"),
    ("%Y-%m-%d %H:%M:%S%.3f", "2024-02-29 03:04:05.678"),
    ("%Y-%m-%d %H:%M:%S%.9f", "2024-02-29 03:04:05.678901234"),
    ("%Y-%m-%d %H:%M:%S%3f", "2024-02-29 03:04:05678"),
    ("%Y-%m-%d %H:%M:%S.%L", "2024-02-29 03:04:05.678"),
    ("%y-%m-%d", "24-02-29"),
    ("%y-%m-%d", "70-02-28"),
    ("%C%y-%m-%d", "2024-02-29"),
    ("%Y-%j", "2024-060"),
    ("%G-W%V-%u", "2024-W09-4"),
    ("%G-W%V-%a", "2024-W09-Thu"),
    ("%g-W%V-%u", "24-W09-4"),
    ("%Y-%U-%w", "2024-08-4"),
    ("%Y-%W-%u", "2024-09-4"),
    ("%Y-%W-%a", "2024-09-Thu"),
    ("%D", "02/29/24"),
    ("%x", "02/29/24"),
    ("%v", "29-Feb-2024"),
    ("%F %R", "2024-02-29 03:04"),
    ("%F %X", "2024-02-29 03:04:05"),
    ("%F %r", "2024-02-29 03:04:05 AM"),
    ("%F %I:%M %p", "2024-02-29 03:04 PM"),
    ("%F %l:%M %P", "2024-02-29  3:04 pm"),
    ("%F %k:%M", "2024-02-29  3:04"),
    ("%c", "Thu Feb 29 03:04:05 2024"),
    ("%+", "2024-02-29T03:04:05.678+01:00"),
    ("%+", "2024-02-29T03:04:05Z"),
    ("%s", "1709175845"),
    ("%s%.f", "1709175845.5"),
    ("%F %T %z", "2024-02-29 03:04:05 +0130"),
    ("%F %T %:z", "2024-02-29 03:04:05 +01:30"),
    ("%F %T %#z", "2024-02-29 03:04:05 +01"),
    ("%F %T %#z", "2024-02-29 03:04:05 +0130"),
    ("%F %T %Z", "2024-02-29 03:04:05 UTC"),
    ("%F %T %Z", "2024-02-29 03:04:05 CET"),
    ("%e %b %Y", "29 Feb 2024"),
    ("%e %B %Y", "29 February 2024"),
    ("%e %b %Y", "29 February 2024"),
    ("%A %e %B %Y", "Thursday 29 February 2024"),
    ("%A %e %B %Y", "Friday 29 February 2024"),
    ("%-d.%-m.%Y", "29.2.2024"),
    ("%_d.%_m.%Y", "29. 2.2024"),
    ("%Y", "2024"),
    ("%Y-%m", "2024-02"),
    ("%H:%M", "03:04"),
    ("%Y-%m-%d", "2024-02-29x"),
    ("%Y-%m-%d %H:%M:%S", "2024-02-29 03:04:60"),
    ("%Y%m%d", "20240229"),
    ("%Y-%m-%dT%H:%M:%SZ", "2024-02-29T03:04:05Z"),
    ("%Y-%m-%d %Y", "2024-02-29 2024"),
    ("%Y-%m-%d", " 2024-02-29"),
    ("%F%t%T", "2024-02-29 03:04:05"),
    ("%q", "1"),
)
"""Formats of `strptime`, valid and invalid ones, each with a text."""

DATA: dict[str, tuple[dict[str, list[Any]], dict[str, Any]]] = {
    "int": ({"a": [1, -7, 0]}, {"a": int}),
    "optional int": ({"a": [1, None, -7]}, {"a": Optional[int]}),
    "float": ({"a": [1.5, -7.25, 0.0]}, {"a": float}),
    "optional float": ({"a": [1.5, None, float("nan")]}, {"a": Optional[float]}),
    "str": ({"a": ["Ab c", "", "x"]}, {"a": str}),
    "optional str": ({"a": ["Ab c", None, "x"]}, {"a": Optional[str]}),
    "bool": ({"a": [True, False, True], "b": [True, True, False]}, {"a": bool, "b": bool}),
    "optional bool": (
        {"a": [True, False, None], "b": [None, True, False]},
        {"a": Optional[bool], "b": Optional[bool]},
    ),
    "datetime": ({"a": [AT, BEFORE]}, {"a": datetime}),
    "optional datetime": ({"a": [AT, None]}, {"a": Optional[datetime]}),
    "date": ({"a": [date(2024, 2, 29), date(1969, 12, 31)]}, {"a": date}),
    "ints": ({"a": [[1, 2, 2], [], [-3]]}, {"a": List[int]}),
    "optional ints": ({"a": [[1, None, 2], [], [None]]}, {"a": List[Optional[int]]}),
    "ints or null": ({"a": [[1, 2], None, []]}, {"a": Optional[List[int]]}),
    "floats": ({"a": [[1.5, 2.0], [], [-3.0]]}, {"a": List[float]}),
    "strs": ({"a": [["a", "b"], [], ["c"]]}, {"a": List[str]}),
    "bools": ({"a": [[True, False], [], [True]]}, {"a": List[bool]}),
    "numpy arrays": ({"a": [np.array([1, 2]), np.array([])]}, {"a": List[int]}),
    "pandas arrays": ({"a": [pd.array([1, 2]), pd.array([], dtype="Int64")]}, {"a": List[int]}),
    "dict": ({"a": [{"x": 1, "y": 2}, {}]}, {"a": Dict[str, int]}),
    "optional dict": ({"a": [{"x": 1}, None]}, {"a": Optional[Dict[str, int]]}),
    "decimal": ({"a": [PythonDecimal("1.25"), PythonDecimal("-3.10")]}, {"a": Decimal[2]}),
    "between": ({"a": [1, 5]}, {"a": between(int, 0, 10)}),
    "several": (
        {"a": [1, 2], "b": [2.5, -1.0], "s": ["x", "y"], "n": [None, 3]},
        {"a": int, "b": float, "s": str, "n": Optional[int]},
    ),
    "formatted": ({"a": ["2024-02-29"]}, {"a": str}),
    "formatted or not": ({"a": ["2024-02-29", "yesterday", None]}, {"a": Optional[str]}),
    "json": (
        {"a": ['{"x": 1, "y": {"z": "t"}, "l": [1, 2]}', "[1, 2]", "1.5", '"s"', "null"]},
        {"a": str},
    ),
    "json ints": ({"a": ["1", "-2", "0"]}, {"a": str}),
    "json floats": ({"a": ["1.5", "2"]}, {"a": str}),
    "json lists": ({"a": ["[1, 2]", "[]"]}, {"a": str}),
    "json objects": ({"a": ['{"x": 1}', "{}"]}, {"a": str}),
    "json bools": ({"a": ["true", "false"]}, {"a": str}),
    "json nulls": ({"a": ["null", "1"]}, {"a": str}),
    "json texts": ({"a": ['"s"', '""']}, {"a": str}),
}
"""Columns with their types, by name."""

PROBES: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (
        ("int", "optional int", "float", "optional float"),
        (
            'col("a")',
            'col("a") + 1',
            'col("a") - 1.5',
            'col("a") * 2',
            'col("a") / 2',
            'col("a") / 0',
            'col("a") // 2',
            'col("a") // 0',
            'col("a") % 3',
            'col("a") % 0',
            'col("a") % -3',
            '-col("a")',
            '+col("a")',
            'col("a") == 1',
            'col("a") != 1',
            'col("a") < 1',
            'col("a") >= 1.5',
            'col("a").abs()',
            'col("a").num.abs()',
            'col("a").round()',
            'col("a").num.round(1)',
            'col("a").round(-1)',
            'col("a").round("x")',
            'col("a").ceil()',
            'col("a").floor()',
            'col("a").num.to_string()',
            'col("a").num.sqrt()',
            'col("a").num.pow(2)',
            'col("a").num.pow(-1)',
            'col("a").num.pow(lit(-1))',
            'col("a").num.pow(0.5)',
            'col("a").num.pow(-0.5)',
            'col("a").num.log()',
            'col("a").num.log(10)',
            'col("a").num.log(-1)',
            'col("a").num.sin()',
            'col("a").num.cos()',
            'col("a").num.tan()',
            'col("a").num.arcsin()',
            'col("a").num.arccos()',
            'col("a").num.arctan()',
            'col("a").num.is_nan()',
            'col("a").num.is_infinite()',
            'col("a").isnull()',
            'col("a").fillnull(5)',
            'col("a").fillnull(5.5)',
            'col("a").fillnull("x")',
            'when(col("a") > 0).then(1).otherwise(2)',
            'when(col("a") > 0).then(col("a"))',
            'when(col("a") > 0).then("p").when(col("a") < 0).then("n").otherwise("z")',
            'when(col("a") > 0).then("p").otherwise(2)',
            'when(col("a") > 0).then(None).otherwise(2)',
            'when(col("a")).then(1).otherwise(2)',
            'col("a") & 1',
            '~col("a")',
            'col("a") ^ 1',
            'col("a") ** 2',
            'col("a").str.len()',
            'col("a").dt.year',
            'col("a").list.len()',
            'col("zz")',
            'bool(col("a"))',
            'col("a") + lambda x: x',
            '1 + col("a")',
            '7 // col("a")',
            '1 / col("a")',
            '7 % col("a")',
            '2 - col("a")',
            'col("a") + None',
            'col("a") == None',
            "lit([1])",
            'lit(1) + col("a")',
            "lit(True)",
            "lit(None)",
            'fe.from_epoch(col("a"), unit="second")',
            'fe.from_epoch(col("a"), unit="millisecond")',
            'fe.from_epoch(col("a"), unit="nanosecond")',
            'col("a").num.sqrt().num.is_nan()',
            'fe.repeat(1, col("a"))',
            'fe.repeat("x", 2)',
        ),
    ),
    (
        ("str", "optional str"),
        (
            'col("a")',
            'col("a").str.len()',
            'col("a").str.lower()',
            'col("a").str.upper()',
            'col("a").str.contains("b")',
            'col("a").str.contains("")',
            'col("a").str.contains(col("a"))',
            'col("a").str.contains(1)',
            'col("a").str.startswith("A")',
            'col("a").str.endswith("c")',
            'col("a").str.concat("!")',
            'col("a").str.concat(col("a"))',
            'col("a").str.concat(1)',
            'col("a").str.split(" ")',
            'col("a").str.split("")',
            'col("a").str.split(1)',
            'col("a") + "x"',
            'col("a") + col("a")',
            'col("a") == "x"',
            'col("a") != "x"',
            'col("a") < "x"',
            'col("a") == 1',
            'col("a").str.strptime("%Y")',
            'col("a").str.parse(int)',
            'col("a").str.parse(float)',
            'col("a").str.parse(str)',
            'col("a").str.parse(List[int])',
            'col("a").str.json_extract("$.x")',
            'col("a").isnull()',
            'col("a").fillnull("n")',
            'col("a").fillnull(1)',
            'when(col("a") == "x").then(col("a")).otherwise("o")',
            'col("a").str.len() + 1',
            '-col("a")',
            'col("a") * 2',
            'col("a").num.abs()',
            'col("a").abs()',
            'col("a").str.nothing()',
            'col("a").foo',
        ),
    ),
    (
        (
            "json",
            "json ints",
            "json floats",
            "json lists",
            "json objects",
            "json bools",
            "json nulls",
            "json texts",
        ),
        (
            'col("a").str.parse(int)',
            'col("a").str.parse(float)',
            'col("a").str.parse(str)',
            'col("a").str.parse(bool)',
            'col("a").str.parse(List[int])',
            'col("a").str.parse(List[Optional[int]])',
            'col("a").str.parse(Dict[str, int])',
            'col("a").str.parse(Optional[int])',
            'col("a").str.parse(datetime)',
            'col("a").str.json_extract("$.x")',
            'col("a").str.json_extract("$.y.z")',
            'col("a").str.json_extract("$.l[1]")',
            'col("a").str.json_extract("$.nothing")',
            'col("a").str.json_extract("x")',
            'col("a").str.json_extract("")',
            'col("a").str.json_extract(1)',
        ),
    ),
    (
        ("bool", "optional bool"),
        (
            'col("a")',
            '~col("a")',
            'col("a") & col("b")',
            'col("a") | col("b")',
            'col("a") == col("b")',
            'col("a") == True',
            'col("a") & True',
            'col("a") | False',
            'col("a") & 1',
            'col("a") + 1',
            'when(col("a")).then(1).otherwise(0)',
            'when(col("a")).then(1)',
            'when(~col("a")).then(col("b")).otherwise(lit(True))',
            'col("a").fillnull(False)',
            'col("a").isnull()',
            'col("a") < col("b")',
        ),
    ),
    (
        ("datetime", "optional datetime"),
        (
            'col("a")',
            'col("a").dt.year',
            'col("a").dt.month',
            'col("a").dt.week',
            'col("a").dt.day',
            'col("a").dt.hour',
            'col("a").dt.minute',
            'col("a").dt.second',
            'col("a").dt.millisecond',
            'col("a").dt.microsecond',
            'col("a").dt.since_epoch()',
            'col("a").dt.since_epoch(unit="year")',
            'col("a").dt.since_epoch(unit="week")',
            'col("a").dt.since_epoch(unit="day")',
            'col("a").dt.since_epoch(unit="hour")',
            'col("a").dt.since_epoch(unit="minute")',
            'col("a").dt.since_epoch(unit="second")',
            'col("a").dt.since_epoch(unit="millisecond")',
            'col("a").dt.since_epoch(unit="microsecond")',
            'col("a").dt.since_epoch(unit="nanosecond")',
            'col("a").dt.since_epoch(unit="month")',
            'col("a").dt.since_epoch(unit="seconds")',
            'col("a").dt.since_epoch(unit="")',
            'col("a").dt.since(fe.datetime(2023, 1, 1), unit="year")',
            'col("a").dt.since(fe.datetime(2023, 1, 1), unit="week")',
            'col("a").dt.since(fe.datetime(2023, 1, 1), unit="day")',
            'col("a").dt.since(fe.datetime(2023, 1, 1), unit="hour")',
            'col("a").dt.since(fe.datetime(2023, 1, 1), unit="minute")',
            'col("a").dt.since(fe.datetime(2023, 1, 1), unit="second")',
            'col("a").dt.since(fe.datetime(2023, 1, 1), unit="millisecond")',
            'col("a").dt.since(fe.datetime(2023, 1, 1), unit="microsecond")',
            'col("a").dt.since(fe.datetime(2023, 1, 1), unit="x")',
            'col("a").dt.since(col("a"))',
            'col("a").dt.since(1)',
            'col("a").dt.strftime("%Y-%m-%d")',
            'col("a").dt.strftime("%H:%M:%S")',
            'col("a").dt.strftime("%j %U %W %V %u %w %G")',
            'col("a").dt.strftime("%b %B %a %A %p %I %y")',
            'col("a").dt.strftime("%f")',
            *(f'col("a").dt.strftime("%{name}")' for name in DIRECTIVES),
            'col("a").dt.strftime("%3f")',
            'col("a").dt.strftime("%.3f")',
            'col("a").dt.strftime("%s")',
            'col("a").dt.strftime("%z")',
            'col("a").dt.strftime("%Z")',
            'col("a").dt.strftime("%%")',
            'col("a").dt.strftime("%F %T")',
            'col("a").dt.strftime("%D")',
            'col("a").dt.strftime("%e")',
            'col("a").dt.strftime("%L")',
            'col("a").dt.strftime("%Q")',
            'col("a").dt.strftime("plain")',
            'col("a").dt.strftime("")',
            'col("a").dt.with_tz("America/New_York").hour',
            'col("a").dt.with_tz("Nowhere/X").hour',
            'col("a").dt.with_tz("Asia/Kolkata").day',
            'col("a") == col("a")',
            'col("a") < fe.datetime(2000, 1, 1)',
            'col("a") + 1',
            'col("a") > now()',
            "fe.datetime(2024, 2, 30)",
            "fe.datetime(2024, 13, 1)",
            'col("a").isnull()',
            'col("a").fillnull(fe.datetime(2000, 1, 1))',
            'when(col("a") == col("a")).then(col("a")).otherwise(fe.datetime(2000, 1, 1))',
        ),
    ),
    (
        ("formatted",),
        (
            'col("a").str.strptime("%Y-%m-%d")',
            'col("a").str.strptime("%Y-%m-%d", "America/New_York")',
            *(
                f'lit("{text}").str.strptime("{form}").dt.strftime("%F %T%.f")'
                for form, text in READ
            ),
        ),
    ),
    (
        ("formatted or not",),
        ('col("a").str.strptime("%Y-%m-%d")', 'col("a").str.strptime("%F").dt.strftime("%D")'),
    ),
    (
        ("date",),
        (
            'col("a")',
            'col("a") == col("a")',
            'col("a").dt.year',
        ),
    ),
    (
        (
            "ints",
            "optional ints",
            "ints or null",
            "floats",
            "strs",
            "bools",
            "numpy arrays",
            "pandas arrays",
        ),
        (
            'col("a")',
            'col("a").list.len()',
            'col("a").list.sum()',
            'col("a").list.mean()',
            'col("a").list.min()',
            'col("a").list.max()',
            'col("a").list.all()',
            'col("a").list.any()',
            'col("a").list.hasnull()',
            'col("a").list.contains(1)',
            'col("a").list.contains("a")',
            'col("a").list.contains(None)',
            'col("a").list.at(0)',
            'col("a").list.at(-1)',
            'col("a").list.at(5)',
            'col("a").list.at("x")',
            'col("a").list.at(0.5)',
            'col("a").list.filter("x", var("x") == 1)',
            'col("a").list.filter("x", var("y") == 1)',
            'col("a").list.filter("x", var("x"))',
            'col("a").list.map("x", var("x") + 1)',
            'col("a").list.map("x", var("x"))',
            'col("a").list.map("x", col("a"))',
            'col("a").fillnull([])',
            'col("a").fillnull(lit([], List[int]))',
            'col("a").isnull()',
            'col("a") == col("a")',
            'col("a").list.map("x", var("x") + 1).list.sum()',
        ),
    ),
    (
        ("dict", "optional dict"),
        (
            'col("a")',
            'col("a").dict.len()',
            'col("a").dict.get("x")',
            'col("a").dict.get("x", 0)',
            'col("a").dict.get("x", "d")',
            'col("a").dict.get("q", 1.5)',
            'col("a").dict.get(1)',
            'col("a").dict.contains("x")',
            'col("a").dict.contains(1)',
            'col("a").isnull()',
            'col("a") == col("a")',
        ),
    ),
    (
        ("decimal",),
        (
            'col("a")',
            'col("a") + 1',
            'col("a") + col("a")',
            'col("a") * 2',
            'col("a") > 1',
            'col("a").num.abs()',
            'col("a").num.to_string()',
            'col("a").round(1)',
            'col("a") / 2',
            '-col("a")',
        ),
    ),
    (
        ("between",),
        (
            'col("a")',
            'col("a") + 1',
            'col("a").num.sqrt()',
        ),
    ),
    (
        ("several",),
        (
            'col("a") + col("b")',
            'col("a") + col("s")',
            'col("a") + col("n")',
            'col("a") / col("n")',
            'col("a") > col("b")',
            'col("a") == col("s")',
            'when(col("a") > 1).then(col("b")).otherwise(col("n"))',
            'when(col("a") > 1).then(col("n")).otherwise(0)',
            'fe.make_struct({"x": col("a")}, int)',
            'col("s").str.concat(col("a").num.to_string())',
            'fe.from_epoch(col("b"), unit="second")',
            'fe.repeat(col("s"), col("a"))',
            'col("n").fillnull(col("a"))',
        ),
    ),
)
"""Names of data, and the expressions that are evaluated on each."""

_NAMES = {
    "Dict": Dict,
    "List": List,
    "Optional": Optional,
    "col": col,
    "datetime": datetime,
    "fe": fennel.expr,
    "lit": lit,
    "now": now,
    "var": var,
    "when": when,
}
_BUILT_IN = (ValueError, TypeError, KeyError, AttributeError, ZeroDivisionError, OverflowError)


def outcomes() -> Iterator[dict[str, Any]]:
    """Yield the outcome of each expression on each of its data."""
    for names, texts in PROBES:
        for name in names:
            for text in texts:
                yield {"data": name, "text": text} | _outcome(text, *DATA[name])


def _outcome(text: str, columns: dict[str, list[Any]], schema: dict[str, Any]) -> dict[str, Any]:
    ended = "made"
    try:
        expression = eval(text, dict(_NAMES))
        ended = "typeof"
        expression.typeof(schema)
        ended = "eval"
        series = expression.eval(pd.DataFrame(columns), schema)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the peer's panics are not of the class Exception
        kinds = [kind.__name__ for kind in _BUILT_IN if isinstance(error, kind)]
        return {"ended": ended, "is": kinds, "said": str(error)[:200]}
    return {"ended": "ok", "dtype": str(series.dtype), "values": [_plain(one) for one in series]}


def _plain(value: Any) -> Any:
    """Return a value as JSON that tells types apart."""
    match value:
        case _ if value is pd.NA or value is pd.NaT:
            return "<NA>"
        case bool() | np.bool_():
            return bool(value)
        case int() | np.integer() | None | str():
            return int(value) if isinstance(value, np.integer) else value
        case float() | np.floating():
            return float(f"{value:.12g}") if math.isfinite(value) else str(float(value))
        case datetime():
            return f"at {pd.Timestamp(value).isoformat()}"
        case list() | tuple() | np.ndarray():
            return [_plain(one) for one in value]
        case dict():
            return {str(name): _plain(one) for name, one in value.items()}
        case _:
            return f"{type(value).__name__} {value}"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for each in outcomes():
        sys.stdout.write(json.dumps(each) + "\n")
