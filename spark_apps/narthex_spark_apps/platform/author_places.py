"""Check the places that definitions name, when a job opens them.

A commit is checked before it is accepted (`narthex._analysis.checks.places`,
`narthex._analysis.policy.commit_checks`). This check refuses definitions that were deployed before
these rules or changed in the ledger.
"""

from narthex._analysis.checks import place_errors
from narthex._analysis.policy import own_places
from narthex._base import NOWHERE, meets
from narthex._ir import Connector, Files, SinkTarget
from narthex.settings import Settings


class ForbiddenPlaceError(OSError):
    """A definition names a place that sources and sinks may not use."""


def require_place(target: Connector | SinkTarget) -> None:
    """Refuse a path outside its root, and a topic that the platform or its broker reserves.

    Raises:
        ForbiddenPlaceError: The target is such a place.
    """
    for error in place_errors(target, NOWHERE):
        raise ForbiddenPlaceError(f"{error.message}; {error.hint}")


def require_path(files: Files, settings: Settings) -> None:
    """Refuse a path outside its root or in a directory that the platform reserves.

    Raises:
        ForbiddenPlaceError: The path is refused.
    """
    require_place(files)
    if any(meets(place, files.path) for place in own_places(settings)):
        raise ForbiddenPlaceError(f"`{files.path}` reaches what the platform keeps for itself")
