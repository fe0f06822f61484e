"""Carry out erasures, step by step; each step may be repeated after a crash.

The assets with rows that are derived from a dataset's are obsolete, and commits of the same
definitions create successors, which are filled from the endpoints' records without the rows of the
keys. When nothing reads an obsolete asset any more, sinks delete the rows from their targets, and
the collector destroys it. Then all stores are read and searched for the keys; only if two searches
find nothing is a certificate signed.
"""

import contextlib
import datetime as dt
import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final
from uuid import UUID

import attrs
import structlog

from narthex._base import Json
from narthex._compiler import target_id
from narthex_ledger import (
    CommitKind,
    CommitRequest,
    CommitState,
    ErasureState,
    ErasureView,
    Ledger,
    LedgerError,
    NotFound,
    NotReady,
    OwedBranch,
    Successor,
    TenantId,
)
from narthex_server.background_loop import BackgroundLoop
from narthex_server.erasures.erased_stores import ErasedStores, SearchResult
from narthex_server.erasures.sink_targets import ErasedTarget, deleting, entries
from narthex_stores import RowEnds, StoreError

log = structlog.get_logger()

LOOK_EVERY_S: Final = 2.0
LEASE_S: Final = 60.0
RENEW_S: Final = 15.0
"""How long a process holds an erasure, and how often it renews that during a step."""

SETTLED_S: Final = 15.0
"""How far apart two searches are: a copy that was begun before the first has ended by then."""

DEADLINE_S: Final = 7 * 24 * 3600.0

NOT_REACHED: Final = (
    "what exports and clients have received before, and targets of `sinks` that are not erased",
    (
        "copies of the stores outside the platform, such as backups and disk snapshots, until "
        "their own retention ends; a restored backup has the rows again"
    ),
    (
        "files that a broker or a file system has deleted and not overwritten yet; Kafka deletes "
        "the files of a destroyed topic after `file.delete.delay.ms`, and Redis servers write "
        "their files anew when they next save"
    ),
    (
        "indexes that a process has open while it runs: the system frees a destroyed index's "
        "file when the last such process ends"
    ),
    "indexes and files of job states, for keys that are too short to be searched for anywhere",
    "counts and summaries of logged answers, which have no keys",
    "log files of processes",
)
"""The places that no search covers, as texts of the certificate."""


