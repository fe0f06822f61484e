"""The rights of the tokens that callers have shown, so that not every request reads the ledger."""

import datetime as dt
import hmac
import time
from typing import Final

import attrs
import structlog

from narthex.settings import Settings
from narthex_ledger import Ledger, NotSigned, TokenView
from narthex_server.security.browser_sessions import SESSION
from narthex_server.security.principals import DAGS, PLATFORM, Principal
from narthex_server.security.route_rights import rights_of
from narthex_server.services.bounded_cache import BoundedCache

log = structlog.get_logger()

KNOWN_S: Final = 2.0
"""How long a token's rights are known; a revoked token is refused at most this much later."""

USED_S: Final = 600.0
"""How long after its last use a token is refreshed in the background."""

_MOST: Final = 10_000
"""How many tokens are known."""

_MOST_UNKNOWN: Final = 1_000
"""How many tokens are known to be none; they take no room from the others."""

_GREATEST: Final = 300
"""How many characters a token may have; ours are shorter, and none that is longer is kept."""


@attrs.define
class _KnownToken:
    """A token's rights, as the ledger had them at an instant of the monotonic clock.

    Attributes:
        view: None if the ledger has no such token.
        used_at: When a caller last showed it, by the same clock.
    """

    read_at: float
    view: TokenView | None
    principal: Principal | None
    used_at: float

    @property
    def has_expired(self) -> bool:
        """Whether the token has expired since its rights were read."""
        expires_at = None if self.view is None else self.view.expires_at
        return expires_at is not None and expires_at <= dt.datetime.now(dt.UTC)


@attrs.define(kw_only=True)
class KnownTokens:
    """The known tokens of a process, and the installation's own.

    Once `refresh` is called repeatedly, in the background, only the first use of a token waits for
    the ledger. While the ledger does not answer, the rights that are known remain for the
    installation's `reads_greatest_age_s`.
    """

    ledger: Ledger
    settings: Settings
    _tokens: BoundedCache[str, _KnownToken] = attrs.field(
        factory=lambda: BoundedCache(_MOST), init=False
    )
    _unknown: BoundedCache[str, _KnownToken] = attrs.field(
        factory=lambda: BoundedCache(_MOST_UNKNOWN), init=False
    )
    is_followed: bool = attrs.field(default=False, init=False)

    def known(self, token: str) -> Principal | None:
        """Return the holder of a token that is known; it reads no service, so it never waits.

        None means that the token is not known, or has no rights.
        """
        own = self._own(token)
        if own is not None:
            return own
        found = self._valid(token)
        return None if found is None else found.principal

    def read(self, token: str) -> TokenView | None:
        """Return the rights of a token, from the ledger if they are not known."""
        return self._of(token).view

    def holder(self, token: str) -> Principal | None:
        """Return the holder of a token, from the ledger if it is not known."""
        return self._own(token) or self._of(token).principal

    def forget(self, token: str) -> None:
        """Drop a token, so that its next use reads the ledger."""
        self._tokens.remove(token)
        self._unknown.remove(token)

    def refresh(self) -> None:
        """Read the rights of the tokens in use again, and drop the others.

        Raises:
            LedgerError: The ledger does not answer.
        """
        self.is_followed = True
        for token in self._tokens.recent_keys():
            found = self._tokens.get(token)
            if found is None:
                continue
            if time.monotonic() - found.used_at > USED_S:
                self._tokens.remove(token)
            else:
                self._read(token, used_at=found.used_at)

    def _own(self, token: str) -> Principal | None:
        """Return the holder of the installation's own tokens; comparison takes constant time."""
        settings = self.settings
        for own, principal in ((settings.token, PLATFORM), (settings.dags_token, DAGS)):
            if own and hmac.compare_digest(token.encode(), own.encode()):
                return principal
        return None

    def _of(self, token: str) -> _KnownToken:
        return self._valid(token) or self._read(token, used_at=time.monotonic())

    def _valid(self, token: str) -> _KnownToken | None:
        found = self._tokens.get(token) or self._unknown.get(token)
        if found is None or found.has_expired:
            return None
        now = time.monotonic()
        is_followed = self.is_followed and found.view is not None
        if now - found.read_at > (self.settings.reads_greatest_age_s if is_followed else KNOWN_S):
            return None
        found.used_at = now
        return found

    def _read(self, token: str, *, used_at: float) -> _KnownToken:
        read_at = time.monotonic()
        if not token.startswith("nx_") or len(token) > _GREATEST:
            return _KnownToken(read_at, None, None, used_at)
        try:
            view = self.ledger.tokens.get(token)
        except NotSigned as error:
            log.warning("token_not_signed", error=str(error))
            view = None
        made = _KnownToken(read_at, view, _principal(token, view), used_at)
        stale, kept = (
            (self._tokens, self._unknown) if view is None else (self._unknown, self._tokens)
        )
        stale.remove(token)
        kept.replace(token, made, weight=1)
        return made


def _principal(token: str, view: TokenView | None) -> Principal | None:
    """Return the holder of a token; the key of a browser's session authenticates nobody."""
    if view is None or token.startswith(SESSION):
        return None
    return Principal(
        name=view.name,
        token_id=view.token_id,
        rights=rights_of(view.scopes),
        branches=view.branches,
        tags=view.tags,
    )
