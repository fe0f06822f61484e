"""A world for crash tests: a real ledger with a test clock, and stores that outlive all processes.

Each `ServerProcess` has its own executor, collector and recovery loop. When it dies, the ledger and
the stores remain as they are; the next process is another owner.
"""

import contextlib
import datetime as dt
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self
from uuid import UUID

import attrs
import sqlalchemy as sa

from narthex._ir.assets import AssetBlueprint, AssetKind, Blueprint, DatasetPlan
from narthex._runtime.environments import PackageSource
from narthex.settings import Settings
from narthex_ledger import (
    AssetState,
    BranchRequest,
    CommitRequest,
    CommitState,
    CommitView,
    Ledger,
    LedgerError,
    Moment,
    TenantId,
    migrate,
)
from narthex_server.deploy.airflow_client import Airflow
from narthex_server.deploy.auditor import Auditor
from narthex_server.deploy.commit_diffs import CommitDiffs
from narthex_server.deploy.environment_builds import EnvironmentBuilds
from narthex_server.deploy.executor import Executor, StepDeferred, StepImpossible
from narthex_server.deploy.garbage_collector import Collector
from narthex_server.deploy.recovery import Recovery
from narthex_server.erasures.erasing import Eraser
from narthex_stores import InMemoryAdapter, StoreError, divided_index
from tests.crash.beginnings import Beginning, WorldState
from tests.crash.erased import CopiedTopics, ErasedStoresInMemory
from tests.crash.gates import CheckedAtOnce
from tests.crash.invariants import ObservedEvents
from tests.crash.notices import ALERTS_FILE, AlertServices, FaultHookedAlerts, Inbox
from tests.crash.outputs import ExpiringOutputs, OutputFiles
from tests.crash.points import Copies, FaultHook, FaultHookedAdapter, FaultHookedSnapshots, Store
from tests.crash.supervisor import supervise
from tests.ledger.world import fingerprint

STORES = (AssetKind.KAFKA_TOPIC, AssetKind.INDEX, AssetKind.HISTORY, AssetKind.CHECKPOINT)
SLOTS = 4
PATIENCE_S = 31.0
"""Longer than a commit's lease: what waits for somebody dead goes on."""
TURNS = 80
BEGAN = "2026-01-01T00:00:00Z"
INSTALL = "crash000"
STRAY = f"nx_{INSTALL}_stray"

_CLOCK = """
CREATE TABLE test_clock(one boolean PRIMARY KEY DEFAULT true CHECK (one), at timestamptz NOT NULL);
INSERT INTO test_clock(at) VALUES ('2026-01-01T00:00:00Z');
CREATE OR REPLACE FUNCTION ledger_now() RETURNS timestamptz LANGUAGE sql VOLATILE AS
  'SELECT at FROM test_clock'
"""
_KEPT = {"alembic_version", "test_clock"}


class NeverAtRest(AssertionError):
    """The world went on moving, or waiting, for longer than it may."""


@attrs.define(kw_only=True)
class ServerProcess:
    """One server process."""

    fault_hook: FaultHook
    ledger: Ledger
    executor: Executor
    collector: Collector
    auditor: Auditor
    recovery: Recovery
    eraser: Eraser
    alerts: FaultHookedAlerts
    outputs: ExpiringOutputs

    def attempt(self, step: Callable[[], object]) -> bool:
        """Take a step as a client or a task does; return whether it was taken."""
        for _ in range(3):
            try:
                step()
            except (StepDeferred, StoreError):
                continue
            except (LedgerError, StepImpossible):
                return False
            else:
                return True
        return False

    def step(self, commit_id: UUID) -> None:
        """Take the next step of a commit, and no more: as a task of its run does."""
        view = self.ledger.commits.get(commit_id)
        undone = [a.asset_id for a in view.assets if a.state is not AssetState.LIVE]
        match view.state:
            case CommitState.QUEUED:
                self.executor.plan(commit_id)
            case CommitState.PLANNED | CommitState.APPLYING if undone:
                self.executor.create(commit_id, undone[0])
            case CommitState.PLANNED | CommitState.APPLYING:
                self.executor.ready(commit_id)
            case CommitState.READY:
                self.executor.commit(commit_id)
            case CommitState.COMMITTED:
                self.executor.promote(commit_id)
            case _:
                return

    def submit(self, request: CommitRequest) -> UUID:
        """Ask for a commit as a client does, and again until it is answered."""
        self.attempt(lambda: self.ledger.commits.accept(request))
        self.recovery.notice(request.commit_id)
        return request.commit_id