@attrs.define(kw_only=True)
class Eraser:
    """Carries out the erasures of an installation, one after the other.

    Attributes:
        ledger: The ledger, with the installation's signing key.
        install_id: The id of the installation.
        stores: Its stores.
        notice: Tells the recovery loop of a commit.
        owner: The name of this process; a restarted process is another.
        clock: A monotonic clock, in seconds, for the pause between two searches.
    """

    ledger: Ledger
    tenant: TenantId
    install_id: str
    stores: ErasedStores
    notice: Callable[[UUID], None]
    owner: str
    clock: Callable[[], float] = time.monotonic
    _ended: dict[int, RowEnds] = attrs.field(factory=dict)
    _clean_since: dict[UUID, float] = attrs.field(factory=dict)

    def loop(self) -> BackgroundLoop:
        """Return the loop that advances erasures."""
        return BackgroundLoop(
            self.look, name="eraser", event="erasure_blocked", pause_s=lambda: LOOK_EVERY_S
        )

    def look(self) -> None:
        """Advance the oldest erasure as far as possible now."""
        for erasure in self.ledger.erasures.unended(self.tenant, limit=1):
            if self._claim(erasure.erasure_id):
                with self._renewed(erasure.erasure_id):
                    self._advance(erasure.erasure_id)

    def _claim(self, erasure_id: UUID) -> bool:
        return self.ledger.erasures.claim(erasure_id, self.owner, lease_s=LEASE_S)

    @contextlib.contextmanager
    def _renewed(self, erasure_id: UUID) -> Iterator[None]:
        """Renew the lease of an erasure during a step, which may take long."""
        is_over = threading.Event()

        def renew() -> None:
            while not is_over.wait(RENEW_S):
                with contextlib.suppress(LedgerError):
                    self._claim(erasure_id)

        thread = threading.Thread(target=renew, name="erasure-lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

    def _advance(self, erasure_id: UUID) -> None:
        try:
            before = None
            while True:
                erasure = self.ledger.erasures.get(erasure_id)
                if erasure.state in {before, ErasureState.CERTIFIED}:
                    return
                before = erasure.state
                self._step(erasure)
        except NotReady as waiting:
            details = waiting.detail if isinstance(waiting.detail, list) else []
            why = "; ".join([waiting.what, *map(str, details[:5])])
            self.ledger.erasures.note(erasure_id, self.owner, waits_for=why)
        except (StoreError, OSError) as error:
            why = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
            log.warning("erasure_step_failed", erasure_id=str(erasure_id), error=why)
            self.ledger.erasures.note(erasure_id, self.owner, waits_for=why)

    def _step(self, erasure: ErasureView) -> None:
        """Take the next step of an erasure.

        Raises:
            NotReady: It waits for something.
            StoreError: A store does not answer, or differs from what it must have.
        """
        erasure_id = erasure.erasure_id
        match erasure.state:
            case ErasureState.REQUESTED:
                self.ledger.erasures.mark_obsolete(erasure_id, self.owner)
            case ErasureState.REBUILDING:
                self._rebuild(erasure)
                self._copy(erasure)
                self.ledger.erasures.hold(erasure_id, self.owner)
            case ErasureState.HOLDING:
                self._fill(erasure)
                self._rebuild(erasure)
                self.ledger.erasures.deployed(erasure_id, self.owner)
            case ErasureState.WITHDRAWING:
                self._delete_in_targets(erasure)
                self.ledger.erasures.withdrawn(erasure_id, self.owner)
            case ErasureState.RELEASING:
                self.ledger.erasures.release(erasure_id, self.owner)
            case ErasureState.REMOVING:
                self._remove(erasure)
            case ErasureState.CERTIFIED:
                pass

    def _rebuild(self, erasure: ErasureView) -> None:
        """Request the commits that create successors of the obsolete assets."""
        waiting = []
        for branch in self.ledger.erasures.owed(erasure.erasure_id):
            if branch.in_flight is None:
                self._request(erasure, branch)
            if not branch.is_at_gate:
                waiting.append(branch.name)
        if waiting:
            raise NotReady("branches create the successors of their assets", detail=[*waiting])

    def _request(self, erasure: ErasureView, branch: OwedBranch) -> None:
        """Request that a branch deploys its definitions again, unless that was requested."""
        attempt = 0
        while True:
            text = f"erase {erasure.erasure_id} {branch.branch_id} {branch.head_seq} {attempt}"
            try:
                found = self.ledger.commits.get_by_key(self.tenant, text)
            except NotFound:
                break
            if found.state not in {CommitState.ABORTED, CommitState.REJECTED}:
                self.notice(found.commit_id)
                return
            attempt += 1
        digest = hashlib.sha256(text.encode()).digest()
        commit_id = UUID(bytes=digest[:16], version=4)
        # The head of a clone, or after a rollback, has the manifest of another commit.
        head = self.ledger.commits.get(branch.head_commit_id)
        content = self.ledger.bundles.of_commit(branch.head_commit_id)
        self.ledger.commits.accept(
            CommitRequest(
                commit_id=commit_id,
                tenant=self.tenant,
                branch=branch.branch_id,
                idempotency_key=text,
                request_sha256=digest,
                actor="platform",
                message=f"erase rows of `{erasure.dataset}`",
                bundle=self.ledger.bundles.sign(content),
                request=self.ledger.commits.get(head.manifest_id or head.commit_id).request,
                deadline_s=DEADLINE_S,
                kind=CommitKind.ERASE,
            )
        )
        self.notice(commit_id)

    def _unfilled(self, erasure: ErasureView) -> tuple[Successor, ...]:
        found = self.ledger.erasures.successors(erasure.erasure_id)
        return tuple(one for one in found if not one.is_filled and one.new_name is not None)

    def _copy(self, erasure: ErasureView) -> None:
        """Copy what the endpoints' topics have until now, while they accept more."""
        for successor in self._unfilled(erasure):
            self.stores.copy(erasure, successor)

    def _fill(self, erasure: ErasureView) -> None:
        """Seal the endpoints' topics, copy the rest, and let the commits go on."""
        for successor in self._unfilled(erasure):
            self.stores.seal_and_copy(erasure, successor)
            self.ledger.erasures.filled(erasure.erasure_id, self.owner, successor)

    def _delete_in_targets(self, erasure: ErasureView) -> None:
        """Let obsolete sinks delete the rows that new logs lack, and wait until they have."""
        if erasure.sinks is not None:
            return
        erasure_id = erasure.erasure_id
        busy = self.ledger.erasures.stop_writers(erasure_id, self.owner)
        if busy:
            raise NotReady("obsolete jobs are being stopped", detail=[*busy])
        sinks = self.ledger.erasures.running_sinks(erasure_id, self.owner)
        left = {*erasure.leave_sinks, *self.stores.why_not_deleted(sinks)}
        seen: list[Json] = []
        waiting: list[Json] = []
        for sink in deleting(sinks, left=left):
            target, dataset = target_id(sink.spec.sink.target), sink.spec.dataset
            ends = self._ended.get(sink.asset_id)
            if ends is None:
                # Nothing else writes to the log, so that it does not change any more.
                ends = self._ended[sink.asset_id] = self.stores.end_rows(sink)
            if self.stores.has_written(sink, ends):
                one = ErasedTarget(
                    target=target, dataset=dataset, job=sink.physical_name, ends=ends
                )
                seen.append(one.plain())
            else:
                waiting.append(f"`{target}`, rows of `{dataset}`: {ends.rows}")
        if waiting:
            raise NotReady("sinks have not written all deletions", detail=waiting)
        self.ledger.erasures.confirm_sinks(erasure_id, self.owner, seen=seen)

    def _remove(self, erasure: ErasureView) -> None:
        """Delete what no asset owns, search everything twice, and certify."""
        erasure_id = erasure.erasure_id
        left = self.ledger.erasures.remaining(erasure_id)
        if left:
            raise NotReady(f"{len(left)} obsolete assets are being destroyed")
        names = self.ledger.erasures.obsolete(erasure_id)
        deleted = self.stores.clean(erasure, names)
        result = self.stores.search(erasure, names)
        if deleted or result.found:
            self._clean_since.pop(erasure_id, None)
        if result.found:
            raise NotReady("a search still finds the keys", detail=[*result.found])
        since = self._clean_since.setdefault(erasure_id, self.clock())
        if self.clock() - since < SETTLED_S:
            raise NotReady("a search found nothing; a second one follows")
        certificate = self._certificate(erasure, names, result)
        self.ledger.erasures.certify(erasure_id, self.owner, certificate=certificate)

    def _certificate(
        self,
        erasure: ErasureView,
        names: Sequence[str],
        result: SearchResult,
    ) -> Json:
        not_reached: list[Json] = [*NOT_REACHED]
        return {
            "version": 1,
            "erasure_id": str(erasure.erasure_id),
            "installation": self.install_id,
            "dataset": erasure.dataset,
            "branch": erasure.branch,
            "erase_keys": [*erasure.fields],
            "digests": [digest.hex() for digest in erasure.digests],
            "requested_by": erasure.actor,
            "requested_at": erasure.requested_at.isoformat(),
            "searched_at": dt.datetime.now(dt.UTC).isoformat(),
            "destroyed": [*sorted(names)],
            "searched": [*result.searched],
            "found": len(result.found),
            "kept": [*result.kept],
            "sinks": entries(self.ledger.erasures.sinks(erasure.erasure_id), erasure.sinks),
            "method": {
                "anywhere": result.anywhere,
                "in_columns_of_its_name": result.in_columns,
            },
            "blocked": True,
            "not_reached": not_reached,
        }


def digests_of(certificate: Mapping[str, Json]) -> frozenset[str]:
    """Return the digests that a certificate covers, in hexadecimal digits."""
    found = certificate.get("digests")
    return frozenset(map(str, found)) if isinstance(found, list) else frozenset()
