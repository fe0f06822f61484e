"""The messages to and from a worker: a JSON header and an Arrow stream, lengths first.

Nothing else is read from a worker, so it cannot send anything that is executed here. Its headers
are short and flat; length and depth are checked before a header is decoded.
"""

import json
import re
import struct
from collections.abc import Callable
from typing import Final

import attrs

LENGTHS: Final = struct.Struct(">IQ")
"""The lengths of the header and of the body, in bytes."""

GREATEST_HEADER_BYTES: Final = 1 << 24
"""The limit for the header of a call, which contains the text of the author code."""
GREATEST_ANSWER_HEADER_BYTES: Final = 1 << 16
GREATEST_DEPTH: Final = 4

_TEXT: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)


class BrokenFrameError(ValueError):
    """The bytes are not a frame."""


@attrs.frozen
class Frame:
    """One message.

    Attributes:
        header: JSON: the kind of the message and its parameters.
        body: An Arrow stream of one table; empty without one.
    """

    header: dict[str, object]
    body: bytes = b""


def render_frame(frame: Frame) -> bytes:
    """Render a frame as bytes."""
    header = json.dumps(frame.header).encode()
    return LENGTHS.pack(len(header), len(frame.body)) + header + frame.body


def read_frame(
    read: Callable[[int], bytes],
    *,
    greatest_body_bytes: int,
    greatest_header_bytes: int = GREATEST_HEADER_BYTES,
) -> Frame:
    """Read one frame; `read` returns exactly the requested number of bytes.

    Raises:
        BrokenFrameError: It is longer than allowed, or its header is not a flat JSON object.
    """
    header_bytes, body_bytes = LENGTHS.unpack(read(LENGTHS.size))
    if header_bytes > greatest_header_bytes or body_bytes > greatest_body_bytes:
        raise BrokenFrameError(f"a frame of {header_bytes + body_bytes} bytes is too long")
    rendered = read(header_bytes)
    if _depth(rendered) > GREATEST_DEPTH:
        raise BrokenFrameError("a header is nested too deeply")
    try:
        header = json.loads(rendered.decode())
    except ValueError as error:
        raise BrokenFrameError(f"a header is not JSON: {error}") from None
    if not isinstance(header, dict):
        raise BrokenFrameError("a header is not an object")
    named = {_unicode(str(name)): _encodable(value) for name, value in header.items()}
    return Frame(named, read(body_bytes))


def _depth(rendered: bytes) -> int:
    """Return the nesting depth of JSON in one pass, ignoring the content of strings."""
    deepest = depth = 0
    for byte in _TEXT.sub(b"", rendered):
        if byte in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif byte in b"]}":
            depth -= 1
    return deepest


def _encodable(value: object) -> object:
    """Return a value with valid Unicode strings, as JSON can contain lone surrogates."""
    match value:
        case str():
            return _unicode(value)
        case list():
            return [_encodable(one) for one in value]
        case dict():
            return {_encodable(name): _encodable(one) for name, one in value.items()}
        case _:
            return value


def _unicode(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
