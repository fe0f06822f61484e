"""The checks of an ID token (OpenID Connect Core, 3.1.3.7), and the person whom it names."""

import datetime as dt
import hmac
import re
from collections.abc import Mapping
from typing import Final

import attrs
import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from narthex._base import Json
from narthex_server.errors import Forbidden
from narthex_server.sso.configuration import SsoFile
from narthex_server.sso.provider import OidcProvider

ALGORITHMS: Final[Mapping[str, str]] = {
    "RS256": "RSA",
    "RS384": "RSA",
    "RS512": "RSA",
    "PS256": "RSA",
    "PS384": "RSA",
    "PS512": "RSA",
    "ES256": "EC",
    "ES384": "EC",
    "ES512": "EC",
    "EdDSA": "OKP",
}
"""The algorithms of signatures that are accepted, each with its type of keys.

Those with a shared secret (HS256), and none at all, are not among them.
"""

LEEWAY_S: Final = 60
"""By how much the clocks of provider and server may differ."""

GREATEST_TOKEN_BYTES: Final = 65_536
LEAST_RSA_BITS: Final = 2048
_CURVES: Final = {"ES256": "secp256r1", "ES384": "secp384r1", "ES512": "secp521r1"}
_EMAIL: Final = re.compile(r"[!-?A-~]{1,100}@[!-?A-~]{1,90}")
_SUBJECT: Final = re.compile(r"[ -~]{1,190}")


class NotSignedIn(Forbidden):
    """The provider's answer does not sign the person in; the text says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"nobody was signed in: {reason}")


@attrs.frozen(kw_only=True)
class Person:
    """A person whom the provider has signed in.

    Attributes:
        name: The verified e-mail address; without one `sub:` and the provider's id of the person.
        ends_at: The end of the provider's own session, if the token has it.
    """

    name: str
    groups: tuple[str, ...]
    ends_at: dt.datetime | None


def read_id_token(token: str, *, file: SsoFile, provider: OidcProvider, nonce: str) -> Person:
    """Check an ID token, and return the person whom it names.

    Raises:
        NotSignedIn: A check failed, or the person cannot be named.
        ProviderUnavailable: The provider's keys cannot be read.
    """
    if len(token) > GREATEST_TOKEN_BYTES:
        raise NotSignedIn("the ID token is too large")
    try:
        header = jwt.get_unverified_header(token)
        algorithm = header.get("alg")
        if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
            raise NotSignedIn("the ID token is not signed by an accepted algorithm")
        claims: dict[str, Json] = jwt.decode(
            token,
            _key(header, algorithm, provider),
            algorithms=[algorithm],
            audience=file.client_id,
            issuer=file.issuer,
            leeway=LEEWAY_S,
            options={"require": ["exp", "iat", "iss", "aud", "sub", "nonce"]},
        )
    except jwt.MissingRequiredClaimError as error:
        raise NotSignedIn(f"the ID token has no claim `{error.claim}`") from None
    except (jwt.PyJWTError, ValueError, TypeError, OverflowError) as error:
        raise NotSignedIn(_REASONS.get(type(error), "the ID token is not valid")) from None
    _require_own(claims, file=file, nonce=nonce)
    return Person(
        name=_name(claims, trusts_email=file.trusts_email),
        groups=_groups(claims, file.groups_claim),
        ends_at=_session_end(claims),
    )


_REASONS: Final[Mapping[type[Exception], str]] = {
    jwt.ExpiredSignatureError: "the ID token has expired",
    jwt.ImmatureSignatureError: "the ID token is not valid yet; compare the clocks",
    jwt.InvalidAudienceError: "the ID token is for another client",
    jwt.InvalidIssuerError: "the ID token is of another issuer",
    jwt.InvalidSignatureError: "the signature of the ID token is wrong",
}


def _key(header: Mapping[str, object], algorithm: str, provider: OidcProvider) -> jwt.PyJWK:
    """Return the provider's key for a token, read again if the token has a new one."""
    for again in (False, True):
        fitting = [
            key
            for key in provider.keys(again=again)
            if key.get("kty") == ALGORITHMS[algorithm]
            and key.get("use", "sig") == "sig"
            and key.get("alg", algorithm) == algorithm
            and ("kid" not in header or key.get("kid") == header["kid"])
        ]
        if len(fitting) == 1:
            return _sound(jwt.PyJWK(dict(fitting[0]), algorithm), algorithm)
    raise NotSignedIn("the provider has no such key as that of the ID token")


def _sound(key: jwt.PyJWK, algorithm: str) -> jwt.PyJWK:
    """Return a public key of enough bits, on the curve of its algorithm."""
    found = key.key
    is_private = hasattr(found, "private_bytes")
    is_short = isinstance(found, rsa.RSAPublicKey) and found.key_size < LEAST_RSA_BITS
    curve = found.curve.name if isinstance(found, ec.EllipticCurvePublicKey) else None
    if is_private or is_short or curve != _CURVES.get(algorithm):
        raise NotSignedIn("the provider's key is too short, or of another kind")
    return key


def _require_own(claims: Mapping[str, Json], *, file: SsoFile, nonce: str) -> None:
    """Check that a token was made for this client, and for this sign-in."""
    audience, party = claims["aud"], claims.get("azp")
    if party is not None and party != file.client_id:
        raise NotSignedIn("the ID token was given to another client")
    if isinstance(audience, list) and len(audience) > 1 and party is None:
        raise NotSignedIn("the ID token is for several clients")
    sent = claims["nonce"]
    if not isinstance(sent, str) or not hmac.compare_digest(
        sent.encode(errors="surrogatepass"), nonce.encode()
    ):
        raise NotSignedIn("the ID token is of another sign-in")


def _name(claims: Mapping[str, Json], *, trusts_email: bool) -> str:
    email, subject = claims.get("email"), claims["sub"]
    is_verified = claims.get("email_verified") is True or (
        trusts_email and claims.get("email_verified") is None
    )
    if is_verified and isinstance(email, str) and _EMAIL.fullmatch(email):
        return email
    if not isinstance(subject, str) or not _SUBJECT.fullmatch(subject):
        raise NotSignedIn("the ID token does not name the person")
    return f"sub:{subject}"


def _groups(claims: Mapping[str, Json], claim: str) -> tuple[str, ...]:
    found = claims.get(claim)
    if isinstance(found, str):
        return (found,)
    if not isinstance(found, list):
        raise NotSignedIn(
            f"the ID token has no claim `{claim}` with groups; ask an operator to let the provider "
            "send it, or to name another claim in `sso.toml`"
        )
    return tuple(group for group in found if isinstance(group, str))


def _session_end(claims: Mapping[str, Json]) -> dt.datetime | None:
    """Return the end of the provider's session, the claim `session_expiry`, if there is one."""
    end = claims.get("session_expiry")
    if end is None:
        return None
    if isinstance(end, bool) or not isinstance(end, int | float):
        raise NotSignedIn("the ID token has an invalid `session_expiry`")
    try:
        return dt.datetime.fromtimestamp(end, tz=dt.UTC)
    except (ValueError, OverflowError, OSError):
        raise NotSignedIn("the ID token has an invalid `session_expiry`") from None
