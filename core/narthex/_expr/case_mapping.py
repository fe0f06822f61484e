"""Lower and upper case by the table of Unicode 14, whatever table the machine has.

Letters that Unicode added later are not changed, and end a word as a blank does.
"""

import re
from collections.abc import Callable

NEWER = (
    r"\x{19B}\x{264}\x{1C89}\x{1C8A}\x{A7CB}-\x{A7CF}\x{A7D2}-\x{A7D5}\x{A7DA}-\x{A7DD}"
    r"\x{10D50}-\x{10D85}\x{16EA0}-\x{16ED3}"
)
"""The letters that gained a case after Unicode 14, in the pattern syntax of Java and Rust."""

_NEWER = re.compile(
    "(["
    + re.sub(r"\\x\{([0-9A-F]+)\}", lambda found: re.escape(chr(int(found[1], 16))), NEWER)
    + "]+)"
)


def change_case(text: str, change: Callable[[str], str]) -> str:
    """Change the case of a text, except for letters that are newer than the table."""
    if text.isascii() or _NEWER.search(text) is None:
        return change(text)
    pieces = _NEWER.split(text)
    # Every second piece is a match of the pattern: letters that stay unchanged.
    return "".join(piece if at % 2 else change(piece) for at, piece in enumerate(pieces))
