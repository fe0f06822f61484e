"""The declarations of each route: its right and its scope."""

from narthex_server.app import API, make_routes
from narthex_server.security.route_rights import AccessRequirement, Extent, Right, requirement_of


def _declared() -> dict[tuple[str, str], AccessRequirement]:
    found = {}
    for route in make_routes().routes:
        requirement = requirement_of(route)
        assert requirement is not None, route
        for method in route.methods:  # type: ignore[attr-defined]
            found[method, route.path.removeprefix(API)] = requirement  # type: ignore[attr-defined]
    return found


REQUIREMENTS = _declared()
"""By verb, and by path below the API's; pages included."""
OPEN_PATHS = {path for (_, path), one in REQUIREMENTS.items() if one.is_open}
ANY_TOKEN = {key for key, one in REQUIREMENTS.items() if one.right is None and not one.is_open}
"""The routes for which every token suffices."""
RIGHTS: dict[tuple[str, str], Right] = {
    key: one.right for key, one in REQUIREMENTS.items() if one.right is not None
}
WHOLE = {key for key, one in REQUIREMENTS.items() if one.extent is Extent.INSTALLATION}
OF_EACH = {key for key, one in REQUIREMENTS.items() if one.extent is Extent.OWN_BRANCHES}
