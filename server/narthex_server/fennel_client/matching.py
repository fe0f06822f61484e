"""The requests of Fennel's client: they name their branch in its own header."""

from typing import Final

from starlette.routing import Match
from starlette.types import Scope
from typing_extensions import override

from narthex_server.web.plain_routes import PlainRoute

_THEIRS: Final = b"x-fennel-branch"
_OURS: Final = b"x-narthex-branch"


class FennelRoute(PlainRoute):
    """A route that matches only requests of Fennel's client; it precedes ours of the same path."""

    @override
    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match a request with Fennel's header and without ours."""
        names = {name for name, _ in scope.get("headers", ())}
        if _THEIRS not in names or _OURS in names:
            return Match.NONE, {}
        return super().matches(scope)
