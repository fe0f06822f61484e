"""Sources that branches share: places that rows come through, their tags and their owners.

A place has the tags that the policy assigns to it, and the tags of all datasets that any branch
reads from it or writes to it. So a dataset has the tags of the rows that reach it, whichever
branch wrote them.
"""

import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from uuid import UUID

import attrs

from narthex._analysis import source_id
from narthex._analysis.policy import (
    Place,
    Policy,
    granted,
    load_policy,
    place_of,
    tags_of_place,
    uses,
)
from narthex._base import meets
from narthex._ir import Definitions, WebhookEndpoint
from narthex_ledger import BranchView, Ledger, TenantId
from narthex_server.definitions.bundles import read_bundle
from narthex_server.definitions.data_flow import EntityNode
from narthex_server.definitions.inherited_tags import own_tags, tags_of

Tagged = Mapping[Place, frozenset[str]]


@attrs.frozen(kw_only=True)
class Shared:
    """The sources that an installation's active branches share at one moment.

    Attributes:
        carried: The tags of the datasets that branches read from or write to a place.
        owners: The owning branch of each endpoint without a rule, by the endpoint's path.
        branches: The names of the active branches.
    """

    policy: Policy
    carried: Tagged
    owners: Mapping[str, str]
    branches: tuple[str, ...]

    def tags_at(self, place: Place) -> frozenset[str]:
        """Return the tags of the rows that a place carries."""
        return tags_of_place(place, self.policy) | carried_at(self.carried, place)

    def sources(self, *of: Definitions | None) -> dict[EntityNode, frozenset[str]]:
        """Return the tags of the definitions' sources; the definitions count as sharing too."""
        known = [one for one in of if one is not None]
        carried = merged(self.carried, carried_by(known, self.policy))
        return source_tags(known, attrs.evolve(self, carried=carried))

    def writers(self, webhook: str, endpoint: str) -> tuple[str, ...]:
        """Return the branches whose tokens may write to an endpoint."""
        rules = self.policy.endpoint_rules(webhook, endpoint)
        if rules:
            return tuple(branch for branch in self.branches if granted(rules, branch))
        owner = self.owners.get(ingest_path(webhook, endpoint))
        return () if owner is None else (owner,)


def ingest_path(webhook: str, endpoint: str) -> str:
    """Return the logical path of an endpoint's ingest topic."""
    return f"webhook/{webhook}/{endpoint}/ingest"


def source_tags(of: Iterable[Definitions], shared: Shared) -> dict[EntityNode, frozenset[str]]:
    """Return the tags of each source of definitions."""
    found: dict[EntityNode, frozenset[str]] = {}
    for definitions in of:
        for dataset in definitions.datasets:
            for source in dataset.sources:
                place = place_of(source.connector)
                if place is not None:
                    node = ("source", source_id(source))
                    found[node] = found.get(node, frozenset()) | shared.tags_at(place)
    return found


def carried_at(carried: Tagged, place: Place) -> frozenset[str]:
    """Return the tags that are carried to a place; file paths count if they may overlap."""
    kind, name = place
    if kind != "files":
        return carried.get(place, frozenset())
    near = (tags for (of, path), tags in carried.items() if of == "files" and meets(path, name))
    return frozenset[str]().union(*near)


def carried_by(of: Iterable[Definitions], policy: Policy) -> dict[Place, frozenset[str]]:
    """Return the tags that definitions carry to places, by what they read and write.

    The output of a sink has the tags of all its inputs, which may have come through another place.
    So this is repeated until nothing is added.
    """
    known = tuple(of)
    found: dict[Place, frozenset[str]] = {}
    for definitions in known:
        by_name = {dataset.name: own_tags(dataset) for dataset in definitions.datasets}
        for use in uses(definitions):
            place = place_of(use.target)
            if place is not None and by_name[use.dataset]:
                found[place] = found.get(place, frozenset()) | by_name[use.dataset]
    writing = [one for one in known if any(dataset.sinks for dataset in one.datasets)]
    while True:
        grown = merged(found, *(_written(one, found, policy) for one in writing))
        if grown == found:
            return found
        found = grown


