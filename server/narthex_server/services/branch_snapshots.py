"""Snapshots of branches, as readers see them: each request uses one immutable manifest."""

import contextlib
import gc
import itertools
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias
from uuid import UUID

import attrs
import structlog

from narthex._ir import AssetKind, DatasetPlan, Definitions, IndexSpec, ResolvedAsset
from narthex._query import plan as plan_read
from narthex.errors import DefinitionErrors
from narthex.settings import Settings
from narthex_ledger import (
    BranchView,
    CommitView,
    Ledger,
    LedgerError,
    Listener,
    ManifestView,
    PromotionState,
    TenantId,
)
from narthex_server.definitions.bundles import read_bundle
from narthex_server.definitions.data_flow import EntityNode, flow
from narthex_server.definitions.inherited_tags import tags_of
from narthex_server.errors import (
    InvalidRequest,
    Missing,
    NothingDeployed,
    ServerError,
    SnapshotTooOld,
)
from narthex_server.services.bounded_cache import BoundedCache
from narthex_server.services.compiled_queries import CompiledQuery, compile_query
from narthex_stores import IndexHandle, IndexMissingError, IndexStore, StoreError, index_store

QueryKey: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]
"""The inputs and the outputs of a query."""

log = structlog.get_logger()

REFRESH_S = 0.1
"""How long what a branch serves is known, if it is not followed; then the ledger is read again."""

KEPT_BYTES = 64 << 20
"""How many bytes of definitions are kept for all snapshots together, beside the newest one."""

KEPT_PLANS = 100_000
"""How many outputs the read plans of a snapshot may have together."""


SCANNED_AFTER = 100
"""After how many new snapshots all objects are scanned for garbage."""

_frozen = itertools.count(1)


@contextlib.contextmanager
def _rarely_scanned() -> Iterator[None]:
    """Create objects that live for long, which the garbage collector rarely scans.

    A scan of all objects stops all threads, for hundreds of milliseconds when there are many
    definitions, and so many new objects would cause one. They are freed all the same when nothing
    refers to them. Garbage that refers to itself is freed before, as what is not scanned stays for
    ever; what little arises meanwhile is freed by the scan of all after `SCANNED_AFTER` times.
    """
    was_enabled = gc.isenabled()
    if next(_frozen) % SCANNED_AFTER == 0:
        gc.unfreeze()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


@attrs.define
class OpenIndexes:
    """The indexes that this process has open: each once, as its store requires."""

    store: IndexStore
    _open: dict[str, IndexHandle] = attrs.field(factory=dict)
    _specs: dict[str, IndexSpec] = attrs.field(factory=dict)
    _is_followed: bool = False
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    def open(self, physical_name: str, spec: IndexSpec) -> IndexHandle:
        """Return an index, opened read-only.

        An index that was restored since it was opened is another one: it is opened again. While the
        index is lost, the open one continues to answer as of the offsets that it contains.
        """
        known = self._open.get(physical_name)
        if known is not None and self._is_followed:
            return known
        with self._lock:
            known = self._open.get(physical_name)
            if known is None or known.is_replaced():
                self._reopen(physical_name, spec, known)
            return self._open[physical_name]

    def refresh(self) -> None:
        """Open those indexes again that were restored; from now on, only this call does so."""
        self._is_followed = True
        for physical_name, known in tuple(self._open.items()):
            if known.is_replaced():
                with self._lock:
                    self._reopen(physical_name, self._specs[physical_name], known)

    def _reopen(self, physical_name: str, spec: IndexSpec, known: IndexHandle | None) -> None:
        try:
            self._open[physical_name] = self.store.open(physical_name, spec, readonly=True)
            self._specs[physical_name] = spec
        except IndexMissingError:
            if known is None:
                raise


