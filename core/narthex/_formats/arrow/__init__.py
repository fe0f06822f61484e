"""Cells as Arrow arrays. A separate package because it loads `pyarrow`."""

from narthex._formats.arrow.arrays import (
    array_of,
    arrow_type,
    cells_of,
    stored_array,
    stored_cells,
    stored_type,
)

__all__ = [
    "array_of",
    "arrow_type",
    "cells_of",
    "stored_array",
    "stored_cells",
    "stored_type",
]
