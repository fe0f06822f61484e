"""Carry out erasures, step by step; each step may be repeated after a crash.

The assets with rows that are derived from a dataset's are condemned, and commits of the same
definitions create successors, which are filled from the endpoints' records without the rows of the
keys. When nothing reads a condemned asset any more, the collector destroys it. Then all stores are
read and searched for the keys; only if two searches find nothing is a certificate signed.
"""

import contextlib
import datetime as dt
import hashlib
import json
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final
from uuid import UUID

import attrs
import structlog
from pyarrow import fs

from narthex._base import Json
from narthex._formats import parse_cell
from narthex._formats.avro import key_bytes
from narthex._ir import AssetKind, Dataset, TopicRole, TopicSpec
from narthex._query import answers_topic
from narthex.settings import Settings
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
    ReachedAsset,
    Sealer,
    Successor,
    TenantId,
)
from narthex_server.definitions.bundles import read_bundle
from narthex_server.deploy.erased_rows import (
    EMPTY_CALL,
    Digests,
    RowFilter,
    erase_fields,
    finders_of,
)
from narthex_stores import (
    Needle,
    Searched,
    StoreError,
    compare_logs,
    copy_log,
    delete_records,
    names_below,
    seal_topic,
    search_files,
    search_topic,
)

log = structlog.get_logger()

LOOK_EVERY_S: Final = 2.0
LEASE_S: Final = 60.0
RENEW_S: Final = 15.0
"""How long a process holds an erasure, and how often it renews that during a step."""

SETTLED_S: Final = 15.0
"""How far apart two searches are: a copy that was begun before the first has ended by then."""

DEADLINE_S: Final = 7 * 24 * 3600.0
STOPS_S: Final = 10.0

NOT_REACHED: Final = (
    "what sinks, exports and clients have received before",
    (
        "copies of the stores outside the platform, such as backups and disk snapshots, until "
        "their own retention ends; a restored backup has the rows again"
    ),
    (
        "files that a broker or a file system has deleted and not overwritten yet; Kafka deletes "
        "the files of a destroyed topic after `file.delete.delay.ms`"
    ),
    (
        "indexes that a process has open while it runs: the system frees a destroyed index's "
        "file when the last such process ends"
    ),
    "files of indexes and job states, for keys that are too short to be searched for anywhere",
    "counts and summaries of logged answers, which have no keys",
    "log files of processes",
)
"""What no search covers, as the certificate says it."""


