"""Every function of expressions, defined once: its types, its nulls, its promise.

Evaluators render these definitions; a name here is stable, it travels in commits. Three rules
hold for all of them, in every engine:

- A function never fails on a row. Where it has no value (`undefined` says when), it gives null,
  whatever its type says; a null in a column that is not Optional makes a row mistyped, and the
  row is quarantined by the step that meets it. A list or a struct with such a null inside has no
  value itself.
- An int is 64 bits; a result beyond them is null. A decimal is 28 digits; likewise.
- NaN is never a result: where arithmetic gives NaN there is no value. A NaN that came from user
  code equals itself and is greater than every other number.

Float is IEEE-754 double; an int meets a float by becoming the nearest double.
"""

from collections.abc import Mapping
from types import MappingProxyType

from narthex._expr.functions.collections import MOST_REPEATS, lists, records
from narthex._expr.functions.definition import Function, Nulls
from narthex._expr.functions.example import EXAMPLE, EXAMPLE_NOW_US
from narthex._expr.functions.numbers import logic, numbers, operators
from narthex._expr.functions.texts import texts
from narthex._expr.functions.times import times

__all__ = [
    "EXAMPLE",
    "EXAMPLE_NOW_US",
    "FUNCTIONS",
    "GROUPS",
    "MOST_REPEATS",
    "Function",
    "Nulls",
]

GROUPS: Mapping[str, tuple[Function, ...]] = MappingProxyType(
    {
        "Operators": operators(),
        "Logic, nulls and types": logic(),
        "Numbers": numbers(),
        "Text": texts(),
        "Instants": times(),
        "Lists": lists(),
        "Structs and dicts": records(),
    }
)
"""All functions by the headings of the reference page."""

FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {function.name: function for group in GROUPS.values() for function in group}
)
"""All functions by name."""
