"""The depths of brackets in a long text, as arrays."""

from typing import Final

import numpy as np
import numpy.typing as npt

_CHUNK: Final = 1 << 20
_QUOTE: Final = ord('"')
_OTHERS: Final = bytes(byte for byte in range(256) if byte not in b'"[]{}')
_STEPS: Final = np.zeros(256, dtype=np.int8)
_STEPS[list(b"[{")] = 1
_STEPS[list(b"]}")] = -1


def reaches_deeper(body: bytes, limit: int) -> bool:
    """Return whether brackets outside strings nest deeper than a limit, in one pass."""
    left = body.replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, _OTHERS)
    marks = np.frombuffer(left, dtype=np.uint8)
    is_text, depth = False, 0
    for start in range(0, len(marks), _CHUNK):
        texts, depths = _depths(marks[start : start + _CHUNK], is_text=is_text, depth=depth)
        if depths.max() > limit:
            return True
        is_text, depth = bool(texts[-1]), int(depths[-1])
    return False


def _depths(
    marks: npt.NDArray[np.uint8], *, is_text: bool, depth: int
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int32]]:
    """Return for each mark whether a string is open after it, and the depth."""
    texts = np.logical_xor.accumulate(marks == _QUOTE) ^ is_text
    steps = np.where(texts, np.int8(0), _STEPS[marks])
    return texts, np.cumsum(steps, dtype=np.int32) + np.int32(depth)
