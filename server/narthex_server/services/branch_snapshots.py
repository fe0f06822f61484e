"""Snapshots of branches, as readers see them: each request uses one immutable manifest."""

import threading
import time
from collections.abc import Iterable
from uuid import UUID

import attrs

from narthex._ir import AssetKind, DatasetPlan, Definitions, IndexSpec, ResolvedAsset
from narthex._query import ReadPlan
from narthex._query import plan as plan_read
from narthex.settings import Settings
from narthex_ledger import BranchView, Ledger, ManifestView, TenantId
from narthex_server.definitions.bundles import read_bundle
from narthex_server.definitions.data_flow import EntityNode
from narthex_server.definitions.inherited_tags import tags_of
from narthex_server.errors import InvalidRequest, Missing
from narthex_stores import IndexHandle, IndexMissingError, IndexStore, index_store

REFRESH_S = 0.1
KEPT = 8


@attrs.define
class OpenIndexes:
    """The indexes that this process has open: each once, as its store requires."""

    store: IndexStore
    _open: dict[str, IndexHandle] = attrs.field(factory=dict)
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    def open(self, physical_name: str, spec: IndexSpec) -> IndexHandle:
        """Return an index, opened read-only.

        An index that was restored since it was opened is another one: it is opened again. While the
        index is lost, the open one continues to answer as of the offsets that it contains.
        """
        with self._lock:
            known = self._open.get(physical_name)
            if known is None or known.is_replaced():
                try:
                    self._open[physical_name] = self.store.open(physical_name, spec, readonly=True)
                except IndexMissingError:
                    if known is None:
                        raise
            return self._open[physical_name]


@attrs.define
class BranchSnapshot:
    """One manifest with all that queries need: definitions, plans, open indexes, read plans.

    Attributes:
        commit_id: The commit that the branch is at; a clone's binds the manifest of another commit.
    """

    commit_id: UUID
    manifest_id: UUID
    seq: int
    definitions: Definitions
    plans: dict[str, DatasetPlan]
    bindings: dict[str, ResolvedAsset]
    indexes: "OpenIndexes"
    _read_plans: dict[tuple[tuple[str, ...], tuple[str, ...]], ReadPlan] = attrs.field(factory=dict)
    _reach: dict[EntityNode, frozenset[str]] | None = None

    def topic(self, path: str) -> str:
        """Return the physical name of the topic that a logical path is bound to."""
        return self.bindings[path].physical_name

    def dataset(self, name: str) -> DatasetPlan:
        """Return the plan of a dataset.

        Raises:
            Missing: the branch has no such dataset.
        """
        try:
            return self.plans[name]
        except KeyError:
            raise Missing(f"Dataset `{name}` not found") from None

    def index(self, dataset: str) -> IndexHandle:
        """Return the open index of a dataset.

        Raises:
            IndexMissingError: The index does not exist now.
            InvalidRequest: The dataset has no index.
        """
        asset = self.bindings.get(f"dataset/{dataset}/index")
        if asset is None or not isinstance(asset.spec, IndexSpec):
            raise InvalidRequest(f"Please define an online index on dataset : {dataset}")
        return self.indexes.open(asset.physical_name, asset.spec)

    def read_plan(self, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> ReadPlan:
        """Return the read plan of a query; computed once per snapshot."""
        key = (inputs, outputs)
        found = self._read_plans.get(key)
        if found is None:
            found = plan_read(self.definitions, self.plans, inputs=inputs, outputs=outputs)
            self._read_plans[key] = found
        return found

    def reaching(self, nodes: Iterable[EntityNode]) -> frozenset[str]:
        """Return the tags of all inputs of these datasets or features, cancelled or not."""
        if self._reach is None:
            self._reach = tags_of(self.definitions).reach
        return frozenset[str]().union(*(self._reach.get(node, frozenset()) for node in nodes))

    def assets(self, kind: AssetKind) -> dict[str, ResolvedAsset]:
        """Return the bindings of one kind, by logical path."""
        return {path: asset for path, asset in self.bindings.items() if asset.kind is kind}


class SnapshotCache:
    """The snapshots of branches, refreshed from the ledger several times a second."""

    def __init__(self, ledger: Ledger, settings: Settings, *, tenant: TenantId) -> None:
        """Create an empty cache; snapshots are loaded lazily."""
        self._ledger = ledger
        self._settings = settings
        self._tenant = tenant
        self._branches: dict[str, tuple[float, BranchView]] = {}
        self._snapshots: dict[UUID, BranchSnapshot] = {}
        self._indexes = OpenIndexes(store=index_store(settings))
        self._lock = threading.Lock()

    def forget(self) -> None:
        """Read the ledger again on the next request."""
        self._branches.clear()

    def serving(self, branch: str) -> BranchSnapshot:
        """Return the snapshot that readers of the branch see.

        Raises:
            Missing: no such branch, or nothing serves on it yet.
        """
        view = self._branch(branch)
        return self._of(branch, view.serving_commit_id, view.serving_seq)

    def head(self, branch: str) -> BranchSnapshot:
        """Return the newest definitions that are deployed on the branch."""
        view = self._branch(branch)
        return self._of(branch, view.head_commit_id, view.head_seq)

    def deployed(self, branch: str) -> BranchSnapshot | None:
        """Return the newest definitions that are deployed on the branch, if there are any."""
        view = self._branch(branch)
        return self.head(branch) if view.head_commit_id is not None else None

    def _branch(self, branch: str) -> BranchView:
        now = time.monotonic()
        found = self._branches.get(branch)
        if found is None or now - found[0] > REFRESH_S:
            found = (now, self._ledger.branches.get(self._tenant, branch))
            self._branches[branch] = found
        return found[1]

    def _of(self, branch: str, commit_id: UUID | None, seq: int) -> BranchSnapshot:
        if commit_id is None:
            raise Missing(f"branch `{branch}` serves no commit yet")
        with self._lock:
            if commit_id not in self._snapshots:
                self._snapshots[commit_id] = self._load(commit_id, seq)
                while len(self._snapshots) > KEPT:
                    del self._snapshots[next(iter(self._snapshots))]
            return self._snapshots[commit_id]

    def _load(self, commit_id: UUID, seq: int) -> BranchSnapshot:
        manifest_id = self._ledger.commits.get(commit_id).manifest_id
        if manifest_id is None:
            raise Missing("nothing is deployed")
        manifest: ManifestView = self._ledger.manifests.get(manifest_id)
        bundle = read_bundle(self._ledger.bundles.of_commit(commit_id))
        return BranchSnapshot(
            commit_id=commit_id,
            manifest_id=manifest_id,
            seq=seq,
            definitions=bundle.definitions,
            plans={plan.name: plan for plan in manifest.plans},
            bindings=manifest.bindings,
            indexes=self._indexes,
        )
