"""Expressions: their functions, their types, and the evaluators.

- The language: `functions` (each function once), `type_rules`, `type_lattice`, `typing`, `render`.
- Rules that all engines share: `time_zones`, `time_formats`, `time_units`, `case_mapping`,
  `json_paths`, `now`.
- Evaluators: `python` (row by row, the reference) and `polars` (by column).

Authors write expressions with `narthex.expr`, which is built in `narthex._sdk.expressions`.
"""

from narthex._expr.case_mapping import NEWER
from narthex._expr.time_formats import (
    MONTHS,
    READ,
    SHORT,
    WEEK_PARTS,
    WEEKDAYS,
    Directive,
    number_forms,
    pieces,
)
from narthex._expr.time_units import UNIT_US
from narthex._expr.time_zones import FIRST_US, LAST_US
from narthex._expr.type_lattice import lca
from narthex._expr.typing import ExpressionTypeError, fit, infer

__all__ = [
    "FIRST_US",
    "LAST_US",
    "MONTHS",
    "NEWER",
    "READ",
    "SHORT",
    "UNIT_US",
    "WEEKDAYS",
    "WEEK_PARTS",
    "Directive",
    "ExpressionTypeError",
    "fit",
    "infer",
    "lca",
    "number_forms",
    "pieces",
]
