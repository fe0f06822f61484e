"""Access of one request: what its principal may name, see and change on which branch."""

from collections.abc import Iterable, Mapping

import attrs

from narthex._analysis.policy import Policy
from narthex._ir import Definitions, did_you_mean
from narthex.errors import EntityMissing, PolicyInvalid, raise_all
from narthex_ledger import CommitPlan, Ledger, NotFound, TenantId
from narthex_server.definitions.data_flow import EntityNode, flow
from narthex_server.definitions.inherited_tags import changed_entities, tags_of
from narthex_server.errors import Forbidden, Missing
from narthex_server.security.principals import Principal
from narthex_server.security.route_rights import Right
from narthex_server.security.visibility import ALL, Visibility
from narthex_server.services.branch_snapshots import BranchSnapshot, SnapshotCache
from narthex_server.services.shared_sources import Shared, SharedSources


@attrs.define(kw_only=True)
class Access:
    """The permissions of the principal of one request.

    Attributes:
        branch: The branch that the request names.
        cancelled_tags: The tags that the request newly cancels, for the audit log.
        may_be_recent: Whether the shared sources may be those of a few seconds ago.
    """

    principal: Principal
    branch: str
    ledger: Ledger
    tenant: TenantId
    snapshots: SnapshotCache
    shared_sources: SharedSources
    may_be_recent: bool = False
    cancelled_tags: list[str] = attrs.field(factory=list, init=False)
    _shared: Shared | None = attrs.field(default=None, init=False)

    @property
    def branches(self) -> frozenset[str] | None:
        """The branches that the principal may name; None means all of the installation."""
        if self.principal.branches == ("*",):
            return None
        views = self.ledger.branches.all(self.tenant)
        return frozenset(view.name for view in views if self.principal.may_name(view.name))

    def require_branch(self, name: str) -> None:
        """Refuse a branch in a body that is not the principal's, whether it exists or not.

        Raises:
            Forbidden: The principal may not name it.
        """
        if not self.principal.may_name(name):
            raise Forbidden

    def visible_plan(self, plan: CommitPlan) -> CommitPlan:
        """Return a plan that names only branches that the principal may name.

        Its hash is the same.
        """
        return plan.naming(self.principal.may_name)

    def shared(self) -> Shared:
        """Return the shared sources, as of their first use in this request.

        Raises:
            PolicyInvalid: The policy file has mistakes.
        """
        if self._shared is None:
            try:
                sources = self.shared_sources
                self._shared = sources.recent() if self.may_be_recent else sources.now()
            except PolicyInvalid as error:
                raise self._without_rules(error) from None
        return self._shared

    def policy(self) -> Policy:
        """Read the policy file.

        Raises:
            PolicyInvalid: The file has mistakes.
        """
        try:
            return self.shared_sources.policy()
        except PolicyInvalid as error:
            raise self._without_rules(error) from None

    def _without_rules(self, error: PolicyInvalid) -> PolicyInvalid:
        """Return the error, without the operator's rules if the principal may not see them all."""
        is_narrow = self.principal.is_narrow
        return PolicyInvalid(("its operator sees them",)) if is_narrow else error

    def visibility(self, definitions: Definitions | None) -> Visibility:
        """Return the principal's visibility of definitions."""
        if self.principal.tags == ("*",):
            return ALL
        have = tags_of(definitions, self.shared().sources(definitions)).have
        hidden = {node for node, tags in have.items() if not self.principal.may_see(tags)}
        fed: dict[EntityNode, set[EntityNode]] = {}
        for start, end in flow(definitions) if definitions else ():
            fed.setdefault(start, set()).add(end)
        return Visibility(
            hidden=frozenset(hidden | {n for n in fed if n[0] == "source" and fed[n] <= hidden})
        )

    def shown(self, definitions: Definitions) -> Definitions:
        """Return the part of definitions that the principal sees."""
        return self.visibility(definitions).shown(definitions)

    def visibility_of(self, branch: str) -> Visibility:
        """Return the principal's visibility of the definitions that are deployed on a branch."""
        snapshot = self.snapshots.deployed(branch)
        return self.visibility(snapshot.definitions if snapshot else None)

    def require_features(self, snapshot: BranchSnapshot, features: Iterable[str]) -> None:
        """Refuse features, or featuresets with features, that the principal does not see.

        Raises:
            DefinitionErrors: The same error as for a feature that does not exist.
        """
        visibility = self.visibility(snapshot.definitions)
        if not visibility.hidden:
            return
        known = [
            name
            for featureset in snapshot.definitions.featuresets
            for name in (
                featureset.name,
                *(f"{featureset.name}.{feature.name}" for feature in featureset.features),
            )
        ]
        shown = [name for name in known if visibility.of_output(name)]
        raise_all(
            [
                EntityMissing(f"unknown feature `{name}`", hint=did_you_mean(name, shown))
                for name in dict.fromkeys(features)
                if name not in shown
            ]
        )

    def require_dataset(self, snapshot: BranchSnapshot, name: str) -> None:
        """Refuse a dataset that the principal does not see.

        Raises:
            Missing: The same error as for a dataset that does not exist.
        """
        if not self.visibility(snapshot.definitions).of_dataset(name):
            raise Missing(f"Dataset `{name}` not found")

    def require_authorized(self, before: Definitions | None, after: Definitions) -> None:
        """Refuse a commit that changes hidden entities, or cancels a tag without the right to.

        A changed entity counts with all tags that reach it, cancelled or not, before and after.
        Only newly cancelled tags count.

        Raises:
            Forbidden: The commit does so.
        """
        sources = {} if self.principal.tags == ("*",) else self.shared().sources(before, after)
        old, new = tags_of(before, sources), tags_of(after, sources)
        cancels = new.cancels - old.cancels
        self.cancelled_tags = sorted(f"{node[1]} ~{tag}" for node, tag in cancels)
        reaching = (
            tags.reach.get(node, frozenset())
            for node in changed_entities(before, after)
            for tags in (old, new)
        )
        is_authorized = all(map(self.principal.may_see, reaching))
        if not is_authorized or (cancels and Right.CANCEL_TAGS not in self.principal.rights):
            raise Forbidden

    def visible_assets(self) -> Mapping[int, frozenset[str]] | None:
        """Return the assets of the principal's branches, with the paths that are visible to it.

        None means all assets.
        """
        if not self.principal.is_narrow:
            return None
        if self.principal.tags == ("*",):
            return self.ledger.assets.held_paths(self.tenant, self.branches or ())
        views = self.ledger.branches.all(self.tenant)
        branches = [
            view.name
            for view in views
            if view.state == "active" and self.principal.may_name(view.name)
        ]
        retained = self.ledger.assets.held_paths(self.tenant, branches)
        visibilities = [self.visibility_of(branch) for branch in branches]
        visible = {
            asset_id: frozenset(
                path for path in paths if all(each.of_path(path) for each in visibilities)
            )
            for asset_id, paths in retained.items()
        }
        return {asset_id: paths for asset_id, paths in visible.items() if paths}

    def sees_dataset(self, branch: str, name: str) -> bool:
        """Return whether the principal sees a dataset of a branch.

        A principal with some tags only does not see a dataset that no longer exists.
        """
        if self.principal.tags == ("*",):
            return True
        try:
            snapshot = self.snapshots.deployed(branch)
        except NotFound:
            return False
        known = {dataset.name for dataset in snapshot.definitions.datasets} if snapshot else set()
        return name in known and self.visibility_of(branch).of_dataset(name)

    def sees_entity(self, branch: str, name: str) -> bool:
        """Return whether the principal sees a dataset, or all features of a featureset.

        A principal with some tags only sees neither if it no longer exists.
        """
        if self.principal.tags == ("*",) or self.sees_dataset(branch, name):
            return True
        try:
            snapshot = self.snapshots.deployed(branch)
        except NotFound:
            return False
        known = {one.name for one in snapshot.definitions.featuresets} if snapshot else set()
        return name in known and self.visibility_of(branch).of_output(name)

    def sees_feature(self, branch: str, name: str) -> bool:
        """Return whether the principal sees a feature, or a column of a dataset, by its full name.

        A principal with some tags only does not see one that no longer exists.
        """
        if self.principal.tags == ("*",) or self.sees_dataset(branch, name.partition(".")[0]):
            return True
        try:
            snapshot = self.snapshots.deployed(branch)
        except NotFound:
            return False
        known = {
            f"{featureset.name}.{feature.name}"
            for featureset in (snapshot.definitions.featuresets if snapshot else ())
            for feature in featureset.features
        }
        return name in known and self.visibility_of(branch).of_output(name)
