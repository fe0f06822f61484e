"""The example row for the functions' examples."""

from collections.abc import Mapping
from types import MappingProxyType

from narthex._ir.facts import Cell
from narthex._ir.types import (
    Bool,
    DataType,
    Datetime,
    Float,
    Int,
    List,
    Map,
    Optional,
    Str,
    Struct,
    StructField,
)

VISITOR = Struct("Visitor", (StructField("name", Str()), StructField("visits", Optional(Int()))))

EXAMPLE: Mapping[str, tuple[DataType, Cell]] = MappingProxyType(
    {
        "a": (Int(), 7),
        "b": (Int(), -2),
        "x": (Float(), 2.5),
        "half": (Float(), 0.5),
        "missing": (Optional(Int()), None),
        "yes": (Bool(), True),
        "unknown": (Optional(Bool()), None),
        "s": (Str(), "Zoé, Émile"),
        "word": (Str(), "maybe"),
        "day": (Str(), "2013-01-05"),
        "json": (Str(), '{"Ada": {"name": "Ada", "tags": ["new", "vip"]}}'),
        "t": (Datetime(), 1_357_414_215_123_456),
        "l": (List(Int()), (1, 2, 4)),
        "gaps": (List(Optional(Int())), (1, None)),
        "flags": (List(Optional(Bool())), (True, None)),
        "d": (Map(Int()), {"k": 1, "z": 2}),
        "visitor": (VISITOR, {"name": "Ada", "visits": 3}),
    }
)
"""Columns by name: their types and their cells."""

EXAMPLE_NOW_US = 1_700_000_000_000_000
"""The value of `now()` in the examples."""
