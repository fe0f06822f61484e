"""Measure answers of /query beside Feast's feature server; print a table and JSON.

    python -m bench.serving [--home HOME] [--seconds 3] [--stores redis sqlite]

25 datasets of 10 integers and 10,000 keys, which came in through the webhook; a query names 1, 10
or 100 keys and 50 or 250 features. One read process of Narthex, and one worker of Feast's server on
Redis and on SQLite, answer the same queries in turn, each on the same core; the clients have the
other one. All other processes of the platform are stopped (SIGSTOP) meanwhile, which no answer may
notice. Closed loops of one and of four clients; then an open loop at the highest rate that Feast
reached, with exponential gaps. The answers of all are compared first; a wrong one is void.

CPU is that of the serving process and its children, and of Redis for Feast on Redis.
"""

import argparse
import contextlib
import json
import os
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from http.client import HTTPConnection
from pathlib import Path
from random import Random  # noqa: TID251 - seeded below
from typing import Final

import attrs
import psutil

from bench.entity_features import (
    KEY,
    KEYS,
    WEBHOOK,
    column_name,
    columns,
    endpoint,
    entity_features,
    rows,
    value_of,
)
from bench.figures import keep_raw, load_average, quantile, report_result, show
from bench.peers import feast_python
from bench.resources import MIB
from bench.running import connect, pin, platform, platform_processes, say
from narthex._formats.pandas.frames import frame_of_rows
from narthex.settings import Settings, load_settings

OK: Final = 200
POINTS: Final = tuple((keys, features) for keys in (1, 10, 100) for features in (50, 250))
CLIENTS: Final = (1, 4)
ROWS_PER_CALL: Final = 5_000
FILL_S: Final = 300.0
START_S: Final = 600.0
WARM_UP_S: Final = 0.5
FIRST_KEY: Final = 17


@attrs.frozen(kw_only=True)
class Contender:
    """A server that answers the bench's queries.

    Attributes:
        pids: The processes whose CPU time counts, with their children.
        questions: The body of a query, by the number of keys and features.
    """

    name: str
    port: int
    path: str
    headers: Mapping[str, str]
    pids: Sequence[int]
    questions: Mapping[tuple[int, int], bytes]

    def cpu_s(self) -> float:
        """Return the CPU time of its processes so far."""
        times = (process.cpu_times() for process in self._processes())
        return sum(each.user + each.system for each in times)

    def memory_mib(self) -> float:
        """Return the proportional set size of its processes."""
        return sum(process.memory_full_info().pss for process in self._processes()) / MIB

    def pin(self, core: int) -> None:
        """Let its processes run on one core only."""
        for process in self._processes():
            pin(process, core)

    def _processes(self) -> list[psutil.Process]:
        parents = [psutil.Process(pid) for pid in self.pids]
        return [*parents, *(child for each in parents for child in each.children(recursive=True))]


@attrs.define
class Loop:
    """One client: a connection with at most one query in flight."""

    contender: Contender
    body: bytes
    took_ms: list[float] = attrs.field(factory=list)
    failed: int = 0

    def closed(self, ends_at: float) -> None:
        """Query without a pause until an instant."""
        with contextlib.closing(_open(self.contender)) as connection:
            while (began := time.perf_counter()) < ends_at:
                self._ask(connection, began)

    def opened(self, due: Sequence[float]) -> None:
        """Query at these instants; a query that could not be sent in time counts its wait."""
        with contextlib.closing(_open(self.contender)) as connection:
            for instant in due:
                time.sleep(max(0.0, instant - time.perf_counter()))
                self._ask(connection, instant)

    def _ask(self, connection: HTTPConnection, began: float) -> None:
        status, _ = _answer(connection, self.contender, self.body)
        self.took_ms.append((time.perf_counter() - began) * 1000)
        self.failed += status != OK


def _open(contender: Contender) -> HTTPConnection:
    connection = HTTPConnection("127.0.0.1", contender.port)
    connection.connect()
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _answer(connection: HTTPConnection, contender: Contender, body: bytes) -> tuple[int, bytes]:
    connection.request("POST", contender.path, body, dict(contender.headers))
    response = connection.getresponse()
    return response.status, response.read()


def narthex(settings: Settings) -> Contender:
    """Return the read process of a platform."""
    (process,) = (
        each
        for each in psutil.process_iter(["cmdline"])
        if "narthex_server.reads" in (each.info["cmdline"] or ())
        and each.environ().get("NARTHEX_HOME") == str(settings.home)
    )
    return Contender(
        name="Narthex",
        port=int(settings.reads_url.rpartition(":")[2]),
        path="/api/v1/query",
        headers={"Authorization": f"Bearer {settings.token}", "Content-Type": "application/json"},
        pids=[process.pid],
        questions={
            (keys, features): json.dumps(
                {
                    "inputs": [KEY],
                    "outputs": [f"Entity.{column_name(*each)}" for each in columns(features)],
                    "data": {KEY: _keys(keys)},
                }
            ).encode()
            for keys, features in POINTS
        },
    )


