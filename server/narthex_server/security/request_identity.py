"""The identity of each request that changes something: its actor and its idempotency key."""

import hashlib
import uuid
from uuid import UUID

from fastapi import Request

from narthex_server.errors import InvalidRequest
from narthex_server.security.auth import Principal, Right

KEY_BYTES = range(8, 201)
"""The lengths of idempotency keys that the ledger can store."""


def idempotency_key(request: Request) -> str:
    """Return the idempotency key of a request, empty if it has none.

    Raises:
        InvalidRequest: the ledger cannot store the key.
    """
    key = request.headers.get("idempotency-key", "")
    if key and len(key.encode()) not in KEY_BYTES:
        wanted = f"{KEY_BYTES.start} to {KEY_BYTES.stop - 1} bytes"
        raise InvalidRequest(f"the idempotency key must have {wanted}")
    return key


def actor_of(request: Request) -> str:
    """Return the actor of a request for the ledger; some principals may act for a person."""
    principal: Principal = request.state.principal
    spoken_for = (
        request.headers.get("x-narthex-actor", "") if Right.SPEAK_FOR in principal.rights else ""
    )
    return spoken_for[:200] or principal.name


def new_commit_id(key: str, content: bytes) -> UUID:
    """Derive an id from a key and the content; without a key, each id is a new one.

    It is a UUID of version 8, which older versions of Python cannot generate but can hold.
    """
    seed = key.encode() if key else uuid.uuid4().bytes  # noqa: TID251 - the edge gives the id
    digest = bytearray(hashlib.sha256(hashlib.sha256(content).digest() + seed).digest()[:16])
    digest[6] = 0x80 | digest[6] & 0x0F
    digest[8] = 0x80 | digest[8] & 0x3F
    return UUID(bytes=bytes(digest))
