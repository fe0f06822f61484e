"""The nesting depth of JSON, found before parsing because a parser recurses once per level."""

from typing import Final

GREATEST_DEPTH: Final = 64
"""The greatest nesting depth of lists and objects in JSON."""


def is_deeper(body: bytes, limit: int) -> bool:
    """Return whether brackets outside strings nest deeper than a limit.

    It takes one pass, linear in the size of the body. Up to the first syntax error it counts
    the same depth as a parser, which reads no further.
    """
    if body.count(b"[") + body.count(b"{") <= limit:
        return False
    from narthex._base.bracket_depths import reaches_deeper  # noqa: PLC0415 - numpy is slow to load

    return reaches_deeper(body, limit)
