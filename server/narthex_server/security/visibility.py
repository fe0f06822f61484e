"""The visibility of a branch for tokens with some tags only: the rest appears not to exist."""

from collections.abc import Iterable, Mapping

import attrs
from fastapi import Request

from narthex._ir import Definitions, did_you_mean
from narthex.errors import EntityMissing, raise_all
from narthex_ledger import NotFound
from narthex_server.definitions.data_flow import EntityNode, flow
from narthex_server.definitions.inherited_tags import changed_entities, tags_of
from narthex_server.errors import Forbidden, Missing
from narthex_server.security.auth import Principal, Right
from narthex_server.security.branch_scope import branches_seen
from narthex_server.security.policy_enforcement import shared_of
from narthex_server.services.branch_snapshots import BranchSnapshot
from narthex_server.services.container import Services


@attrs.frozen(kw_only=True)
class Visibility:
    """The hidden part of a branch: datasets, features, and sources that feed hidden ones only."""

    hidden: frozenset[EntityNode]

    def of_dataset(self, name: str) -> bool:
        """Return whether a dataset is visible."""
        return ("dataset", name) not in self.hidden

    def of_feature(self, name: str) -> bool:
        """Return whether a feature is visible, by its qualified name."""
        return ("feature", name) not in self.hidden

    def of_output(self, name: str) -> bool:
        """Return whether a query's output, a feature or featureset, is visible completely."""
        return not any(
            kind == "feature" and (hidden == name or hidden.startswith(f"{name}."))
            for kind, hidden in self.hidden
        )

    def shown(self, definitions: Definitions) -> Definitions:
        """Return the visible definitions; featuresets are reduced to their visible features."""
        cut = (
            attrs.evolve(
                one,
                features=tuple(f for f in one.features if self.of_feature(f"{one.name}.{f.name}")),
            )
            for one in definitions.featuresets
        )
        return Definitions(
            datasets=tuple(one for one in definitions.datasets if self.of_dataset(one.name)),
            featuresets=tuple(one for one in cut if one.features or not self.hidden),
        )

    def of_path(self, path: str) -> bool:
        """Return whether the asset at a logical path is visible."""
        match path.split("/"):
            case ["dataset", name, *_]:
                return self.of_dataset(name)
            case ["webhook", webhook, endpoint, *_]:
                return ("source", f"webhook:{webhook}/{endpoint}") not in self.hidden
            case _:
                return not self.hidden


ALL = Visibility(hidden=frozenset())


def visibility(request: Request, definitions: Definitions | None) -> Visibility:
    """Return the principal's visibility of definitions."""
    principal: Principal = request.state.principal
    if principal.tags == ("*",):
        return ALL
    have = tags_of(definitions, shared_of(request).sources(definitions)).have
    hidden = {node for node, tags in have.items() if not principal.may_see(tags)}
    fed: dict[EntityNode, set[EntityNode]] = {}
    for start, end in flow(definitions) if definitions else ():
        fed.setdefault(start, set()).add(end)
    return Visibility(
        hidden=frozenset(hidden | {n for n in fed if n[0] == "source" and fed[n] <= hidden})
    )


def require_seen(request: Request, snapshot: BranchSnapshot, features: Iterable[str]) -> None:
    """Refuse features, or featuresets with features, that the principal does not see.

    Raises:
        DefinitionErrors: The same error as for a feature that does not exist.
    """
    seen = visibility(request, snapshot.definitions)
    if not seen.hidden:
        return
    known = [
        name
        for featureset in snapshot.definitions.featuresets
        for name in (featureset.name, *(f"{featureset.name}.{f.name}" for f in featureset.features))
    ]
    shown = [name for name in known if seen.of_output(name)]
    raise_all(
        [
            EntityMissing(f"unknown feature `{name}`", hint=did_you_mean(name, shown))
            for name in dict.fromkeys(features)
            if name not in shown
        ]
    )


def require_dataset(request: Request, snapshot: BranchSnapshot, name: str) -> None:
    """Refuse a dataset that the principal does not see.

    Raises:
        Missing: The same error as for a dataset that does not exist.
    """
    if not visibility(request, snapshot.definitions).of_dataset(name):
        raise Missing(f"Dataset `{name}` not found")


def require_authorized(request: Request, before: Definitions | None, after: Definitions) -> None:
    """Refuse a commit that changes hidden entities, or newly cancels a tag without the right to.

    A changed entity counts with all tags that reach it, cancelled or not, before and after.

    Raises:
        Forbidden: The commit does so.
    """
    principal: Principal = request.state.principal
    sources = {} if principal.tags == ("*",) else shared_of(request).sources(before, after)
    old, new = tags_of(before, sources), tags_of(after, sources)
    cancels = new.cancels - old.cancels
    if cancels:
        request.state.cancels = sorted(f"{node[1]} ~{tag}" for node, tag in cancels)
    reaching = (
        one.reach.get(n, frozenset()) for n in changed_entities(before, after) for one in (old, new)
    )
    is_authorized = all(map(principal.may_see, reaching))
    if not is_authorized or (cancels and Right.CANCEL_TAGS not in principal.rights):
        raise Forbidden


def assets_seen(request: Request) -> Mapping[int, frozenset[str]] | None:
    """Return the assets of the principal's branches, with the paths that are visible to it.

    None means all assets.
    """
    services: Services = request.app.state.services
    principal: Principal = request.state.principal
    if not principal.is_narrow:
        return None
    if principal.tags == ("*",):
        return services.ledger.assets.held_paths(services.tenant, branches_seen(request) or ())
    found = services.ledger.branches.all(services.tenant)
    branches = [b.name for b in found if b.state == "active" and principal.may_name(b.name)]
    held = services.ledger.assets.held_paths(services.tenant, branches)
    seen = [visibility_of(request, branch) for branch in branches]
    shown = {
        asset_id: frozenset(path for path in paths if all(one.of_path(path) for one in seen))
        for asset_id, paths in held.items()
    }
    return {asset_id: paths for asset_id, paths in shown.items() if paths}


def is_dataset_seen(request: Request, branch: str, name: str) -> bool:
    """Return whether the principal sees a dataset of a branch.

    A principal with some tags only does not see a dataset that no longer exists.
    """
    principal: Principal = request.state.principal
    if principal.tags == ("*",):
        return True
    services: Services = request.app.state.services
    try:
        snapshot = services.snapshots.deployed(branch)
    except NotFound:
        return False
    known = {one.name for one in snapshot.definitions.datasets} if snapshot else set()
    return name in known and visibility_of(request, branch).of_dataset(name)


def visibility_of(request: Request, branch: str) -> Visibility:
    """Return the principal's visibility of the definitions that are deployed on a branch."""
    services: Services = request.app.state.services
    snapshot = services.snapshots.deployed(branch)
    return visibility(request, snapshot.definitions if snapshot else None)
