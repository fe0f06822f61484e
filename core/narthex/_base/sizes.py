"""Sizes as people read them."""

from typing import Final

_KIB: Final = 1024.0
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")


def render_size(size_bytes: int) -> str:
    """Render a number of bytes in the unit of its magnitude, such as `1.5 MiB`."""
    number, unit = float(size_bytes), 0
    while number >= _KIB and unit < len(_UNITS) - 1:
        number, unit = number / _KIB, unit + 1
    return f"{number:,.1f} {_UNITS[unit]}" if unit else f"{size_bytes} {_UNITS[0]}"
