"""Positions in topics as an opaque text: `log` returns it, and `query(after=…)` accepts it."""

import base64
import binascii
import json
import re
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

Positions: TypeAlias = Mapping[str, Mapping[int, int]]
"""The next offset after some records, by topic and partition."""

_VERSION: Final = "1."
_PARTITION: Final = re.compile(r"[0-9]{1,9}")
GREATEST_POSITIONS_LENGTH: Final = 8192


class NotPositionsError(ValueError):
    """The text does not have positions."""


def render_positions(positions: Positions) -> str:
    """Render positions as a text of letters, digits, `-`, `_` and `.`."""
    plain = {topic: {str(p): offset for p, offset in of.items()} for topic, of in positions.items()}
    encoded = base64.urlsafe_b64encode(json.dumps(plain, separators=(",", ":")).encode())
    return _VERSION + encoded.decode().rstrip("=")


def parse_positions(text: str) -> dict[str, dict[int, int]]:
    """Parse the text of `render_positions`.

    Raises:
        NotPositionsError: It is another text.
    """
    encoded = text.removeprefix(_VERSION)
    if encoded == text or len(text) > GREATEST_POSITIONS_LENGTH:
        raise NotPositionsError
    try:
        padded = encoded + "=" * (-len(encoded) % 4)
        plain = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError):
        raise NotPositionsError from None
    if not isinstance(plain, dict):
        raise NotPositionsError
    return {topic: _partitions(of) for topic, of in plain.items()}


def _partitions(plain: object) -> dict[int, int]:
    if not isinstance(plain, dict):
        raise NotPositionsError
    found: dict[int, int] = {}
    for partition, offset in plain.items():
        if not _PARTITION.fullmatch(partition) or type(offset) is not int:
            raise NotPositionsError
        found[int(partition)] = offset
    return found


def united_positions(texts: Iterable[str]) -> str:
    """Return a text with the greatest positions of some texts.

    Raises:
        NotPositionsError: One of them is another text.
    """
    united: dict[str, dict[int, int]] = {}
    for text in texts:
        for topic, partitions in parse_positions(text).items():
            of = united.setdefault(topic, {})
            for partition, offset in partitions.items():
                of[partition] = max(offset, of.get(partition, 0))
    return render_positions(united)
