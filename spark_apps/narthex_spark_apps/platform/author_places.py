"""Check the places that definitions name, when a job opens them.

A commit is checked before it is accepted (`narthex._analysis.checks.places`,
`narthex._analysis.policy.commit_checks`). This check refuses definitions that were deployed before
these rules or changed in the ledger.
"""

from narthex._analysis.checks import place_errors
from narthex._analysis.policy import own_places
from narthex._base import NOWHERE, meets
from narthex._connectors import FilesPlace, kind_of
from narthex._ir import Connector
from narthex.settings import Settings


class ForbiddenPlaceError(OSError):
    """A definition names a place that sources and sinks may not use."""


def require_place(target: Connector) -> None:
    """Refuse a path outside its root, and a topic that the platform or its broker reserves.

    Raises:
        ForbiddenPlaceError: The target is such a place.
    """
    for error in place_errors(target, NOWHERE):
        raise ForbiddenPlaceError(f"{error.message}; {error.hint}")


def require_path(connector: Connector, settings: Settings) -> None:
    """Refuse what `require_place` refuses, and files in a directory that the platform reserves.

    Raises:
        ForbiddenPlaceError: The place is refused.
    """
    require_place(connector)
    place = kind_of(connector).policy.place(connector)
    if isinstance(place, FilesPlace) and any(
        meets(own, place.path) for own in own_places(settings)
    ):
        raise ForbiddenPlaceError(
            f"`{place.path}` reaches a directory that belongs to the platform"
        )