@contextlib.contextmanager
def feast(store: str) -> Iterator[Contender]:
    """Run Feast's server on a store, `redis` or `sqlite`."""
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="feast-bench-")))
        address, pids = "sqlite", []
        if store == "redis":
            port = _free_port()
            command = ["redis-server", "--port", str(port), "--save", "", "--appendonly", "no"]
            pids.append(stack.enter_context(_running(command, directory / "redis.log")))
            address = f"127.0.0.1:{port}"
        port = _free_port()
        (directory / "port").write_text(str(port))
        script = Path(__file__).parent / "contenders" / "feast_store.py"
        command = [str(feast_python()), str(script), str(directory), address]
        pids.append(stack.enter_context(_running(command, directory / "feast.log")))
        _wait_for(port, directory / "feast.log")
        yield Contender(
            name=f"Feast, {store}",
            port=port,
            path="/get-online-features",
            headers={"Content-Type": "application/json"},
            pids=pids,
            questions={
                (keys, features): json.dumps(
                    {
                        "features": [
                            f"Group{number}:{column_name(number, column)}"
                            for number, column in columns(features)
                        ],
                        "entities": {"entity_id": _keys(keys)},
                    }
                ).encode()
                for keys, features in POINTS
            },
        )


@contextlib.contextmanager
def _running(command: Sequence[str], log: Path) -> Iterator[int]:
    with log.open("wb") as output:
        child = subprocess.Popen(command, stdout=output, stderr=output, cwd=log.parent)
    try:
        yield child.pid
    finally:
        child.terminate()
        child.wait(30)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _wait_for(port: int, log: Path) -> None:
    ends_at = time.monotonic() + START_S
    while time.monotonic() < ends_at:
        try:
            socket.create_connection(("127.0.0.1", port), 1.0).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise SystemExit(f"a server did not start: {log.read_text()[-2000:]}")


def _keys(count: int) -> list[int]:
    return list(range(FIRST_KEY, FIRST_KEY + count))


def is_right(contender: Contender, point: tuple[int, int]) -> bool:
    """Return whether a contender answers a query with the values that were written."""
    keys, features = point
    with contextlib.closing(_open(contender)) as connection:
        status, body = _answer(connection, contender, contender.questions[point])
    if status != OK:
        raise SystemExit(f"{contender.name} answers {status}: {body[:500]!r}")
    answer = json.loads(body)
    if contender.name == "Narthex":
        found = {name.rpartition(".")[2]: values for name, values in answer.items()}
    else:
        names = answer["metadata"]["feature_names"]
        found = dict(zip(names, (each["values"] for each in answer["results"]), strict=True))
    return all(
        found[column_name(*each)] == [value_of(key, *each) for key in _keys(keys)]
        for each in columns(features)
    )


def closed_loop(
    contender: Contender, point: tuple[int, int], clients: int, *, seconds: float
) -> dict[str, object]:
    """Let clients query without a pause; return the figures."""
    body = contender.questions[point]
    _run([Loop(contender, body)], time.perf_counter() + WARM_UP_S)
    loops = [Loop(contender, body) for _ in range(clients)]
    cpu, began = contender.cpu_s(), time.perf_counter()
    _run(loops, began + seconds)
    return _figures(contender, point, loops, contender.cpu_s() - cpu, time.perf_counter() - began)


def _run(loops: Sequence[Loop], ends_at: float) -> None:
    threads = [threading.Thread(target=loop.closed, args=(ends_at,)) for loop in loops]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def open_loop(
    contender: Contender, point: tuple[int, int], rate: float, *, seconds: float
) -> dict[str, object]:
    """Query at random instants with a mean rate, by as many clients as may be needed."""
    seed = point[0] * 1000 + point[1]
    rng = Random(seed)  # noqa: S311 - instants, no secrets
    at, due = time.perf_counter() + 0.2, list[float]()
    began = at
    while at < began + seconds:
        at += rng.expovariate(rate)
        due.append(at)
    loops = [Loop(contender, contender.questions[point]) for _ in range(max(CLIENTS))]
    threads = [
        threading.Thread(target=loop.opened, args=(due[number :: len(loops)],))
        for number, loop in enumerate(loops)
    ]
    cpu = contender.cpu_s()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return _figures(contender, point, loops, contender.cpu_s() - cpu, time.perf_counter() - began)


def _figures(
    contender: Contender, point: tuple[int, int], loops: Sequence[Loop], cpu: float, wall: float
) -> dict[str, object]:
    took = [each for loop in loops for each in loop.took_ms]
    values = len(took) * point[0] * point[1]
    return {
        "server": contender.name,
        "keys": point[0],
        "features": point[1],
        "clients": len(loops),
        "p50_ms": round(quantile(took, 0.50), 3),
        "p99_ms": round(quantile(took, 0.99), 3),
        "rps": round(len(took) / wall, 1),
        "cpu_ms": round(1000 * cpu / max(len(took), 1), 3),
        "cpu_ms_per_1000_values": round(1e6 * cpu / max(values, 1), 2),
        "failed": sum(loop.failed for loop in loops),
    }