def _written(
    definitions: Definitions, carried: Tagged, policy: Policy
) -> dict[Place, frozenset[str]]:
    shared = Shared(policy=policy, carried=carried, owners={}, branches=())
    have = tags_of(definitions, source_tags([definitions], shared)).have
    found: dict[Place, frozenset[str]] = {}
    for use in uses(definitions):
        place = place_of(use.target)
        if use.is_written and place is not None:
            found[place] = found.get(place, frozenset()) | have["dataset", use.dataset]
    return found


def merged(*of: Tagged) -> dict[Place, frozenset[str]]:
    """Return the union of these mappings."""
    found: dict[Place, frozenset[str]] = {}
    for one in of:
        for place, tags in one.items():
            if tags:
                found[place] = found.get(place, frozenset()) | tags
    return found


class SharedSources:
    """Reads the shared sources from the ledger and the policy file, as they are at each call.

    Once `refresh` is called repeatedly, in the background, `recent` waits for neither.
    """

    def __init__(self, ledger: Ledger, *, tenant: TenantId, policy_file: Path) -> None:
        """Store the parameters; nothing is read yet."""
        self._ledger = ledger
        self._tenant = tenant
        self._policy_file = policy_file
        self._known: dict[UUID, Definitions] = {}
        self._cached: tuple[object, Shared] | None = None
        self._is_followed = False
        self._lock = threading.Lock()

    def policy(self) -> Policy:
        """Read the policy file.

        Raises:
            PolicyInvalid: The file has mistakes.
        """
        return load_policy(self._policy_file)

    def recent(self) -> Shared:
        """Return the sources as the last `refresh` found them; without one, as `now`.

        Raises:
            PolicyInvalid: The policy file has mistakes.
        """
        known = self._cached
        return known[1] if self._is_followed and known is not None else self.now()

    def refresh(self) -> None:
        """Read the sources again, if a request has ever needed them.

        Raises:
            PolicyInvalid: The policy file has mistakes.
            LedgerError: The ledger does not answer.
        """
        if self._cached is not None:
            self.now()
            self._is_followed = True

    def now(self) -> Shared:
        """Return the sources that the active branches share.

        Raises:
            PolicyInvalid: The policy file has mistakes.
        """
        policy = self.policy()
        found = self._ledger.branches.all(self._tenant)
        branches = tuple(one for one in found if one.state == "active")
        version = policy, tuple((one.name, one.head_commit_id) for one in branches)
        with self._lock:
            if self._cached is None or self._cached[0] != version:
                self._cached = version, self._load(policy, branches)
            return self._cached[1]

    def _load(self, policy: Policy, branches: Iterable[BranchView]) -> Shared:
        heads = {one.name: self._definitions(one.head_commit_id) for one in branches}
        heads_now = {one.head_commit_id for one in branches}
        self._known = {commit: of for commit, of in self._known.items() if commit in heads_now}
        return Shared(
            policy=policy,
            carried=carried_by([one for one in heads.values() if one is not None], policy),
            owners=self._owners(heads),
            branches=tuple(heads),
        )

    def _definitions(self, commit_id: UUID | None) -> Definitions | None:
        if commit_id is None:
            return None
        if commit_id not in self._known:
            self._known[commit_id] = read_bundle(
                self._ledger.bundles.of_commit(commit_id)
            ).definitions
        return self._known[commit_id]

    def _owners(self, heads: Mapping[str, Definitions | None]) -> dict[str, str]:
        bound: dict[str, set[str]] = {}
        for branch, definitions in heads.items():
            for use in uses(definitions):
                if isinstance(use.target, WebhookEndpoint):
                    path = ingest_path(use.target.webhook, use.target.endpoint)
                    bound.setdefault(path, set()).add(branch)
        first = self._ledger.branches.first_binders(self._tenant)
        return {
            path: next(branch for branch in first[path] if branch in of)
            for path, of in bound.items()
            if of.intersection(first.get(path, ()))
        }