class Eraser:
    """Carries out the erasures of an installation, one after the other."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        tenant: TenantId,
        settings: Settings,
        sealer: Sealer,
        notice: Callable[[UUID], None],
        owner: str = "",
    ) -> None:
        """Prepare the loop; `start` begins the work.

        Args:
            ledger: The ledger, with the installation's signing key.
            tenant: The tenant.
            settings: The installation.
            sealer: Opens the sealed values of keys.
            notice: Tells the recovery loop of a commit.
            owner: The name of this process; a restarted process is another.
        """
        self._ledger = ledger
        self._tenant = tenant
        self._settings = settings
        self._sealer = sealer
        self._digests = Digests.of(sealer)
        self._notice = notice
        self._owner = owner or f"eraser:{socket.gethostname()}:{time.monotonic_ns()}"
        self._clean_since: dict[UUID, float] = {}
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Run in a thread of its own until `stop`."""
        self._thread = threading.Thread(target=self._run, name="eraser", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop after the step that is being taken."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(STOPS_S)

    def look(self) -> None:
        """Advance the oldest erasure as far as possible now."""
        for erasure in self._ledger.erasures.unended(self._tenant, limit=1):
            if self._claim(erasure.erasure_id):
                with self._renewed(erasure.erasure_id):
                    self._advance(erasure.erasure_id)

    def _run(self) -> None:
        while not self._stopped.wait(LOOK_EVERY_S):
            try:
                self.look()
            except LedgerError as error:
                log.warning("erasure_blocked", error=str(error))

    def _claim(self, erasure_id: UUID) -> bool:
        return self._ledger.erasures.claim(erasure_id, self._owner, lease_s=LEASE_S)

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
                erasure = self._ledger.erasures.get(erasure_id)
                if erasure.state in {before, ErasureState.CERTIFIED}:
                    return
                before = erasure.state
                self._step(erasure)
        except NotReady as waiting:
            details = waiting.detail if isinstance(waiting.detail, list) else []
            why = "; ".join([waiting.what, *map(str, details[:5])])
            self._ledger.erasures.note(erasure_id, self._owner, waits_for=why)
        except (StoreError, OSError) as error:
            why = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
            log.warning("erasure_step_failed", erasure_id=str(erasure_id), error=why)
            self._ledger.erasures.note(erasure_id, self._owner, waits_for=why)

    def _step(self, erasure: ErasureView) -> None:
        """Take the next step of an erasure.

        Raises:
            NotReady: It waits for something.
            StoreError: A store does not answer, or differs from what it must have.
        """
        erasure_id = erasure.erasure_id
        match erasure.state:
            case ErasureState.REQUESTED:
                self._ledger.erasures.condemn(erasure_id, self._owner)
            case ErasureState.REBUILDING:
                self._rebuild(erasure)
                self._copy(erasure, self._unfilled(erasure))
                self._ledger.erasures.hold(erasure_id, self._owner)
            case ErasureState.HOLDING:
                self._fill(erasure)
                self._rebuild(erasure)
                self._ledger.erasures.deployed(erasure_id, self._owner)
            case ErasureState.RELEASING:
                self._ledger.erasures.release(erasure_id, self._owner)
            case ErasureState.REMOVING:
                self._remove(erasure)
            case ErasureState.CERTIFIED:
                pass

    def _rebuild(self, erasure: ErasureView) -> None:
        """Request the commits that create successors of the condemned assets."""
        waiting = []
        for branch in self._ledger.erasures.owed(erasure.erasure_id):
            if branch.in_flight is None:
                self._request(erasure, branch)
            if not branch.is_at_gate:
                waiting.append(branch.name)
        if waiting:
            raise NotReady("branches create the successors of their assets", detail=[*waiting])

    def _request(self, erasure: ErasureView, branch: OwedBranch) -> None:
        """Request that a branch deploys its definitions again, unless that is under way."""
        attempt = 0
        while True:
            text = f"erase {erasure.erasure_id} {branch.branch_id} {branch.head_seq} {attempt}"
            try:
                found = self._ledger.commits.get_by_key(self._tenant, text)
            except NotFound:
                break
            if found.state not in {CommitState.ABORTED, CommitState.REJECTED}:
                self._notice(found.commit_id)
                return
            attempt += 1
        digest = hashlib.sha256(text.encode()).digest()
        commit_id = UUID(bytes=digest[:16], version=4)
        content = self._ledger.bundles.of_commit(branch.head_commit_id)
        self._ledger.commits.accept(
            CommitRequest(
                commit_id=commit_id,
                tenant=self._tenant,
                branch=branch.branch_id,
                idempotency_key=text,
                request_sha256=digest,
                actor="platform",
                message=f"erase rows of `{erasure.dataset}`",
                bundle=self._ledger.bundles.sign(content),
                deadline_s=DEADLINE_S,
                kind=CommitKind.ERASE,
            )
        )
        self._notice(commit_id)

    def _unfilled(self, erasure: ErasureView) -> tuple[Successor, ...]:
        found = self._ledger.erasures.successors(erasure.erasure_id)
        return tuple(one for one in found if not one.is_filled and one.new_name is not None)

    def _copy(self, erasure: ErasureView, successors: Sequence[Successor]) -> None:
        """Copy what the topics have until now, while they accept more."""
        for one in successors:
            if one.new_name is not None:
                rewrite = self._filter(erasure, one.old_name)
                copy_log(self._settings.kafka, one.old_name, one.new_name, rewrite)

    def _fill(self, erasure: ErasureView) -> None:
        """Seal the endpoints' topics, copy the rest, and let the commits go on."""
        for one in self._unfilled(erasure):
            if one.new_name is None:
                continue
            kafka, rewrite = self._settings.kafka, self._filter(erasure, one.old_name)
            seal_topic(kafka, one.old_name, probe=EMPTY_CALL)
            copy_log(kafka, one.old_name, one.new_name, rewrite)
            copied = compare_logs(kafka, one.old_name, one.new_name, rewrite)
            log.info("endpoint_copied", records=copied.records, changed=copied.changed)
            self._ledger.erasures.filled(erasure.erasure_id, self._owner, one)

    def _filter(self, erasure: ErasureView, topic: str) -> RowFilter:
        """Return the filter of an endpoint's records: all blocked keys, not only this erasure's."""
        endpoint = self._endpoint(erasure, topic)
        sources = self._ledger.erasures.blocked_sources(self._tenant, endpoint)
        return RowFilter(
            finders=finders_of(sources),
            digests=self._digests,
            blocked={erasure.dataset: frozenset(erasure.digests)},
        )

    def _endpoint(self, erasure: ErasureView, topic: str) -> str:
        for asset in self._ledger.erasures.remaining(erasure.erasure_id):
            if asset.physical_name == topic and isinstance(asset.spec, TopicSpec):
                return asset.spec.identity
        raise NotReady(f"topic `{topic}` is gone")

    def _remove(self, erasure: ErasureView) -> None:
        """Delete what no asset owns, search everything, and certify."""
        left = self._ledger.erasures.remaining(erasure.erasure_id)
        if left:
            raise NotReady(f"{len(left)} condemned assets are being destroyed")
        names = self._ledger.erasures.condemned(erasure.erasure_id)
        needles = self._needles(erasure)
        self._delete_snapshots(names)
        deleted = self._delete_derived(needles)
        found, searched = self._search(erasure, names, needles)
        if found:
            self._clean_since.pop(erasure.erasure_id, None)
            raise NotReady("a search still finds the keys", detail=[*found])
        since = self._clean_since.setdefault(erasure.erasure_id, time.monotonic())
        if deleted or time.monotonic() - since < SETTLED_S:
            raise NotReady("the first search found nothing; a second one follows")
        certificate = self._certificate(erasure, names, needles, searched)
        self._ledger.erasures.certify(erasure.erasure_id, self._owner, certificate=certificate)

    def _needles(self, erasure: ErasureView) -> tuple[Needle, ...]:
        """Return what to search for; only this process, with the key of secrets, can read it."""
        text = self._sealer.open(erasure.sealed, about=about(erasure.erasure_id))
        rows: list[dict[str, Json]] = json.loads(text)
        sources = self._ledger.erasures.blocked_sources
        dataset = self._dataset(erasure)
        aliases: dict[str, frozenset[str]] = {}
        for endpoint in self._endpoints(erasure):
            for finder in finders_of(sources(self._tenant, endpoint)):
                if finder.dataset == erasure.dataset:
                    for field, columns in finder.columns.items():
                        aliases[field] = aliases.get(field, frozenset()) | columns
        fields = erase_fields(dataset)
        is_whole = fields == tuple(dataset.schema.keys)
        return tuple(
            Needle(
                cells=row,
                aliases=aliases,
                key=key_bytes(fields, [parse_cell(row[f.name], f.type) for f in fields])
                if is_whole
                else b"",
            )
            for row in rows
        )

    def _endpoints(self, erasure: ErasureView) -> list[str]:
        found = self._ledger.erasures.blocked_endpoints(self._tenant, erasure.dataset)
        return sorted(found)

    def _dataset(self, erasure: ErasureView) -> Dataset:
        """Find the dataset in the definitions of its branch, or of another one that has it."""
        branches = self._ledger.branches.all(self._tenant)
        for branch in sorted(branches, key=lambda one: one.name != erasure.branch):
            if branch.state != "active" or branch.head_commit_id is None:
                continue
            content = self._ledger.bundles.of_commit(branch.head_commit_id)
            for dataset in read_bundle(content).definitions.datasets:
                if dataset.name == erasure.dataset:
                    return dataset
        raise NotReady(f"no branch has the dataset `{erasure.dataset}` any more; commit it again")

    def _delete_snapshots(self, names: Sequence[str]) -> None:
        """Delete the snapshots of condemned indexes, of their shards, and of job states."""
        root = self._settings.snapshot_dir
        if not root:
            return
        system, directory = (
            fs.FileSystem.from_uri(root)
            if "://" in root
            else (fs.LocalFileSystem(), str(Path(root).absolute()))
        )
        selector = fs.FileSelector(directory, allow_not_found=True)
        for info in system.get_file_info(selector):
            if _is_of(info.base_name, names):
                system.delete_dir(info.path)

    def _delete_derived(self, needles: Sequence[Needle]) -> bool:
        """Delete offline queries, training sets and logged queries with the keys."""
        deleted = False
        settings, ledger = self._settings, self._ledger
        for directory in _children(settings.offline_dir):
            if search_files(directory, needles).found:
                shutil.rmtree(directory, ignore_errors=True)
                deleted = True
        for path in _children(settings.training_sets_dir):
            if path.suffix == ".parquet" and search_files(path, needles).found:
                ledger.training_sets.delete(UUID(path.stem))
                path.unlink(missing_ok=True)
                deleted = True
        topic = answers_topic(settings.install_id)
        if search_topic(settings.kafka, topic, needles).found:
            delete_records(settings.kafka, topic)
            deleted = True
        ledger.audits.forget_examples(older_than=dt.timedelta(0))
        return deleted

    def _search(
        self, erasure: ErasureView, names: Sequence[str], needles: Sequence[Needle]
    ) -> tuple[list[str], list[Json]]:
        """Read every store; return the places where something was found, and what was read."""
        found: list[str] = []
        searched: list[Json] = []

        def note(store: str, result: Searched) -> None:
            found.extend(result.found)
            searched.append({"store": store, "items": result.items, "bytes": result.size})

        assets = self._ledger.erasures.reached(self._tenant, erasure.dataset)
        for store, result in self._results(assets, needles):
            note(store, result)
        # An endpoint that fed the dataset before has its rows too.
        known = {asset.physical_name for asset in assets}
        endpoints = self._endpoints(erasure)
        plain = [attrs.evolve(needle, key=b"") for needle in needles]
        for name, row in self._ledger.gc.inventory(AssetKind.KAFKA_TOPIC).items():
            spec = row.spec
            if not isinstance(spec, TopicSpec) or spec.role is not TopicRole.INGEST:
                continue
            if spec.identity in endpoints and name not in known:
                note(f"topic {name}", search_topic(self._settings.kafka, name, plain))
        texts = [text for needle in needles for text in needle.texts]
        for table, (rows, matches) in self._ledger.erasures.search(texts).items():
            found += [f"table {table}"] * bool(matches)
            searched.append({"store": f"table {table} of the ledger", "items": rows, "bytes": 0})
        found += [f"`{name}` exists" for name in self._existing(names)]
        return found, searched

    def _results(
        self, assets: Sequence[ReachedAsset], needles: Sequence[Needle]
    ) -> Iterator[tuple[str, Searched]]:
        settings = self._settings
        plain = [attrs.evolve(needle, key=b"") for needle in needles]
        for asset in assets:
            name = asset.physical_name
            match asset.kind:
                case AssetKind.KAFKA_TOPIC if isinstance(asset.spec, TopicSpec):
                    is_log = asset.spec.role is TopicRole.DATASET
                    wanted = needles if is_log else plain
                    columns = asset.spec.log if is_log else None
                    yield f"topic {name}", search_topic(settings.kafka, name, wanted, log=columns)
                case AssetKind.HISTORY:
                    place = f"{settings.history_dir.rstrip('/')}/{name}"
                    yield f"history {name}", search_files(place, plain)
                case AssetKind.INDEX:
                    yield f"index {name}", search_files(settings.index_dir / name, needles)
                case AssetKind.CHECKPOINT:
                    place = str(settings.checkpoint_dir / name)
                    yield f"checkpoint {name}", search_files(place, needles)
                case _:
                    continue
            if settings.snapshot_dir and asset.kind in {AssetKind.INDEX, AssetKind.CHECKPOINT}:
                place = f"{settings.snapshot_dir.rstrip('/')}/{name}"
                yield f"snapshots of {name}", search_files(place, needles)
        yield "offline queries", search_files(settings.offline_dir, plain)
        yield "training sets", search_files(settings.training_sets_dir, plain)
        topic = answers_topic(settings.install_id)
        yield "logged queries", search_topic(settings.kafka, topic, plain)

    def _existing(self, names: Sequence[str]) -> list[str]:
        """Return what of the condemned assets is still in a store, in whatever state."""
        settings = self._settings
        roots: list[str | Path] = [
            settings.index_dir,
            settings.history_dir,
            settings.checkpoint_dir,
        ]
        roots += [settings.snapshot_dir] if settings.snapshot_dir else []
        there = {part for root in roots for part in names_below(root)}
        found = {part for part in there if _is_of(part.partition(".")[0], names)}
        for name in names:
            if search_topic(settings.kafka, name, ()).items:
                found.add(name)
        return sorted(found)

    def _certificate(
        self,
        erasure: ErasureView,
        names: Sequence[str],
        needles: Sequence[Needle],
        searched: list[Json],
    ) -> Json:
        long = sum(needle.is_long for needle in needles)
        not_reached: list[Json] = [*NOT_REACHED]
        return {
            "version": 1,
            "erasure_id": str(erasure.erasure_id),
            "installation": self._settings.install_id,
            "dataset": erasure.dataset,
            "branch": erasure.branch,
            "erase_keys": [*erasure.fields],
            "digests": [digest.hex() for digest in erasure.digests],
            "requested_by": erasure.actor,
            "requested_at": erasure.requested_at.isoformat(),
            "searched_at": dt.datetime.now(dt.UTC).isoformat(),
            "destroyed": [*sorted(names)],
            "searched": searched,
            "found": 0,
            "method": {
                "anywhere": long,
                "in_columns_of_its_name": len(needles) - long,
            },
            "blocked": True,
            "not_reached": not_reached,
        }


def about(erasure_id: UUID) -> str:
    """Return what the sealed values of an erasure's keys are sealed with."""
    return f"erasure\n{erasure_id}"


def unsupported_here(settings: Settings) -> Iterator[str]:
    """Yield why an installation cannot erase; nothing if it can."""
    if settings.index_store:
        yield "its indexes are on Redis servers, which the search after an erasure does not read"


def _is_of(found: str, names: Sequence[str]) -> bool:
    """Whether a name is that of an asset, or of one of its shards."""
    return any(found == name or found.startswith(f"{name}_s") for name in names)


def _children(directory: Path) -> list[Path]:
    return sorted(directory.iterdir()) if directory.is_dir() else []


def digests_of(certificate: Mapping[str, Json]) -> frozenset[str]:
    """Return the digests that a certificate covers, in hexadecimal digits."""
    found = certificate.get("digests")
    return frozenset(map(str, found)) if isinstance(found, list) else frozenset()
