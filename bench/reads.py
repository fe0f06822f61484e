"""Measure an answer of /query beside a bare server that answers a constant; print a table and JSON.

    python -m bench.reads [--home HOME] [--seconds 3]

Closed loop: each of one or two clients has one query in flight, of 1, 10 or 100 rows and 5 or 15
features. The floor is one uvicorn process with the same bytes in and out and the same clients in
the same run. The bench checks the answers first; a wrong result is void.
"""

import argparse
import http.client
import json
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import attrs

from bench.figures import keep_raw, load_average, quantile, report_result, show
from bench.freshness import CENTS, COUNT, USER, is_exact
from bench.payments import ENDPOINT, WEBHOOK
from bench.running import connect, deploy, platform, say
from narthex._formats.pandas.frames import frame_of_rows
from narthex.settings import Settings

USERS = 500
ROWS_EACH = 8
LOOKED_UP = ("count_1h", "count_1d", "count_ever", "cents_1h", "cents_ever")
FEATURES = {
    5: tuple(f"BenchUser.{name}" for name in LOOKED_UP),
    15: ("BenchUser",),
}
OK = 200
WARM_UP_S = 0.5


@attrs.frozen(kw_only=True)
class Case:
    """One kind of query."""

    rows: int
    features: int
    principals: int


@attrs.define
class QueryLoop:
    """One connection with one query in flight at a time."""

    url: str
    headers: dict[str, str]
    body: bytes
    took_ms: list[float] = attrs.field(factory=list)
    wrong: int = 0

    def run(self, ends_at: float) -> None:
        """Query until the deadline."""
        address = urlsplit(self.url)
        connection = http.client.HTTPConnection(str(address.hostname), address.port)
        connection.connect()
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while time.perf_counter() < ends_at:
            began = time.perf_counter()
            connection.request("POST", "/api/v1/query", self.body, self.headers)
            answer = connection.getresponse()
            answer.read()
            self.took_ms.append((time.perf_counter() - began) * 1000)
            self.wrong += answer.status != OK
        connection.close()


def fill(settings: Settings) -> tuple[list[str], bool]:
    """Push rows of new users and wait until they are visible; return the users, and if exact."""
    run = secrets.token_hex(4)
    expected = {f"{run}-{user}": (0, 0) for user in range(USERS)}
    client = connect(settings)
    for number in range(ROWS_EACH):
        rows = []
        for place, user in enumerate(expected):
            cents = 1 + place * ROWS_EACH + number
            now = datetime.now(UTC).isoformat(timespec="microseconds")
            rows.append({"user": user, "cents": cents, "paid_at": now})
            count, total = expected[user]
            expected[user] = (count + 1, total + cents)
        client.log(WEBHOOK, ENDPOINT, frame_of_rows(rows))
    return list(expected), is_exact(client, expected)


def question(users: Sequence[str], case: Case) -> bytes:
    """Render a query of the first users."""
    data = {USER: list(users[: case.rows])}
    body = {"inputs": [USER], "outputs": list(FEATURES[case.features]), "data": data}
    return json.dumps(body).encode()


