"""The declarations of each route: its right and its scope."""

from functools import cached_property

import attrs

from narthex_server.app import API, make_routes
from narthex_server.security.route_rights import AccessRequirement, Extent, Right, requirement_of

Key = tuple[str, str]


@attrs.frozen(slots=False)
class Declarations:
    """What the routes declare, by verb, and by path below the API's; pages included.

    Making all routes takes half a second, so it is done when a test first asks.
    """

    @cached_property
    def requirements(self) -> dict[Key, AccessRequirement]:
        """What each route requires."""
        found = {}
        for route in make_routes().routes:
            requirement = requirement_of(route)
            assert requirement is not None, route
            for method in route.methods:  # type: ignore[attr-defined]
                found[method, route.path.removeprefix(API)] = requirement  # type: ignore[attr-defined]
        return found

    @cached_property
    def open_paths(self) -> set[str]:
        """The paths for which no token is needed."""
        return {path for (_, path), one in self.requirements.items() if one.is_open}

    @cached_property
    def any_token(self) -> set[Key]:
        """The routes for which every token suffices."""
        return {
            key for key, one in self.requirements.items() if one.right is None and not one.is_open
        }

    @cached_property
    def rights(self) -> dict[Key, Right]:
        """The right that each other route requires."""
        return {key: one.right for key, one in self.requirements.items() if one.right is not None}

    @cached_property
    def whole(self) -> set[Key]:
        """The routes of the whole installation."""
        return {key for key, one in self.requirements.items() if one.extent is Extent.INSTALLATION}

    @cached_property
    def of_each(self) -> set[Key]:
        """The routes whose answers are filtered by a token's branches."""
        return {key for key, one in self.requirements.items() if one.extent is Extent.OWN_BRANCHES}

    def pages(self) -> list[Key]:
        """Return the routes that only read."""
        return sorted(key for key in self.rights if key[0] == "GET")


DECLARED = Declarations()