class PlanningExecutor(Executor):
    """Takes the bindings of a commit from its request instead of compiling a bundle."""

    def plan(self, commit_id: UUID) -> CommitView:
        view = self.ledger.commits.get(commit_id)
        if view.state is CommitState.QUEUED and view.kind in {"deploy", "erase"}:
            fence = self._claim(commit_id)
            wanted = BLUEPRINTS[str(view.request)]
            self.ledger.commits.plan(commit_id, fence, blueprint=wanted, name_of=self.name_of)
            return self.ledger.commits.get(commit_id)
        return super().plan(commit_id)


BLUEPRINTS: dict[str, Blueprint] = {}
"""The names in the requests of these tests."""


@attrs.define(kw_only=True)
class World:
    """The state that outlives processes, and its queries."""

    dsn: str
    home: Path
    engine: sa.Engine
    supervisor: Ledger
    airflow: Airflow
    tenant: TenantId = TenantId(0)
    stores: dict[AssetKind, Store] = attrs.field(factory=dict)
    copies: Copies = attrs.field(factory=Copies)
    seconds: float = 0.0
    wrong_destroys: list[str] = attrs.field(factory=list)
    past: ObservedEvents = attrs.field(factory=ObservedEvents)
    tampered: set[str] = attrs.field(factory=set)
    topics: CopiedTopics = attrs.field(factory=CopiedTopics)
    inbox: Inbox = attrs.field(factory=Inbox)
    outputs: OutputFiles = attrs.field(
        default=attrs.Factory(lambda self: OutputFiles(self.home / "offline"), takes_self=True)
    )
    _kept: tuple[str, Beginning] | None = None
    _lives: Iterator[int] = attrs.field(factory=itertools.count)
    _ledgers: list[tuple[Ledger, "HookSwitch"]] = attrs.field(factory=list)

    @classmethod
    def open(cls, dsn: str, home: Path) -> Self:
        migrate(dsn)
        settings_of(dsn, home).alerts_file.write_text(ALERTS_FILE)
        engine = sa.create_engine(dsn, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.exec_driver_sql(_CLOCK)
        made = cls(
            dsn=dsn,
            home=home,
            engine=engine,
            supervisor=Ledger(dsn),
            airflow=Airflow(settings_of(dsn, home)),
        )
        made.reset()
        return made

    def close(self) -> None:
        self.supervisor.close()
        for ledger, _ in self._ledgers:
            ledger.close()
        self.engine.dispose()

    def reset(self) -> None:
        """Begin anew: nothing has ever happened."""
        tables = [r["table_name"] for r in self.rows(_TABLES) if r["table_name"] not in _KEPT]
        self.change(f"TRUNCATE {', '.join(tables)} RESTART IDENTITY CASCADE")
        self.change("INSERT INTO registry_version DEFAULT VALUES")
        self.change("INSERT INTO alert_evaluator DEFAULT VALUES")
        self.change(f"UPDATE test_clock SET at = '{BEGAN}'")  # noqa: S608
        self.supervisor.installation.create(INSTALL, slots=SLOTS)
        self.tenant = self.supervisor.installation.ensure_tenant("default")
        for name in ("main", "dev"):
            self.supervisor.branches.ensure(self.tenant, name)
        self.stores = {kind: Store(InMemoryAdapter(kind)) for kind in STORES}
        self.copies = Copies()
        self.seconds = 0.0
        self.wrong_destroys = []
        self.past = ObservedEvents()
        self.tampered = set()
        self.topics = CopiedTopics()
        self.inbox = Inbox()
        self.outputs.clear()

    def rows(self, query: str, **values: object) -> list[dict[str, Any]]:
        with self.engine.connect() as connection:
            return [dict(r) for r in connection.execute(sa.text(query), values).mappings()]

    def change(self, statement: str) -> None:
        with self.engine.connect() as connection:
            connection.exec_driver_sql(statement)

    def wait(self, seconds: float) -> None:
        """Let time go by; what was under way in the stores lands before it must have."""
        for store in self.stores.values():
            store.land()
        self.copies.land()
        self.inbox.land()
        self.seconds += seconds
        self.change(f"UPDATE test_clock SET at = at + interval '{seconds} s'")  # noqa: S608

    def life(self, fault_hook: FaultHook | None = None) -> ServerProcess:
        """Start a server process."""
        number = next(self._lives)
        fault_hook = FaultHook() if fault_hook is None else fault_hook
        ledger, switch = self._ledger()
        switch.fault_hook = fault_hook
        adapters = {
            kind: FaultHookedAdapter(store, fault_hook, self._check_destroy)
            for kind, store in self.stores.items()
        }
        owner = f"server-{number}"
        executor = PlanningExecutor(
            ledger=ledger,
            adapters=adapters,
            install_id=INSTALL,
            owner=owner,
            gates=CheckedAtOnce(ledger=ledger, history_dir=str(self.home), fault_hook=fault_hook),
            diffs=CommitDiffs(ledger=ledger, history_dir=str(self.home)),
            environments=EnvironmentBuilds(PackageSource(home=self.home, index="")),
            clock=lambda: self.seconds,
        )
        collector = Collector(
            ledger=ledger,
            adapters=adapters,
            owner=owner,
            snapshots=FaultHookedSnapshots(self.copies, fault_hook, self._check_delete),
            clock=lambda: self.seconds,
        )
        auditor = Auditor(ledger=ledger, adapters=adapters, install_id=INSTALL, owner=owner)
        recovery = Recovery(
            ledger=ledger,
            executor=executor,
            collector=collector,
            auditor=auditor,
            airflow=self.airflow,
            settings=settings_of(self.dsn, self.home),
        )
        eraser = Eraser(
            ledger=ledger,
            tenant=self.tenant,
            install_id=INSTALL,
            stores=ErasedStoresInMemory(  # type: ignore[arg-type]
                self.topics, self.there, fault_hook, self._obsolete_writers
            ),
            notice=recovery.notice,
            owner=owner,
            clock=lambda: self.seconds,
        )
        services = AlertServices(
            ledger=ledger,
            tenant=self.tenant,
            settings=settings_of(self.dsn, self.home),
            collector=collector,
        )
        return ServerProcess(
            fault_hook=fault_hook,
            ledger=ledger,
            executor=executor,
            collector=collector,
            auditor=auditor,
            recovery=recovery,
            eraser=eraser,
            alerts=FaultHookedAlerts(services, self.inbox, fault_hook),
            outputs=ExpiringOutputs(self.outputs, ledger, fault_hook),
        )

    @staticmethod
    def commit_id(number: int) -> UUID:
        return UUID(int=number)

    def request(self, number: int, wanted: str, *, branch: str = "main") -> CommitRequest:
        return CommitRequest(
            commit_id=self.commit_id(number),
            tenant=self.tenant,
            branch=self.supervisor.branches.get(self.tenant, branch).branch_id,
            idempotency_key=f"key-of-commit-{number}",
            request_sha256=fingerprint(f"request {number}"),
            actor="ada",
            bundle=b"features",
            deadline_s=86_400.0,
            request=wanted,
        )

    def branch_names(self) -> set[str]:
        return {str(r["name"]) for r in self.rows("SELECT name FROM branch WHERE state = 'active'")}

    def branch_request(self, number: int, name: str) -> BranchRequest:
        return BranchRequest(
            commit_id=self.commit_id(number),
            tenant=self.tenant,
            name=name,
            idempotency_key=f"key-of-commit-{number}",
            request_sha256=fingerprint(f"request {number}"),
            actor="ada",
        )

    def catch_up(self, decide: Callable[[UUID], object] | None = None) -> None:
        """Be the supervisor, and the person who decides about what waits for one, or approves."""
        supervise(self.supervisor, slots=SLOTS)
        self.topics.run_sinks(self.supervisor.jobs.all())
        for row in self.rows(_UNAPPROVED):
            if decide is None:
                self.supervisor.promotions.approve(row["commit_id"], actor="grace")
            else:
                decide(row["commit_id"])

    def settle(
        self, life: ServerProcess, *, decide: Callable[[UUID], object] | None = None
    ) -> None:
        """Let one process and the supervisor take turns until nothing is left to be done.

        A person approves what waits for one, or else does `decide` with the commit's id.
        """
        before = None
        for _ in range(TURNS):
            self.catch_up(decide)
            life.recovery.look()
            with contextlib.suppress(LedgerError):
                life.eraser.look()
            if self.is_quiet():
                return
            now = self._moved()
            if now == before:
                self.wait(PATIENCE_S)
            before = now
        raise NeverAtRest(str(self.rows(_UNDONE)))

    def audit(self, life: ServerProcess) -> None:
        """Scan twice, far enough apart: what a call that came too late has left goes."""
        life.attempt(life.auditor.audit)
        self.wait(PATIENCE_S * 2)
        life.attempt(life.auditor.audit)

    def is_quiet(self) -> bool:
        """Whether every commit has ended and every asset stays as it is."""
        is_late = self.copies.late or any(s.late for s in self.stores.values())
        return not self.rows(_UNDONE) and not is_late

    def there(self) -> dict[str, str]:
        """Everything that exists outside: name to external id."""
        return {
            one.name: one.external_id
            for store in self.stores.values()
            for one in store.things.list("", timeout_s=1.0)
        }

    def made(self) -> list[str]:
        return [name for store in self.stores.values() for name in store.made]

    def _moved(self) -> object:
        return self.rows(
            "SELECT (SELECT max(event_id) FROM ledger_event) AS events,"
            " (SELECT sum(attempt) FROM create_ledger) AS calls,"
            " (SELECT sum(fence) FROM destroy_ledger) AS orders"
        )

    def _obsolete_writers(self) -> list[str]:
        """The obsolete jobs, other than sinks, that have not reported that they stopped."""
        found = self.rows(
            "SELECT physical_name FROM asset JOIN job USING (asset_id)"
            " JOIN job_shard USING (asset_id) WHERE obsolete_by IS NOT NULL"
            " AND spec->>'$' <> 'SinkJobSpec'"
            " AND (desired <> 'stopped' OR phase <> 'stopped' OR seen_generation <> generation)"
        )
        return [str(row["physical_name"]) for row in found]

    def _check_destroy(self, name: str) -> None:
        """I5: a call to destroy something comes only when no pin reaches it."""
        held = self.rows(
            "SELECT 1 FROM asset JOIN manifest_binding USING (asset_id)"
            " JOIN pin USING (manifest_id) WHERE physical_name = :name",
            name=name,
        )
        if held:
            self.wrong_destroys.append(name)

    def _check_delete(self, name: str) -> None:
        """Snapshots are deleted only when their index or state is destroyed."""
        kept = self.rows(
            "SELECT 1 FROM asset WHERE physical_name = :name AND state <> 'destroyed'",
            name=divided_index(name),
        )
        if kept:
            self.wrong_destroys.append(f"snapshots of {name}")

    def _ledger(self) -> tuple[Ledger, "HookSwitch"]:
        for ledger, switch in self._ledgers:
            if not switch.taken:
                switch.taken = True
                # A new process has read nothing yet, and nothing of an earlier run.
                ledger.manifests = attrs.evolve(ledger.manifests)
                return ledger, switch
        switch = HookSwitch()
        ledger = Ledger(self.dsn, fault_hook=switch.tell)
        self._ledgers.append((ledger, switch))
        return ledger, switch

    @contextlib.contextmanager
    def run(self, name: str = "", given: Callable[[], None] | None = None) -> Iterator[None]:
        """All processes of one run; afterwards other runs may use their connections.

        Names of an earlier run with the same name are not reported again.
        """
        if given is None or self._kept is None or self._kept[0] != name:
            self.reset()
            if given is not None:
                given()
                self._keep(name)
        else:
            self._again(self._kept[1])
        self._leave_ledgers()
        yield
        self._leave_ledgers()

    def _leave_ledgers(self) -> None:
        for _, switch in self._ledgers:
            switch.taken = False

    def _keep(self, name: str) -> None:
        beside = WorldState(
            stores=self.stores,
            copies=self.copies,
            seconds=self.seconds,
            past=self.past,
            tampered=frozenset(self.tampered),
            outputs=self.outputs.written,
        )
        with self.engine.connect() as connection:
            self._kept = (name, Beginning.keep(connection, beside))

    def _again(self, beginning: Beginning) -> None:
        with self.engine.connect() as connection:
            beside = beginning.again(connection)
        self.stores = dict(beside.stores)
        self.copies = beside.copies
        self.seconds = beside.seconds
        self.past = beside.past
        self.tampered = set(beside.tampered)
        self.topics = CopiedTopics()
        self.inbox = Inbox()
        self.outputs.again(beside.outputs)
        self.wrong_destroys = []


@attrs.define
class HookSwitch:
    """The fault hook of a ledger's connections."""

    fault_hook: FaultHook = attrs.field(factory=FaultHook)
    taken: bool = True

    def tell(self, name: str, moment: Moment) -> None:
        """Tell the seam that is there now."""
        self.fault_hook.transaction(name, moment)


_TABLES = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' AND table_type = 'BASE TABLE'"  # noqa: E501
_UNAPPROVED = """
SELECT commit_id FROM promotion
 WHERE policy = 'manual' AND state = 'PENDING' AND approved_by IS NULL
"""
_UNDONE = """
SELECT 'commit' AS what, commit_id::text AS id, state FROM deploy_commit
 WHERE state NOT IN ('FINALIZED', 'ABORTED', 'REJECTED')
UNION ALL
SELECT 'asset', asset_id::text, state FROM asset
 WHERE state IN ('planned', 'creating', 'retiring', 'destroying')
UNION ALL
SELECT 'unpinned', asset_id::text, state FROM asset JOIN asset_refcount USING (asset_id)
 WHERE state = 'live' AND refs = 0
UNION ALL
SELECT 'erasure', erasure_id::text, state FROM erasure WHERE state <> 'certified'
UNION ALL
SELECT 'pin', pin_id::text, holder FROM pin WHERE expires_at < ledger_now()
"""


def settings_of(dsn: str, home: Path) -> Settings:
    """Return the settings of an installation without Airflow and without files."""
    return Settings(
        home=home,
        install_id=INSTALL,
        ledger_dsn=dsn,
        kafka="127.0.0.1:1",
        server_url="http://127.0.0.1:1",
        token="of-tests",
        index_dir=home,
        history_dir=str(home),
        checkpoint_dir=home,
        files_root=home,
        jars_dir=home,
        run_job=os.devnull,
    )


def blueprint(
    name: str, *datasets: tuple[AssetBlueprint, ...], plans: tuple[DatasetPlan, ...] = ()
) -> str:
    """Register the bindings of a commit under a name for its request."""
    BLUEPRINTS[name] = Blueprint(assets=tuple(itertools.chain(*datasets)), datasets=plans)
    return name


def later(**span: float) -> float:
    """Return a span in seconds."""
    return dt.timedelta(**span).total_seconds()