@attrs.define
class BranchSnapshot:
    """One manifest with all that queries need: definitions, plans, open indexes, read plans.

    Attributes:
        commit_id: The commit that the branch is at; a clone's binds the manifest of another commit.
        size_bytes: The length of its definitions.
        queries: The prepared queries.
    """

    commit_id: UUID
    manifest_id: UUID
    seq: int
    definitions: Definitions
    plans: dict[str, DatasetPlan]
    bindings: dict[str, ResolvedAsset]
    indexes: "OpenIndexes"
    size_bytes: int = 0
    queries: BoundedCache[QueryKey, CompiledQuery] = attrs.field(
        factory=lambda: BoundedCache(KEPT_PLANS)
    )
    _reach: dict[EntityNode, frozenset[str]] | None = None
    _edges: tuple[tuple[EntityNode, EntityNode], ...] | None = None

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

    def query(self, inputs: Sequence[str], outputs: Sequence[str]) -> CompiledQuery:
        """Return the prepared query of these inputs and outputs.

        Raises:
            DefinitionErrors: A feature is unknown, is not extracted, or depends on itself.
        """
        key = (tuple(inputs), tuple(outputs))
        known = self.queries.get(key)
        if known is None:
            plan = plan_read(self.definitions, self.plans, inputs=inputs, outputs=outputs)
            known = compile_query(plan)
            self.queries.put(key, known, weight=len(plan.inputs) + len(plan.outputs))
        return known

    def warm_up(self, before: "BranchSnapshot") -> None:
        """Prepare the queries of an earlier snapshot, and open their indexes.

        Those that this snapshot cannot answer are left to their next caller, who gets the error.
        """
        for inputs, outputs in before.queries.recent_keys():
            with contextlib.suppress(DefinitionErrors, ServerError, StoreError, IndexMissingError):
                for dataset in self.query(inputs, outputs).plan.looked_up:
                    self.index(dataset)

    def reaching(self, nodes: Iterable[EntityNode]) -> frozenset[str]:
        """Return the tags of all inputs of these datasets or features, cancelled or not."""
        if self._reach is None:
            self._reach = tags_of(self.definitions).reach
        return frozenset[str]().union(*(self._reach.get(node, frozenset()) for node in nodes))

    @property
    def edges(self) -> tuple[tuple[EntityNode, EntityNode], ...]:
        """The edges of the lineage, each once, in the order of the definitions."""
        if self._edges is None:
            self._edges = tuple(dict.fromkeys(flow(self.definitions)))
        return self._edges

    def assets(self, kind: AssetKind) -> dict[str, ResolvedAsset]:
        """Return the bindings of one kind, by logical path."""
        return {path: asset for path, asset in self.bindings.items() if asset.kind is kind}


