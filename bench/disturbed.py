"""Measure answers of /query while something else happens, beside those at rest.

    python -m bench.disturbed [--home HOME] [--rate 100] [--seconds 30] [--away-minutes 10]

The data and the queries are those of `bench.serving`, one key and fifty features. Queries are sent
at random instants with a mean rate, whatever the answers take: at rest; while a commit lands, whose
new dataset is filled from history; while the rows of ten datasets are written anew; while
PostgreSQL is stopped (SIGSTOP). Then three times the capacity is asked for: small queries, which
the event loop answers, and larger ones, which threads answer. Each answer is compared with the
values that were written; a wrong one is a failure.

The read process and the clients have one core, all other processes the other one, those that commit
and push rows included. Under overload the read process has a core of its own, the clients have the
other one, and the other processes are stopped. An answer counts for goodput if it is right and came
within a second of when it was due.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final

import attrs
import psutil

from bench.entity_features import (
    AT,
    KEY,
    WEBHOOK,
    column_name,
    columns,
    endpoint,
    entity_features,
    passing_rows,
    rows,
    value_of,
)
from bench.figures import keep_raw, load_average, quantile, report_result, show
from bench.open_loop import OK, OpenLoop, Sent, poisson, statuses
from bench.running import POSTGRES, connect, pin, platform, platform_processes, say
from bench.serving import ROWS_PER_CALL, Contender, everything_else_stopped, fill, narthex
from narthex._formats import united_positions
from narthex._formats.pandas.frames import frame_of_rows
from narthex.settings import Settings, load_settings

P99_RATIO: Final = 2.0
GOODPUT: Final = 0.9
OVERLOAD: Final = 3.0
DEADLINE_S: Final = 1.0
REWRITTEN: Final = 10
"""How many datasets are written anew."""

SMALL, LARGE = (10, 50), (10, 250)
"""Keys and features of the queries of the overload."""

CONNECTIONS: Final = 1024
"""How many clients there are under overload: so many that none waits for another one's answer."""

BUSY: Final = 4
"""How many queries are in flight while the capacity is measured."""

WRONG: Final = -2
"""The status of a wrong answer."""

LATER: Final = timedelta(days=1)
FIRST_KEY: Final = 17
ASKED: Final = 64
"""How many different queries there are."""


def question(first: int, keys: int, features: int) -> bytes:
    """Return the body of a query of some keys from `first` on."""
    return json.dumps(
        {
            "inputs": [KEY],
            "outputs": [f"Entity.{column_name(*each)}" for each in columns(features)],
            "data": {KEY: list(range(first, first + keys))},
        }
    ).encode()


def expected(first: int, keys: int, features: int) -> dict[str, list[int]]:
    """Return the answer of that query."""
    return {
        f"Entity.{column_name(*each)}": [value_of(key, *each) for key in range(first, first + keys)]
        for each in columns(features)
    }


@attrs.frozen(kw_only=True)
class QuerySender:
    """Sends queries of one size to a read process, and judges the answers."""

    server: Contender
    keys: int
    features: int

    def ask(
        self, due: Sequence[float], *, connections: int, patience_s: float = DEADLINE_S
    ) -> list[Sent]:
        """Send queries at these seconds from now; a wrong answer has the status `WRONG`."""
        firsts = [FIRST_KEY + 100 * number for number in range(ASKED)]
        loop = OpenLoop(
            port=self.server.port,
            path=self.server.path,
            headers=self.server.headers,
            bodies=[question(first, self.keys, self.features) for first in firsts],
            connections=connections,
            deadline_s=patience_s,
            keeps_bodies=True,
        )
        sent = loop.run(due)
        right = [expected(first, self.keys, self.features) for first in firsts]
        known: dict[bytes, bool] = {}

        def is_right(body: bytes) -> bool:
            if body not in known:
                known[body] = json.loads(body) in right
            return known[body]

        return [
            attrs.evolve(each, status=WRONG)
            if each.status == OK and not is_right(each.body)
            else each
            for each in sent
        ]


def while_it_happens(
    ask: Callable[[Sequence[float]], list[Sent]],
    happening: Callable[[], None],
    *,
    rate: float,
    seconds: float,
) -> list[Sent]:
    """Ask at a rate, for some seconds at a time, until something has happened."""
    failed: list[BaseException] = []

    def happen() -> None:
        try:
            happening()
        except BaseException as error:  # noqa: BLE001 - raised by the caller
            failed.append(error)

    thread = threading.Thread(target=happen)
    thread.start()
    sent: list[Sent] = []
    number = 0
    while not number or thread.is_alive():
        sent += ask(poisson(rate, seconds, seed=number))
        number += 1
    thread.join()
    if failed:
        raise failed[0]
    return sent


