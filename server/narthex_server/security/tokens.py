"""Routes of tokens: shown once, stored as a hash; each has rights, branches, tags, an expiry."""

import datetime as dt
import secrets
import string
import zlib
from typing import Final

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from narthex_ledger import TokenSuccessor, TokenView
from narthex_server.errors import Forbidden, InvalidRequest
from narthex_server.security.principals import PrincipalDep
from narthex_server.security.request_identity import IdentityDep
from narthex_server.security.route_rights import Extent, Right, requires, rights_of
from narthex_server.services.container import LedgerDep, SettingsDep
from narthex_server.web.plain_routes import Instant, PlainRoute

router = APIRouter(
    route_class=PlainRoute,
    dependencies=[requires(Right.ADMINISTER, extent=Extent.INSTALLATION)],
)

SECRET_BITS = 256
GREATEST_DAYS = 365
SINGLE_SIGN_ON: Final = "single sign-on"
"""The creator of tokens that people get by signing in; they last for hours."""
_DIGITS = string.digits + string.ascii_letters


class TokenCall(BaseModel):
    """A request for a token."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=200)
    scopes: list[str] = Field(min_length=1)
    branches: list[str] = Field(default=["*"], min_length=1)
    tags: list[str] = ["*"]
    days: int = Field(default=90, ge=1, le=GREATEST_DAYS)


class RotateCall(BaseModel):
    """A request to rotate a token."""

    model_config = ConfigDict(extra="forbid")

    overlap_s: int = Field(default=7 * 86_400, ge=0, le=GREATEST_DAYS * 86_400)


class NewToken(TypedDict):
    """A new token.

    Attributes:
        token: Its value, which no other answer has.
    """

    token: str
    token_id: str


class Token(TypedDict):
    """A token, without its value.

    Attributes:
        scopes: Rights, and roles that contain several rights.
        branches: Patterns of the branches that its holder may name.
        tags: Patterns of the tags that its holder may see and change.
    """

    token_id: str
    name: str
    scopes: list[str]
    branches: list[str]
    tags: list[str]
    created_by: str
    created_at: Instant | None
    expires_at: Instant | None
    last_used_at: Instant | None
    revoked_at: Instant | None


class TokenList(TypedDict):
    """All tokens."""

    tokens: list[Token]


class RotatedToken(NewToken):
    """The successor of a token.

    Attributes:
        expires_at: When the successor expires.
        rotated: The id of the token that it replaces.
        rotated_expires_at: Until when that token is accepted.
    """

    expires_at: Instant | None
    rotated: str
    rotated_expires_at: Instant | None


class RevokedToken(TypedDict):
    """A token that was revoked."""

    token_id: str


def make_token(environment: str, token_id: str) -> str:
    """Return a token of 256 random bits, with a checksum that secret scanners can verify."""
    number, digits = secrets.randbits(SECRET_BITS), ""
    while number:
        number, digit = divmod(number, len(_DIGITS))
        digits += _DIGITS[digit]
    body = f"nx_{environment}_{token_id}_{digits}"
    return f"{body}{zlib.crc32(body.encode()):08x}"


@router.post("/tokens")
def create(
    call: TokenCall,
    ledger: LedgerDep,
    settings: SettingsDep,
    principal: PrincipalDep,
    caller: IdentityDep,
) -> NewToken:
    """Create a token; it appears in this answer only."""
    unknown = [scope for scope in call.scopes if not rights_of((scope,))]
    if unknown:
        raise InvalidRequest(f"`{unknown[0]}` is neither a role nor a right")
    if not rights_of(call.scopes) <= principal.rights:
        raise Forbidden("a token can grant only rights that it has")
    token_id = secrets.token_hex(8)
    token = make_token(settings.install_id, token_id)
    ledger.tokens.put(
        token,
        name=call.name,
        scopes=tuple(call.scopes),
        branches=tuple(call.branches),
        tags=tuple(call.tags),
        lifetime=dt.timedelta(days=call.days),
        token_id=token_id,
        actor=caller.actor,
    )
    return {"token": token, "token_id": token_id}


@router.get("/tokens")
def listed(ledger: LedgerDep) -> TokenList:
    """List the tokens, without their values."""
    tokens = (view for view in ledger.tokens.all() if view.scopes)  # others are sessions
    return {"tokens": [_plain(view) for view in tokens]}


@router.post("/tokens/{token_id}/rotate")
def rotate(
    token_id: str,
    call: RotateCall,
    ledger: LedgerDep,
    settings: SettingsDep,
    principal: PrincipalDep,
    caller: IdentityDep,
) -> RotatedToken:
    """Replace a token by one with the same name, rights, branches, tags and lifetime.

    The old one expires after the overlap, in seconds, or at its own expiry if that is earlier.
    """
    found = [view for view in ledger.tokens.all() if view.token_id == token_id]
    if found and not rights_of(found[0].scopes) <= principal.rights:
        raise Forbidden("a token can grant only rights that it has")
    new_id = secrets.token_hex(8)
    token = make_token(settings.install_id, new_id)
    old, new = ledger.tokens.rotate(
        token_id,
        TokenSuccessor(
            token=token,
            token_id=new_id,
            overlap=dt.timedelta(seconds=call.overlap_s),
            greatest_lifetime=dt.timedelta(days=GREATEST_DAYS),
            actor=caller.actor,
        ),
    )
    return {
        "token": token,
        "token_id": new_id,
        "expires_at": _instant(new.expires_at),
        "rotated": token_id,
        "rotated_expires_at": _instant(old.expires_at),
    }


@router.delete("/tokens/{token_id}")
def revoke(token_id: str, ledger: LedgerDep) -> RevokedToken:
    """Revoke a token; it is refused within seconds."""
    ledger.tokens.revoke_by_id(token_id)
    return {"token_id": token_id}


def _plain(view: TokenView) -> Token:
    return {
        "token_id": view.token_id,
        "name": view.name,
        "scopes": list(view.scopes),
        "branches": list(view.branches),
        "tags": list(view.tags),
        "created_by": view.created_by,
        "created_at": _instant(view.created_at),
        "expires_at": _instant(view.expires_at),
        "last_used_at": _instant(view.last_used_at),
        "revoked_at": _instant(view.revoked_at),
    }


def _instant(at: dt.datetime | None) -> str | None:
    return at.isoformat() if at else None