class SnapshotCache:
    """The snapshots of branches, as the ledger had them a moment ago.

    Once `refresh` is called repeatedly, in the background, no reader waits for the ledger except
    the first one of a branch.
    """

    def __init__(self, ledger: Ledger, settings: Settings, *, tenant: TenantId) -> None:
        """Create an empty cache; snapshots are loaded lazily."""
        self._ledger = ledger
        self._tenant = tenant
        self.greatest_age_s = settings.reads_greatest_age_s
        self._views: dict[str, tuple[float, BranchView]] = {}
        self._snapshots: BoundedCache[UUID, BranchSnapshot] = BoundedCache(KEPT_BYTES)
        self._is_followed = False
        self._refreshed_at: float | None = None
        self._lock = threading.Lock()
        self.indexes = OpenIndexes(store=index_store(settings))

    def forget(self) -> None:
        """Read the ledger again on the next request."""
        with self._lock:
            self._views = {}

    def changes(self) -> Listener:
        """Return a listener of changes of branches, after which `refresh` has news."""
        return self._ledger.branches.changes()

    def notice(self, commit: CommitView, *, branch: str) -> None:
        """Let the next reader of a branch see a commit, if it serves.

        After an answer said that the commit serves, no query reads an earlier one, even between
        two refreshes.
        """
        if commit.promotion is not PromotionState.DONE or commit.seq is None:
            return
        known = self._views.get(branch)
        if known is not None and known[1].serving_seq < commit.seq:
            self.forget()

    def refresh(self) -> None:
        """Read from the ledger what the known branches serve, and prepare new snapshots.

        A reader gets a new snapshot when it is ready to answer. If one cannot be loaded, readers of
        its branch get the one that is known, and those of other branches notice nothing.

        Raises:
            LedgerError: The ledger does not answer; readers get the snapshots that are known.
        """
        self._is_followed = True
        before = self._views
        now = time.monotonic()
        views = {view.name: view for view in self._ledger.branches.all(self._tenant)}
        known: dict[str, tuple[float, BranchView]] = {}
        for branch in before:
            if (view := views.get(branch)) is not None and view.state == "active":
                is_ready = self._prepare(view, before[branch][1])
                known[branch] = (now, view) if is_ready else before[branch]
        with self._lock:
            if self._views is before:
                self._views = known
        self._refreshed_at = now

    def _prepare(self, view: BranchView, before: BranchView) -> bool:
        """Prepare what a branch serves now; return whether that was possible."""
        if view.serving_commit_id in (None, before.serving_commit_id):
            return True
        try:
            snapshot = self._of(view.name, view.serving_commit_id, view.serving_seq)
        except (LedgerError, ServerError) as error:
            log.warning("snapshot_not_loaded", branch=view.name, error=str(error))
            return False
        served = before.serving_commit_id and self._snapshots.get(before.serving_commit_id)
        if served:
            snapshot.warm_up(served)
        return True

    def known(self, branch: str) -> tuple[BranchSnapshot, float] | None:
        """Return the snapshot that readers of a branch see, and its age in seconds, if it is known.

        It reads no service, so that it never waits.

        Raises:
            SnapshotTooOld: The ledger has not been read for too long.
        """
        view = self._views.get(branch) if self._is_followed else None
        if view is None or view[1].serving_commit_id is None:
            return None
        age_s = time.monotonic() - view[0]
        if age_s > self.greatest_age_s:
            raise SnapshotTooOld(age_s)
        snapshot = self._snapshots.get(view[1].serving_commit_id)
        return None if snapshot is None else (snapshot, age_s)

    @property
    def age_s(self) -> float | None:
        """The age of what is known of the branches, in seconds; None before the first refresh."""
        refreshed_at = self._refreshed_at
        return None if refreshed_at is None else time.monotonic() - refreshed_at

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

    def serving_or_head(self, branch: str) -> BranchSnapshot:
        """Return the snapshot that readers of the branch see; before the first one, the head's.

        Raises:
            Missing: no such branch, or nothing is deployed on it yet.
        """
        view = self._branch(branch)
        return self.head(branch) if view.serving_commit_id is None else self.serving(branch)

    def deployed(self, branch: str) -> BranchSnapshot | None:
        """Return the newest definitions that are deployed on the branch, if there are any."""
        view = self._branch(branch)
        return self.head(branch) if view.head_commit_id is not None else None

    def _branch(self, branch: str) -> BranchView:
        views = self._views
        known = views.get(branch)
        if known is None or time.monotonic() - known[0] > REFRESH_S:
            known = (time.monotonic(), self._ledger.branches.get(self._tenant, branch))
            with self._lock:
                if self._views is views:
                    self._views = {**views, branch: known}
        return known[1]

    def _of(self, branch: str, commit_id: UUID | None, seq: int) -> BranchSnapshot:
        if commit_id is None:
            raise NothingDeployed(f"branch `{branch}` serves no commit yet")
        known = self._snapshots.get(commit_id)
        if known is None:
            with _rarely_scanned():
                known = self._load(commit_id, seq)
            known = self._snapshots.put(commit_id, known, weight=known.size_bytes)
        return known

    def _load(self, commit_id: UUID, seq: int) -> BranchSnapshot:
        manifest_id = self._ledger.commits.get(commit_id).manifest_id
        if manifest_id is None:
            raise Missing("nothing is deployed")
        manifest: ManifestView = self._ledger.manifests.get(manifest_id)
        stored = self._ledger.bundles.of_commit(commit_id)
        return BranchSnapshot(
            commit_id=commit_id,
            manifest_id=manifest_id,
            seq=seq,
            definitions=read_bundle(stored).definitions,
            plans={plan.name: plan for plan in manifest.plans},
            bindings=manifest.bindings,
            indexes=self.indexes,
            size_bytes=len(stored),
        )