def land_a_commit(settings: Settings) -> None:
    """Commit one more dataset, filled from another one's history, and wait until it serves."""
    made = entity_features()
    connect(settings).commit(
        "one more",
        datasets=[*made.datasets, passing_rows(made.datasets[0])],
        featuresets=[made.featureset],
        tell=say,
    )


def elsewhere(happening: Callable[[Settings], None], settings: Settings, *, core: int) -> None:
    """Run one of the events in a process of its own, on a core of its own.

    Otherwise its work would delay the clients' threads, as if answers were late.
    """
    process = multiprocessing.get_context("spawn").Process(
        target=_happen, args=(happening, settings.home, core)
    )
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(f"`{happening.__name__}` failed with {process.exitcode}")


def _happen(happening: Callable[[Settings], None], home: Path, core: int) -> None:
    os.sched_setaffinity(0, {core})
    happening(load_settings({**os.environ, "NARTHEX_HOME": str(home)}))


def rewrite(settings: Settings) -> None:
    """Write the rows of some datasets anew, with a later event time, and wait for the indexes."""
    client = connect(settings)
    positions: list[str] = []
    for number in range(REWRITTEN):
        given = list(rows(number, at=AT + LATER))
        for start in range(0, len(given), ROWS_PER_CALL):
            frame = frame_of_rows(given[start : start + ROWS_PER_CALL])
            answer = client.log(WEBHOOK, endpoint(number), frame)
            positions += [] if answer is None else [answer.body["after"]]
    client.query_columns([KEY], ["Entity"], {KEY: [0]}, after=united_positions(positions))


@contextlib.contextmanager
def postgres_stopped(settings: Settings) -> Iterator[int]:
    """Stop all processes of the platform's PostgreSQL meanwhile; yield how many there are."""
    stopped = [each.pid for each in platform_processes(settings) if each.name() == POSTGRES]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield len(stopped)
    finally:
        for pid in stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def give_cores(settings: Settings, server: Contender, *, other: int) -> None:
    """Let the read process and this one use core 0, and the platform's processes `other` alone."""
    ours = {os.getpid(), *server.pids}
    for process in platform_processes(settings):
        if process.pid not in ours:
            with contextlib.suppress(psutil.Error):
                pin(process, other)
    server.pin(0)
    os.sched_setaffinity(0, {0})


@attrs.frozen(kw_only=True)
class Case:
    """The answers of a case.

    Attributes:
        during: The event; "at rest" without one.
        lasted_s: How long queries were sent.
        goodput: Right answers within the deadline, as a share of the capacity; None if the
            capacity was not asked for.
    """

    during: str
    lasted_s: float
    sent: Sequence[Sent]
    goodput: float | None = None

    def figures(self, rest: "Case") -> dict[str, object]:
        """Return the figures, beside those at rest."""
        right = [each.took_ms for each in self.sent if each.status == OK]
        at_rest = [each.took_ms for each in rest.sent if each.status == OK]
        return {
            "during": self.during,
            "seconds": round(self.lasted_s, 1),
            "queries": len(self.sent),
            "failed": len(self.sent) - len(right),
            "p50_ms": round(quantile(right, 0.50), 2),
            "p99_ms": round(quantile(right, 0.99), 2),
            "greatest_ms": round(max(right, default=float("nan")), 1),
            "p99_of_rest": round(quantile(right, 0.99) / quantile(at_rest, 0.99), 2),
            "goodput": None if self.goodput is None else round(self.goodput, 3),
            "statuses": statuses(self.sent),
        }


def disturbances(
    settings: Settings, server: Contender, *, rate: float, seconds: float, away_s: float, other: int
) -> list[Case]:
    """Ask at rest and during each event; `other` is the core that the clients do not have."""
    sender = QuerySender(server=server, keys=1, features=50)

    def ask(due: Sequence[float]) -> list[Sent]:
        return sender.ask(due, connections=4)

    def case(during: str, happening: Callable[[], None]) -> Case:
        say(f"asking {rate:.0f} times a second: {during}")
        began = time.monotonic()
        sent = while_it_happens(ask, happening, rate=rate, seconds=seconds)
        return Case(during=during, lasted_s=time.monotonic() - began, sent=sent)

    def stay_away() -> None:
        with postgres_stopped(settings) as stopped:
            say(f"stopped {stopped} processes of PostgreSQL for {away_s:.0f} s")
            time.sleep(away_s)

    ask(poisson(rate, 3.0, seed=0))
    return [
        case("at rest", lambda: None),
        case("a commit lands", lambda: elsewhere(land_a_commit, settings, core=other)),
        case(
            f"{REWRITTEN} indexes are rewritten", lambda: elsewhere(rewrite, settings, core=other)
        ),
        case(f"PostgreSQL is stopped for {away_s / 60:.0f} minutes", stay_away),
    ]