def closed_loop(
    url: str, body: bytes, case: Case, *, token: str, seconds: float
) -> list[QueryLoop]:
    """Let all clients query for `seconds`; return them with the time of each query."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    principals = [QueryLoop(url=url, headers=headers, body=body) for _ in range(case.principals)]
    ends_at = time.perf_counter() + seconds
    threads = [threading.Thread(target=principal.run, args=(ends_at,)) for principal in principals]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return principals


@contextmanager
def floor() -> Iterator[str]:
    """Run the bare server meanwhile; yield its URL."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = int(found.getsockname()[1])
    command = [sys.executable, "-m", "uvicorn", "bench.floor:app", "--port", str(port)]
    child = subprocess.Popen([*command, "--log-level", "warning", "--no-access-log"])
    try:
        _wait_until_open(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        child.terminate()
        child.wait(10)


def _wait_until_open(port: int) -> None:
    ends_at = time.monotonic() + 20.0
    while time.monotonic() < ends_at:
        try:
            socket.create_connection(("127.0.0.1", port), 1.0).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise SystemExit("the floor did not start")


def call(url: str, verb: str, body: bytes, *, token: str) -> bytes:
    """Make one call and return the answer's bytes."""
    address = urlsplit(url)
    connection = http.client.HTTPConnection(str(address.hostname), address.port)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    connection.request(verb, "/api/v1/query", body, headers)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    if answer.status != OK:
        raise SystemExit(f"/query answered {answer.status}: {content[:500]!r}")
    return content


def measure(settings: Settings, users: Sequence[str], *, seconds: float) -> list[dict[str, object]]:
    """Measure every case on Narthex and the floor by turns; return a row of figures each."""
    found: list[dict[str, object]] = []
    raw: list[tuple[object, ...]] = []
    token = settings.token
    with floor() as bare:
        for case in _cases():
            body = question(users, case)
            call(bare, "PUT", call(settings.server_url, "POST", body, token=token), token=token)
            timed: dict[str, list[QueryLoop]] = {}
            for name, url in (("ours", settings.server_url), ("floor", bare)):
                closed_loop(url, body, case, token=token, seconds=WARM_UP_S)
                timed[name] = closed_loop(url, body, case, token=token, seconds=seconds)
                raw += [
                    (name, *attrs.astuple(case), round(took, 4))
                    for principal in timed[name]
                    for took in principal.took_ms
                ]
            found.append(_figures(case, timed, seconds=seconds))
    keep_raw("reads", ("server", "rows", "features", "askers", "took_ms"), raw)
    return found


def _cases() -> Iterator[Case]:
    for principals in (1, 2):
        for features in FEATURES:
            for rows in (1, 10, 100):
                yield Case(rows=rows, features=features, principals=principals)


def _figures(case: Case, timed: dict[str, list[QueryLoop]], *, seconds: float) -> dict[str, object]:
    figures: dict[str, object] = attrs.asdict(case)
    for name, principals in timed.items():
        took = [one for principal in principals for one in principal.took_ms]
        figures[f"{name}_rps"] = round(len(took) / seconds, 1)
        for label, p in (("p50", 0.50), ("p95", 0.95), ("p99", 0.99)):
            figures[f"{name}_{label}_ms"] = round(quantile(took, p), 2)
    ours = [one for principal in timed["ours"] for one in principal.took_ms]
    bare = [one for principal in timed["floor"] for one in principal.took_ms]
    figures["times_floor_p50"] = round(quantile(ours, 0.50) / quantile(bare, 0.50), 2)
    figures["wrong"] = sum(
        principal.wrong for principals in timed.values() for principal in principals
    )
    return figures


def _show(cases: Sequence[dict[str, object]]) -> None:
    head = ("askers, rows, features", "p50", "p95", "p99", "rps", "floor p50", "floor rps", "times")
    ours = ("ours_p50_ms", "ours_p95_ms", "ours_p99_ms", "ours_rps")
    fields = (*ours, "floor_p50_ms", "floor_rps", "times_floor_p50")
    rows = [
        (f"{c['askers']}, {c['rows']}, {c['features']}", *(str(c[name]) for name in fields))
        for c in cases
    ]
    show("/query, ms, closed loop; times: how many times the floor at p50", head, rows)


def main() -> int:
    """Run; exit with 1 if an answer is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, help="the home of a running platform [a new one]")
    parser.add_argument("--seconds", type=float, default=3.0, help="the duration of each case")
    asked = parser.parse_args()
    cases: list[dict[str, object]] = []
    with platform(asked.home) as settings:
        say(f"serving after {deploy(settings):.1f} s; filling {USERS} users")
        users, exact = fill(settings)
        busy = load_average()
        if exact:
            cases = measure(settings, users, seconds=asked.seconds)
            _show(cases)
        else:
            say(f"{COUNT} or {CENTS} is wrong; nothing was measured")
    ok = exact and not any(case["wrong"] for case in cases)
    result = {"bench": "reads", "result": "ok" if ok else "failed", "exact": exact}
    report_result("reads", result | {"load_average": busy, "cases": cases})
    return 0 if ok else 1


if __name__ == "__main__":
    raise SystemExit(main())
