"""Draw a share of rows by a hash of some of their fields, so that each run draws the same."""

import hashlib
import json
from collections.abc import Mapping
from typing import Final

from narthex._formats.coercion import render_cell
from narthex._ir.entities import Sample
from narthex._ir.facts import Cell
from narthex._ir.types import DataType

_SPAN: Final = 1 << 64


def is_drawn(sample: Sample, cells: Mapping[str, Cell], types: Mapping[str, DataType]) -> bool:
    """Whether a sample takes a row.

    The first eight bytes of the BLAKE2b hash of the fields' values, rendered as compact JSON in
    the order of `using`, are a number below 2^64; the row is taken if it is below rate · 2^64.
    """
    values = [render_cell(cells[name], types[name]) for name in sample.using]
    text = json.dumps(values, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    drawn = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
    return drawn < sample.rate * _SPAN
