"""What passes between us and a worker: a JSON header and an Arrow stream, lengths first.

Nothing else is ever read from a worker, so it can say nothing that is executed here.
"""

import json
import struct
from collections.abc import Callable
from typing import Final

import attrs

LENGTHS: Final = struct.Struct(">IQ")
"""Of the header and of the body, in bytes."""

GREATEST_HEADER_BYTES: Final = 1 << 24


class BrokenFrameError(ValueError):
    """Bytes that are no frame."""


@attrs.frozen
class Frame:
    """One message.

    Attributes:
        header: JSON: what it is, and what belongs to it.
        body: An Arrow stream of one table; empty when there is none.
    """

    header: dict[str, object]
    body: bytes = b""


def render_frame(frame: Frame) -> bytes:
    """Render a frame as bytes."""
    header = json.dumps(frame.header).encode()
    return LENGTHS.pack(len(header), len(frame.body)) + header + frame.body


def read_frame(read: Callable[[int], bytes], *, greatest_body_bytes: int) -> Frame:
    """Read one frame; `read` gives exactly as many bytes as it is asked for.

    Raises:
        BrokenFrameError: It is longer than allowed, or its header is no JSON object.
    """
    header_bytes, body_bytes = LENGTHS.unpack(read(LENGTHS.size))
    if header_bytes > GREATEST_HEADER_BYTES or body_bytes > greatest_body_bytes:
        raise BrokenFrameError(f"a frame of {header_bytes + body_bytes} bytes is too long")
    try:
        header = json.loads(read(header_bytes))
    except ValueError as error:
        raise BrokenFrameError(f"a header is no JSON: {error}") from None
    if not isinstance(header, dict):
        raise BrokenFrameError("a header is no object")
    return Frame(header, read(body_bytes))
