"""Limits of requests: pure rules on the head, and on the bytes of the body."""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import unquote_to_bytes

import attrs

from narthex._base import GREATEST_DEPTH, is_deeper

GREATEST_HEAD_BYTES: Final = 32 * 1024
"""How many bytes the address and the headers of a request may have together."""
GREATEST_BODY_BYTES: Final = 16 * 1024 * 1024
GREATEST_OPEN_BODY_BYTES: Final = 16 * 1024
"""How many bytes a body may have on a route that needs no token."""

REFUSALS: Final[Mapping[int, str]] = {
    408: "The body did not arrive in time.",
    411: "The body has neither a length nor a digest.",
    413: "The body is too large.",
    415: "The body is compressed.",
    431: "The address and the headers are too large.",
}
"""The statuses of requests that no route gets, besides 400."""

_CONTROL: Final = re.compile(rb"[\x00-\x1f\x7f]")
_DIGITS: Final = re.compile(r"[0-9]{1,15}")
_PAIR: Final = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_HALF: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_DIGEST: Final = re.compile(r"\s*([a-z0-9-]+)=:([A-Za-z0-9+/=]*):\s*")
_HASHES: Final = {"sha-256": hashlib.sha256, "sha-512": hashlib.sha512}


@attrs.frozen
class Refusal:
    """The refusal of a request: an HTTP status, and a message."""

    status: int
    why: str


def judge_head(
    address: bytes, headers: Iterable[tuple[bytes, bytes]], *, greatest_body: int
) -> Refusal | None:
    """Check the address and the headers of a request; return None if they are valid.

    Args:
        address: The path and the query, as they were sent.
        headers: Names are in lower case.
        greatest_body: How many bytes the body may have.
    """
    found = list(headers)
    size = len(address) + sum(len(name) + len(value) for name, value in found)
    if size > GREATEST_HEAD_BYTES:
        return Refusal(431, f"the headers have more than {GREATEST_HEAD_BYTES} bytes")
    if not _is_text(unquote_to_bytes(address)):
        return Refusal(400, "the address has bytes that are not printable UTF-8 text")
    lengths = {value for name, value in found if name == b"content-length"}
    if len(lengths) > 1 or not all(_DIGITS.fullmatch(v.decode("latin-1")) for v in lengths):
        return Refusal(400, "the `content-length` is not one number")
    if any(int(length) > greatest_body for length in lengths):
        return _too_large(greatest_body)
    if any(value != b"identity" for name, value in found if name == b"content-encoding"):
        return Refusal(415, "compressed bodies are not supported")
    return None


def judge_size(size: int, *, greatest_body: int) -> Refusal | None:
    """Check how many bytes of a body have arrived."""
    return _too_large(greatest_body) if size > greatest_body else None


def judge_whole(body: bytes, *, length: str | None, digest: str | None) -> Refusal | None:
    """Check a body against the length and the digest of its headers.

    A digest of an unsupported kind is ignored.
    """
    if length is not None and int(length) != len(body):
        return Refusal(400, "the length of the body differs from its `content-length`")
    if digest is None:
        return None
    for part in digest.split(","):
        match = _DIGEST.fullmatch(part)
        if match is None:
            return Refusal(400, "`content-digest` does not follow RFC 9530")
        hashed = _HASHES.get(match[1])
        if hashed and not hmac.compare_digest(hashed(body).digest(), _bytes_of(match[2])):
            return Refusal(400, "the body does not match its `content-digest`; send it again")
    return None


def judge_delimited(headers: Mapping[str, str]) -> Refusal | None:
    """Check that a truncated body can be detected: it has a length or a digest."""
    if "content-length" in headers or "content-digest" in headers:
        return None
    return Refusal(411, "send the body with `content-length` or `content-digest`")


def judge_json(body: bytes, *, nul: bool) -> Refusal | None:
    """Check a body that is read as JSON, whatever its headers declare.

    Args:
        body: The bytes.
        nul: Whether texts may have the character NUL, which PostgreSQL cannot store.
    """
    if not _is_utf8(body):
        return Refusal(400, "the JSON is not UTF-8 text")
    if is_deeper(body, GREATEST_DEPTH):
        return Refusal(400, f"the JSON nests deeper than {GREATEST_DEPTH}")
    if b"\\u" not in body:
        return None
    escapes = body.replace(b"\\\\", b"")
    if _HALF.search(escapes) and _HALF.search(_PAIR.sub(b" ", escapes)):
        return Refusal(400, "a JSON string has a lone surrogate")
    if not nul and b"\\u0000" in escapes:
        return Refusal(400, "a JSON string has the character NUL")
    return None


def _is_text(found: bytes) -> bool:
    return _is_utf8(found) and not _CONTROL.search(found)


def _is_utf8(found: bytes) -> bool:
    """Return whether bytes are UTF-8, and not another encoding that a JSON parser would guess."""
    try:
        found.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in found


def _too_large(greatest_body: int) -> Refusal:
    return Refusal(413, f"the request is larger than {greatest_body // 1024} KiB")


def _bytes_of(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return b""
