"""Places that definitions name, judged again where a job opens them.

A commit is judged before it is accepted (`narthex._analysis.checks.places`,
`narthex._analysis.policy.commit_checks`). What was deployed before these rules, or was changed in
the ledger, is refused here.
"""

from narthex._analysis.checks import place_errors
from narthex._analysis.policy import own_places
from narthex._base import NOWHERE, meets
from narthex._ir import Connector, Files, SinkTarget
from narthex.settings import Settings


class ForbiddenPlaceError(OSError):
    """A definition names a place that no source and no sink may have."""


def require_place(target: Connector | SinkTarget) -> None:
    """Refuse a path that leaves its root, and a topic that the platform or its broker keeps.

    Raises:
        ForbiddenPlaceError: It is such a place.
    """
    for error in place_errors(target, NOWHERE):
        raise ForbiddenPlaceError(f"{error.message}; {error.hint}")


def require_path(files: Files, settings: Settings) -> None:
    """Refuse a path that leaves its root or reaches what the platform keeps for itself.

    Raises:
        ForbiddenPlaceError: It is such a path.
    """
    require_place(files)
    if any(meets(place, files.path) for place in own_places(settings)):
        raise ForbiddenPlaceError(f"`{files.path}` reaches what the platform keeps for itself")
