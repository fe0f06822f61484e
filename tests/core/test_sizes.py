"""Sizes as people read them."""

import pytest

from narthex._base import render_size


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536 * 1024, "1.5 MiB"),
        (1 << 30, "1.0 GiB"),
        (5000 << 40, "5,000.0 TiB"),
    ],
)
def test_a_size_has_the_unit_of_its_magnitude(size: int, text: str) -> None:
    assert render_size(size) == text
