"""`python -m tests.crash.kills`: kill -9 and SIGSTOP of processes that run commits.

Real Kafka, real PostgreSQL, real directories. Three processes run the recovery loop without
Airflow. Commits come on three branches at once, and some are cancelled. Meanwhile random processes
are killed, or stopped for longer than their leases. At the end every commit has ended, no asset is
lost or left over, and every invariant of the ledger holds.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random  # noqa: TID251 (seeded)
from typing import Annotated, Any
from uuid import UUID

import attrs
import sqlalchemy as sa
import structlog
import typer

from narthex._formats.wire import CommitPayload, encode_commit
from narthex._sdk.commit_definitions import definitions
from narthex.settings import Settings, environment_of
from narthex_ledger import CommitRequest, Ledger, LedgerError, migrate
from narthex_server.__main__ import make_adapters
from narthex_stack.servers.local_servers import kafka_broker, postgres_server
from narthex_stores import Adapter
from tests.crash.invariants import ObservedEvents, broken_when_quiet
from tests.crash.supervisor import supervise
from tests.crash.worker import RULES, parts
from tests.ledger.world import fingerprint
from tests.server.shop import shop

ROOT = Path(__file__).resolve().parents[2]
INSTALL = "kills000"
WORKERS, SLOTS = 3, 4
BRANCHES = ("main", "dev", "exp")
QUIET_S = 300.0
BETWEEN_S = (0.3, 1.5)
STOPPED_S = (1.0, 7.0)
OPEN = "('QUEUED', 'PLANNED', 'APPLYING', 'READY', 'COMMITTED', 'ABORTING')"
AT_WORK = f"""
SELECT owner FROM deploy_commit WHERE state IN {OPEN} AND lease_expires_at > ledger_now()
UNION SELECT owner FROM destroy_ledger WHERE status = 'INTENT' AND lease_expires_at > ledger_now()
"""  # noqa: S608


@attrs.define
class RunTally:
    """The events of a run. Only working processes are struck; other strikes would test nothing."""

    killed: int = 0
    stopped: int = 0
    taken_over: int = 0
    ended: dict[str, int] = attrs.field(factory=dict)
    broken: list[str] = attrs.field(factory=list)


@attrs.define(kw_only=True)
class Place:
    """The ledger and the stores as the judge sees them."""

    settings: Settings
    engine: sa.Engine
    ledger: Ledger
    adapters: dict[Any, Adapter]
    past: ObservedEvents = attrs.field(factory=ObservedEvents)
    wrong_destroys: tuple[str, ...] = ()
    tampered: frozenset[str] = frozenset()

    def rows(self, query: str, **values: object) -> list[dict[str, Any]]:
        with self.engine.connect() as connection:
            return [dict(r) for r in connection.execute(sa.text(query), values).mappings()]

    @staticmethod
    def made() -> tuple[str, ...]:
        return ()

    def there(self) -> dict[str, str]:
        return {
            one.name: one.external_id
            for adapter in self.adapters.values()
            for one in adapter.list(f"nx_{INSTALL}_", timeout_s=30.0)
        }


class Workers:
    """The processes that are killed, and the parent that starts new ones."""

    def __init__(self, settings: Settings) -> None:
        self._born = subprocess.Popen(
            (sys.executable, "-m", "tests.crash.worker"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, **environment_of(settings)},
        )
        self._line()
        self.pids = [self.spawn() for _ in range(WORKERS)]

    def spawn(self) -> int:
        if self._born.stdin is None:
            raise AssertionError
        self._born.stdin.write("\n")
        self._born.stdin.flush()
        return int(self._line())

    def _line(self) -> str:
        if self._born.stdout is None:
            raise AssertionError
        line = self._born.stdout.readline()
        if not line:
            raise RuntimeError("the parent of the workers has ended")
        return line.strip()

    def close(self) -> None:
        for pid in self.pids:
            os.kill(pid, signal.SIGCONT)
        with self._born as born:
            if born.stdin is not None:
                born.stdin.close()


@contextmanager
def place(home: Path, dsn: str, kafka: str) -> Iterator[Place]:
    """Make an empty installation."""
    settings = Settings(
        home=home,
        install_id=INSTALL,
        ledger_dsn=dsn,
        kafka=kafka,
        server_url="http://127.0.0.1:1",
        token="of-tests",
        index_dir=home / "index",
        history_dir=str(home / "history"),
        checkpoint_dir=home / "checkpoints",
        files_root=home,
        jars_dir=home / "jars",
        run_job=os.devnull,
    )
    migrate(dsn)
    ledger = Ledger(dsn, rules=RULES)
    ledger.installation.create(INSTALL, slots=SLOTS)
    engine = sa.create_engine(dsn, isolation_level="AUTOCOMMIT")
    yield Place(settings=settings, engine=engine, ledger=ledger, adapters=make_adapters(settings))
    ledger.close()
    engine.dispose()


def carry_out(here: Place, *, kills: int, rng: Random) -> RunTally:
    """Strike that often while commits come; then let all come to rest, and judge."""
    tally = RunTally()
    tenant = here.ledger.installation.ensure_tenant("default")
    branches = [here.ledger.branches.ensure(tenant, name) for name in BRANCHES]
    bundles = _bundles()
    workers = Workers(here.settings)
    asleep: list[tuple[float, int]] = []
    asked = 0
    try:
        while tally.killed + tally.stopped < kills:
            asleep = _wake(asleep, time.monotonic())
            if len(here.rows(f"SELECT 1 FROM deploy_commit WHERE state IN {OPEN}")) < WORKERS:  # noqa: S608
                asked += 1
                here.ledger.commits.accept(
                    CommitRequest(
                        commit_id=UUID(int=asked),
                        tenant=tenant,
                        branch=rng.choice(branches),
                        idempotency_key=f"commit-{asked:05}",
                        request_sha256=fingerprint(str(asked)),
                        actor="kills",
                        bundle=rng.choice(bundles),
                        deadline_s=rng.choice((20.0, 60.0, 300.0)),
                    )
                )
            if asked and rng.random() < 0.1:
                _attempt_cancel(here.ledger, UUID(int=rng.randint(1, asked)))
            supervise(here.ledger, slots=SLOTS)
            time.sleep(rng.uniform(*BETWEEN_S))
            _strike(here, workers, asleep, tally, rng)
        _wake(asleep, float("inf"))
        _rest(here, time.monotonic() + QUIET_S)
    finally:
        workers.close()
    _judge(here, tally)
    return tally


def _strike(
    here: Place, workers: Workers, asleep: list[tuple[float, int]], tally: RunTally, rng: Random
) -> None:
    at_work = {str(row["owner"]) for row in here.rows(AT_WORK)} - {
        f"worker-{sleeping}" for _, sleeping in asleep
    }
    hittable = [pid for pid in workers.pids if f"worker-{pid}" in at_work]
    if not hittable:
        return
    pid = rng.choice(hittable)
    if rng.random() < 0.7:
        os.kill(pid, signal.SIGKILL)
        workers.pids[workers.pids.index(pid)] = workers.spawn()
        tally.killed += 1
    else:
        os.kill(pid, signal.SIGSTOP)
        asleep.append((time.monotonic() + rng.uniform(*STOPPED_S), pid))
        tally.stopped += 1
    done = tally.killed + tally.stopped
    if done % 10 == 0:
        sys.stderr.write(f"{done} strikes\n")
        sys.stderr.flush()


def _wake(asleep: list[tuple[float, int]], now: float) -> list[tuple[float, int]]:
    for due, pid in asleep:
        if due <= now:
            os.kill(pid, signal.SIGCONT)
    return [(due, pid) for due, pid in asleep if due > now]


def _attempt_cancel(ledger: Ledger, commit_id: UUID) -> None:
    try:
        ledger.commits.cancel(commit_id, actor="kills")
    except LedgerError:
        return


def _rest(here: Place, until: float) -> None:
    moving = (
        f"SELECT commit_id::text, state FROM deploy_commit WHERE state IN {OPEN}"  # noqa: S608
        " UNION ALL SELECT physical_name, state FROM asset"
        " WHERE state IN ('planned', 'creating', 'retiring', 'destroying')"
        " UNION ALL SELECT pin_id::text, holder FROM pin WHERE holder = 'history'"
        " UNION ALL SELECT physical_name, 'unpinned' FROM asset JOIN asset_refcount"
        " USING (asset_id) WHERE state = 'live' AND refs = 0"
    )
    while left := here.rows(moving):
        if time.monotonic() > until:
            sys.stderr.write(f"still moving: {left[:10]}\n")
            return
        supervise(here.ledger, slots=SLOTS)
        time.sleep(1.0)


def _judge(here: Place, tally: RunTally) -> None:
    _, auditor = parts(here.settings, "judge")
    auditor.audit()
    time.sleep(RULES.audit_apart_s + 1.0)
    auditor.audit()
    tally.ended = {
        row["state"]: row["n"]
        for row in here.rows("SELECT state, count(*) AS n FROM deploy_commit GROUP BY state")
    }
    tally.taken_over = len(here.rows("SELECT 1 FROM deploy_commit WHERE fence > 2"))
    tally.broken = broken_when_quiet(here)


def _bundles() -> list[bytes]:
    (orders, users, _), _ = shop()
    wanted = [definitions([orders], []), definitions([users], []), definitions([orders, users], [])]
    return [encode_commit(CommitPayload(message="kills", definitions=one)) for one in wanted]


def main(
    n: Annotated[int, typer.Option("--n", help="The number of strikes.")] = 300,
    seed: Annotated[int, typer.Option(help="The seed of targets, times and signals.")] = 0,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")] = False,
) -> None:
    """Kill and stop processes that run commits; exit with 1 if an invariant was broken."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    with (
        tempfile.TemporaryDirectory() as home,
        postgres_server(Path(home)) as server,
        kafka_broker(Path(home)) as kafka,
        place(Path(home) / "state", server.create_database("kills"), kafka) as here,
    ):
        tally = carry_out(here, kills=n, rng=Random(seed))  # noqa: S311 (no secret)
    found = attrs.asdict(tally)
    sys.stdout.write(json.dumps(found) + "\n" if as_json else f"{found}\n")
    raise typer.Exit(1 if tally.broken else 0)


if __name__ == "__main__":
    typer.run(main)
