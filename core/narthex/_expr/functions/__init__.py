"""Every function of expressions, defined once: its types, its nulls, its promise.

Evaluators render these definitions; names are stable because commits contain them. Three rules
hold for all functions, in every engine:

- A function never fails on a row. Where it is undefined (see `undefined`), its value is null,
  whatever its type; a null in a column that is not Optional makes a row mistyped, and the step
  that encounters the row quarantines it. A list or a struct with such a null inside is itself
  null.
- An int is 64 bits; a result beyond them is null. A decimal is 28 digits; likewise.
- The result is never NaN: where arithmetic yields NaN, the value is null. A NaN from user code
  equals itself and is greater than every other number.

Float is IEEE-754 double; an int combined with a float becomes the nearest double.
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
"""All functions by their heading on the reference page."""

FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {function.name: function for group in GROUPS.values() for function in group}
)
"""All functions by name."""
