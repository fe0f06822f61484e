"""The identity of each request that changes something: its actor and its idempotency key."""

import hashlib
import uuid
from typing import Annotated, Final, TypeAlias
from uuid import UUID

import attrs
from fastapi import Depends, Request

from narthex_server.deploy.airflow_client import RUN_KEY
from narthex_server.errors import InvalidRequest
from narthex_server.security.principals import Principal, named_branch
from narthex_server.security.route_rights import Right

KEY_BYTES: Final = range(8, 201)
"""The lengths of idempotency keys that the ledger can store."""


@attrs.frozen(kw_only=True)
class RequestIdentity:
    """The actor of a request for the ledger, and the key by which a repetition is recognized.

    Attributes:
        sent_key: The idempotency key as it was sent; empty if there is none.
        branch: The branch whose keys are apart from all others, for a principal that is limited to
            some; empty if keys are those of the whole installation. So a key that was used on a
            branch that the principal may not name is unused.
    """

    actor: str
    sent_key: str
    branch: str = ""

    @property
    def idempotency_key(self) -> str:
        """The idempotency key, empty if there is none.

        Raises:
            InvalidRequest: The ledger cannot store the key.
        """
        if self.sent_key and len(self.sent_key.encode()) not in KEY_BYTES:
            wanted = f"{KEY_BYTES.start} to {KEY_BYTES.stop - 1} bytes"
            raise InvalidRequest(f"the idempotency key must have {wanted}")
        return key_on(self.branch, self.sent_key)


def key_on(branch: str, key: str) -> str:
    """Return the form of an idempotency key in the ledger; the branch is empty for all of them."""
    if not (branch and key):
        return key
    return hashlib.sha256(f"{branch}\n{key}".encode(errors="surrogatepass")).hexdigest()


async def identity_of(request: Request) -> RequestIdentity:
    """Return the caller of a request; some principals may act for a person.

    Raises:
        InvalidRequest: The idempotency key claims to be that of a run in Airflow.
    """
    principal: Principal = request.state.principal
    sent_key = request.headers.get("idempotency-key", "")
    if sent_key.startswith(RUN_KEY):
        raise InvalidRequest(
            f"only runs in Airflow have idempotency keys that begin with `{RUN_KEY}`; send another"
        )
    speaks_for = (
        request.headers.get("x-narthex-actor", "") if Right.SPEAK_FOR in principal.rights else ""
    )
    return RequestIdentity(
        actor=speaks_for[:200] or principal.name,
        sent_key=sent_key,
        branch=named_branch(request) if principal.is_narrow else "",
    )


IdentityDep: TypeAlias = Annotated[RequestIdentity, Depends(identity_of)]


def new_commit_id(key: str, content: bytes) -> UUID:
    """Derive an id from a key and the content; without a key, each id is a new one.

    It is a UUID of version 8, which older versions of Python cannot generate but can hold.
    """
    seed = key.encode() if key else uuid.uuid4().bytes  # noqa: TID251 - the edge gives the id
    digest = bytearray(hashlib.sha256(hashlib.sha256(content).digest() + seed).digest()[:16])
    digest[6] = 0x80 | digest[6] & 0x0F
    digest[8] = 0x80 | digest[8] & 0x3F
    return UUID(bytes=bytes(digest))