def overload(server: Contender, size: tuple[int, int], *, seconds: float) -> tuple[Case, Case]:
    """Ask for the capacity, and for more than that; return both cases."""
    sender = QuerySender(server=server, keys=size[0], features=size[1])
    name = f"{size[0]} x {size[1]}"
    rate = _capacity(sender, seconds=seconds)
    say(f"{name}: {rate:.0f} queries a second are answered")
    below = sender.ask(poisson(rate / 2, seconds, seed=1), connections=CONNECTIONS)
    above = sender.ask(poisson(rate * OVERLOAD, seconds, seed=2), connections=CONNECTIONS)
    good = [each for each in above if each.status == OK and each.took_ms <= DEADLINE_S * 1000]
    return (
        Case(during=f"{name}, half of the capacity", lasted_s=seconds, sent=below),
        Case(
            during=f"{name}, {OVERLOAD:.0f}x the capacity of {rate:.0f}/s",
            lasted_s=seconds,
            sent=above,
            goodput=len(good) / (seconds * rate),
        ),
    )


def _capacity(sender: QuerySender, *, seconds: float) -> float:
    """Return how many queries a second are answered while four are always in flight."""
    sender.ask([0.0] * ASKED, connections=BUSY)
    count = ASKED
    while True:
        began = time.perf_counter()
        sender.ask([0.0] * count, connections=BUSY, patience_s=600.0)
        took = time.perf_counter() - began
        if took >= seconds / 2:
            return count / took
        count = int(count * min(10.0, seconds / took))


def main() -> int:
    """Run; exit with 1 if an answer was wrong, or a query failed outside of the overload."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, help="the home of a running platform [a new one]")
    parser.add_argument("--rate", type=float, default=100.0, help="queries a second")
    parser.add_argument("--seconds", type=float, default=20.0, help="the duration of a case")
    parser.add_argument("--away-minutes", type=float, default=10.0, help="without PostgreSQL")
    asked = parser.parse_args()
    os.environ["NARTHEX_READS"] = "1"
    with platform(asked.home) as settings, contextlib.ExitStack() as stack:
        fill(settings)
        server = narthex(load_settings({**os.environ, "NARTHEX_HOME": str(settings.home)}))
        busy = load_average()
        other = (os.cpu_count() or 1) - 1
        give_cores(settings, server, other=other)
        cases = disturbances(
            settings,
            server,
            rate=asked.rate,
            seconds=asked.seconds,
            away_s=60 * asked.away_minutes,
            other=other,
        )
        found = [each.figures(cases[0]) for each in cases]
        stack.enter_context(everything_else_stopped(settings, server))
        os.sched_setaffinity(0, {other})
        with contextlib.suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, -20)  # a late client is not a slow answer
        for size in (SMALL, LARGE):
            below, above = overload(server, size, seconds=asked.seconds)
            found += [below.figures(below), above.figures(below)]
            cases += [below, above]
    _show(found)
    keep_raw(
        "disturbed",
        ["during", "at_s", "took_ms", "status"],
        [
            (case.during, each.at_s, each.took_ms, each.status)
            for case in cases
            for each in case.sent
        ],
    )
    ok = not any(
        each.status == WRONG or (each.status != OK and case.goodput is None)
        for case in cases
        for each in case.sent
    )
    result = {"bench": "disturbed", "result": "ok" if ok else "failed"}
    report_result("disturbed", result | {"load_average": busy, "cases": found})
    return 0 if ok else 1


def _show(found: Sequence[dict[str, object]]) -> None:
    head = ("while", "queries", "failed", "p50 ms", "p99 ms", "of rest", "goodput")
    fields = ("during", "queries", "failed", "p50_ms", "p99_ms", "p99_of_rest", "goodput")
    table = [["" if c[name] is None else str(c[name]) for name in fields] for c in found]
    title = f"targets: 0 failed, p99 <= {P99_RATIO:.0f} of rest; goodput >= {GOODPUT}"
    show(title, head, table)


if __name__ == "__main__":
    raise SystemExit(main())
