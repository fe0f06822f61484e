"""Instants in common formats are read by C's parser as the general parser reads them."""

import re

from hypothesis import given
from hypothesis import strategies as st

from narthex._formats import raw_times
from narthex._formats.raw_times import NoInstantError, parse_instant


def general(text: str) -> int | None:
    """Parse an instant without C's parser; None if it is not one."""
    form = raw_times._ISO.fullmatch(text)  # noqa: SLF001 - the two ways of one module
    assert form is not None
    try:
        return raw_times._iso_instant(form)  # noqa: SLF001 - the two ways of one module
    except ValueError:
        return None


def parsed(text: str) -> int | None:
    try:
        return parse_instant(text)
    except NoInstantError:
        return None


@given(
    st.from_regex(
        re.compile(
            r"(19|20)\d\d-[01]\d-[0-3]\d[T ][0-2]\d:[0-6]\d:[0-6]\d(\.\d{1,9})?"
            r"(Z|[+-][0-2]\d:[0-6]\d)?",
            re.ASCII,
        ),
        fullmatch=True,
    )
)
def test_both_parsers_read_the_same_instant(text: str) -> None:
    assert parsed(text) == general(text)
