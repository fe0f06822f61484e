"""`python -m tests.crash.worker`: gives birth to server processes without an API, fast.

It has imported everything and opened nothing. For each line that it reads it forks a child that
opens the ledger and the real stores, runs the recovery loop, and is there to be killed.
"""

import datetime as dt
import os
import signal
import sys
from types import FrameType

import structlog

from narthex._runtime.environments import PackageSource
from narthex.settings import Settings, load_settings
from narthex_ledger import Ledger, Rules
from narthex_server.__main__ import make_adapters
from narthex_server.deploy.airflow_client import Airflow
from narthex_server.deploy.auditor import Auditor
from narthex_server.deploy.commit_diffs import CommitDiffs
from narthex_server.deploy.environment_builds import EnvironmentBuilds
from narthex_server.deploy.executor import Executor
from narthex_server.deploy.garbage_collector import Collector
from narthex_server.deploy.quality_gates import QualityGates
from narthex_server.deploy.recovery import Recovery

SOON = dt.timedelta(seconds=2)
RULES = Rules(
    commit_lease_s=4.0,
    slot_lease_s=6.0,
    destroy_lease_s=4.0,
    history_hot=SOON,
    history_cold=SOON * 2,
    grace=SOON,
    quiesce_margin=SOON / 4,
    registry_settle=SOON,
    audit_apart_s=4.0,
)
"""Short, so that many deaths and takeovers fit into minutes."""


def parts(settings: Settings, owner: str) -> tuple[Recovery, Auditor]:
    """Make what a server process drives commits with."""
    ledger = Ledger(settings.ledger_dsn, rules=RULES)
    adapters = make_adapters(settings)
    executor = Executor(
        ledger=ledger,
        adapters=adapters,
        install_id=settings.install_id,
        owner=owner,
        gates=QualityGates(
            ledger=ledger,
            history_dir=settings.history_dir,
            expectations_dir=settings.expectations_dir,
        ),
        diffs=CommitDiffs(ledger=ledger, history_dir=settings.history_dir),
        environments=EnvironmentBuilds(PackageSource.of(settings)),
    )
    collector = Collector(ledger=ledger, adapters=adapters, owner=owner)
    auditor = Auditor(ledger=ledger, adapters=adapters, install_id=settings.install_id, owner=owner)
    recovery = Recovery(
        ledger=ledger,
        executor=executor,
        collector=collector,
        auditor=auditor,
        airflow=Airflow(settings),
        settings=settings,
    )
    return recovery, auditor


def _live(settings: Settings) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    recovery, _ = parts(settings, f"worker-{os.getpid()}")
    recovery.start()
    while True:
        signal.pause()


def _reap(_number: int, _frame: FrameType | None) -> None:
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                return
        except ChildProcessError:
            return


def main() -> None:
    """Fork a child per line, and print its pid; end, with all children, when the lines end."""
    settings = load_settings()
    os.setpgid(0, 0)
    signal.signal(signal.SIGCHLD, _reap)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for _ in iter(sys.stdin.readline, ""):
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _live(settings)
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
