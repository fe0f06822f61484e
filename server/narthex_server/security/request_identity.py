"""What every request that changes something says of itself: who asks, and under which key."""

import hashlib
import uuid
from uuid import UUID

from fastapi import HTTPException, Request

from narthex_server.security.auth import Principal, Right

KEY_BYTES = range(8, 201)
"""What the ledger keeps as an idempotency key."""


def idempotency_key(request: Request) -> str:
    """Return the key of a request, empty if it has none.

    Raises:
        HTTPException: 400: the ledger cannot keep it.
    """
    key = request.headers.get("idempotency-key", "")
    if key and len(key.encode()) not in KEY_BYTES:
        wanted = f"{KEY_BYTES.start} to {KEY_BYTES.stop - 1} bytes"
        raise HTTPException(
            status_code=400, detail={"err_msg": f"the idempotency key must have {wanted}"}
        )
    return key


def actor_of(request: Request) -> str:
    """Name who asks, as the ledger keeps it; some may speak for somebody."""
    principal: Principal = request.state.principal
    spoken_for = (
        request.headers.get("x-narthex-actor", "") if Right.SPEAK_FOR in principal.rights else ""
    )
    return spoken_for[:200] or principal.name


def new_commit_id(key: str, content: bytes) -> UUID:
    """Derive an id from a key and what it came with; without a key each is another.

    It is of version 8, which older Pythons cannot name but can hold.
    """
    seed = key.encode() if key else uuid.uuid4().bytes  # noqa: TID251 - the edge gives the id
    digest = bytearray(hashlib.sha256(hashlib.sha256(content).digest() + seed).digest()[:16])
    digest[6] = 0x80 | digest[6] & 0x0F
    digest[8] = 0x80 | digest[8] & 0x3F
    return UUID(bytes=bytes(digest))