def fill(settings: Settings) -> None:
    """Commit the definitions, push all rows, and wait until the last ones are visible."""
    made = entity_features()
    client = connect(settings)
    client.commit("serving", datasets=list(made.datasets), featuresets=[made.featureset], tell=say)
    say(f"pushing the rows of {len(made.datasets)} datasets")
    for number in range(len(made.datasets)):
        given = list(rows(number))
        for start in range(0, len(given), ROWS_PER_CALL):
            frame = frame_of_rows(given[start : start + ROWS_PER_CALL])
            client.log(WEBHOOK, endpoint(number), frame)
    ends_at = time.monotonic() + FILL_S
    last = {KEY: [KEYS - 1]}
    while time.monotonic() < ends_at:
        answers, _ = client.query_columns([KEY], ["Entity"], last)
        if all(
            answers[f"Entity.{column_name(*each)}"] == [value_of(last[KEY][0], *each)]
            for each in columns(10_000)
        ):
            return
        time.sleep(1.0)
    raise SystemExit(f"the rows are not visible after {FILL_S:.0f} s")


@contextlib.contextmanager
def everything_else_stopped(settings: Settings, ours: Contender) -> Iterator[None]:
    """Stop all other processes of the platform (SIGSTOP) meanwhile."""
    kept = {*ours.pids, os.getpid()}
    for pid in ours.pids:
        kept |= {child.pid for child in psutil.Process(pid).children(recursive=True)}
    stopped: list[int] = []
    for process in platform_processes(settings):
        if process.pid not in kept:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGSTOP)
                stopped.append(process.pid)
    try:
        yield
    finally:
        for pid in stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def measure(contenders: Sequence[Contender], *, seconds: float) -> list[dict[str, object]]:
    """Measure all points on all contenders in turn."""
    found: list[dict[str, object]] = []
    for contender in contenders:
        contender.pin(0)
    os.sched_setaffinity(0, {(os.cpu_count() or 1) - 1})
    for point in POINTS:
        for contender in contenders:
            if not is_right(contender, point):
                raise SystemExit(f"{contender.name} answers {point} wrongly")
        closed = [
            closed_loop(contender, point, clients, seconds=seconds)
            for clients in CLIENTS
            for contender in contenders
        ]
        peers = [float(str(case["rps"])) for case in closed if case["server"] != contenders[0].name]
        rate = max(peers, default=0.0)
        opened = [
            open_loop(contender, point, rate, seconds=seconds)
            for contender in (contenders if rate else ())
        ]
        found += [{"loop": "closed", **case} for case in closed]
        found += [{"loop": "open", **case} for case in opened]
        say(f"measured {point[0]} keys x {point[1]} features")
    return found


def _show(cases: Sequence[dict[str, object]]) -> None:
    head = ("keys x features, loop", "server", "p50 ms", "p99 ms", "rps", "CPU ms", "per 1,000")
    fields = ("server", "p50_ms", "p99_ms", "rps", "cpu_ms", "cpu_ms_per_1000_values")
    table = [
        (
            f"{c['keys']} x {c['features']}, {c['loop']} {c['clients']}",
            *(str(c[name]) for name in fields),
        )
        for c in cases
    ]
    show("answers of features; CPU ms per 1,000 values", head, table)


def main() -> int:
    """Run; exit with 1 if a query failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, help="the home of a running platform [a new one]")
    parser.add_argument("--seconds", type=float, default=3.0, help="the duration of each case")
    parser.add_argument("--stores", nargs="*", default=["redis", "sqlite"], help="of Feast")
    asked = parser.parse_args()
    os.environ["NARTHEX_READS"] = "1"
    with platform(asked.home) as settings, contextlib.ExitStack() as stack:
        fill(settings)
        ours = narthex(load_settings({**os.environ, "NARTHEX_HOME": str(settings.home)}))
        is_right(ours, POINTS[0])
        peers = [stack.enter_context(feast(store)) for store in asked.stores]
        busy = load_average()
        stack.enter_context(everything_else_stopped(settings, ours))
        cases = measure([ours, *peers], seconds=asked.seconds)
        memory = {each.name: round(each.memory_mib()) for each in [ours, *peers]}
    _show(cases)
    raw = keep_raw("serving", list(cases[0]), [tuple(case.values()) for case in cases])
    ok = not any(case["failed"] for case in cases)
    result = {"bench": "serving", "result": "ok" if ok else "failed", "raw": raw}
    report_result("serving", result | {"load_average": busy, "memory_mib": memory, "cases": cases})
    return 0 if ok else 1


if __name__ == "__main__":
    raise SystemExit(main())
