"""Formats of instants, as Fennel's language reads them."""

import re


def in_nanoseconds(format_text: str) -> str:
    """Return a format of `strftime` whose `%f` writes nine digits, as Fennel's does."""
    return re.sub(r"%(.)", lambda found: "%9f" if found[1] == "f" else found[0], format_text)
