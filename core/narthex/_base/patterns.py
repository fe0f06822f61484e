r"""Regular expressions of authors, matched in linear time.

Patterns have the syntax of RE2, which has no look-around and no back-references: the time of a
match grows with the length of the text and never with its content. Arrow matches by the same
engine, so rows and columns are judged alike; `\d`, `\w` and `\s` match ASCII only.
"""

import functools
from typing import Final

import re2

_OPTIONS: Final = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = 1 << 20

REMEMBERED: Final = 256
ADVICE: Final = "write it in RE2 syntax, without look-around and back-references"
"""The remedy for a pattern that `check_pattern` refuses."""


class PatternError(ValueError):
    """A pattern that the engine does not accept; the message has the reason."""


def check_pattern(pattern: str) -> None:
    """Compile a pattern.

    Raises:
        PatternError: It is not a pattern, or has look-around or back-references, or is too large.
    """
    _compiled(pattern)


def matches(pattern: str, text: str) -> bool:
    """Return whether a pattern matches a text as a whole.

    Raises:
        PatternError: `check_pattern` refuses the pattern.
    """
    try:
        return _compiled(pattern).fullmatch(text) is not None
    except UnicodeEncodeError:  # half of a surrogate pair is not text
        return False


def finds(pattern: str, text: str) -> bool:
    """Return whether a pattern matches some part of a text.

    Raises:
        PatternError: `check_pattern` refuses the pattern.
    """
    try:
        return _compiled(pattern).search(text) is not None
    except UnicodeEncodeError:  # half of a surrogate pair is not text
        return False


@functools.lru_cache(REMEMBERED)
def _compiled(pattern: str) -> "re2._Regexp[str]":
    try:
        return re2.compile(pattern, _OPTIONS)
    except (re2.error, UnicodeEncodeError) as error:
        said = error.args[0] if error.args else error
        why = said.decode(errors="replace") if isinstance(said, bytes) else str(error)
        raise PatternError(why) from None
