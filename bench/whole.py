"""Measure the whole way: Kafka source, two pipelines, index and history; print a table and JSON.

    python -m bench.whole [--home HOME] [--rows 300000] [--users 20000] [--cold]

The bench writes rows to the source's topic as fast as the broker accepts them, and the platform,
which runs live meanwhile, drains it. It reports CPU seconds of each kind of process from the first
row until every user's count and sum is exact; otherwise the run has no figures. Unless `--cold` is
given, the same rows of other users come first, so that the JVMs have compiled their code.
`throughput` measures the index writer alone, compared with others.
"""

import argparse
import json
import secrets
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import psutil
from confluent_kafka import Producer

from bench.figures import load_average, report_result, show
from bench.freshness import totals
from bench.payments import TOPIC
from bench.resources import held
from bench.running import connect, deploy, platform, say
from narthex.settings import Settings
from narthex_stores import platform_broker

SETTLE_S = 600.0
ASKED = 200
FULL = 100_000
"""The greatest number of messages in the producer's queue."""


def measure(settings: Settings, *, rows: int, users: int) -> dict[str, object]:
    """Measure on a platform that serves; return the figures."""
    run = secrets.token_hex(4)
    expected: dict[str, tuple[int, int]] = {}
    before = _cpu_s(settings.home)
    began = time.monotonic()
    producer = Producer(
        {**platform_broker(settings).config(), "linger.ms": 20, "compression.type": "lz4"}
    )
    for user, cents in _rows(run, rows, users):
        seen, total = expected.get(user, (0, 0))
        expected[user] = seen + 1, total + cents
        row = {"user": user, "cents": cents, "paid_at": datetime.now(UTC).isoformat()}
        producer.produce(TOPIC, json.dumps(row).encode())
        if len(producer) > FULL:
            producer.poll(1)
    producer.flush(60)
    produced_s = time.monotonic() - began
    say(f"{rows} rows are in the topic after {produced_s:.1f} s")
    exact = _until_exact(settings, expected)
    wall_s = time.monotonic() - began
    after = _cpu_s(settings.home)
    spent = {role: round(after[role] - before.get(role, 0.0), 2) for role in after}
    return {
        "rows": rows,
        "users": users,
        "exact": exact,
        "produced_s": round(produced_s, 1),
        "wall_s": round(wall_s, 1),
        "cpu_s": {role: s for role, s in spent.items() if s > 0},
        "rows_per_cpu_s": round(rows / sum(spent.values())),
    }


def _rows(run: str, rows: int, users: int) -> Iterator[tuple[str, int]]:
    for number in range(rows):
        yield f"{run}-{number * 7919 % users}", 1 + number % 9_999


def _until_exact(settings: Settings, expected: dict[str, tuple[int, int]]) -> bool:
    """Wait until some users are exact, then check all."""
    client = connect(settings)
    users = sorted(expected)
    some = users[:: max(1, len(users) // ASKED)]
    ends_at = time.monotonic() + SETTLE_S
    while time.monotonic() < ends_at:
        found = totals(client, some)
        if all(found[user] == expected[user] for user in some):
            return all(found == expected[user] for user, found in totals(client, users).items())
        time.sleep(1.0)
    return False


def _cpu_s(home: Path) -> dict[str, float]:
    """Return the CPU seconds of each kind of running process."""
    return {role: of.cpu_s for role, of in held(home).items()}


def main() -> int:
    """Run; exit with 1 if a count is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, help="the home of a running platform [a new one]")
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--users", type=int, default=20_000)
    parser.add_argument("--cold", action="store_true", help="measure the first rows")
    asked = parser.parse_args()
    with platform(asked.home) as settings:
        say(f"serving after {deploy(settings):.1f} s; on {psutil.cpu_count()} cores")
        if not asked.cold:
            measure(settings, rows=asked.rows, users=asked.users)
        busy = load_average()
        figures = measure(settings, rows=asked.rows, users=asked.users)
    spent = figures["cpu_s"]
    if not isinstance(spent, dict):
        raise TypeError("no process was seen")
    rows = sorted(((s, role) for role, s in spent.items()), reverse=True)
    show(
        f"{asked.rows} rows in {figures['wall_s']} s, {figures['rows_per_cpu_s']} rows/CPU-s",
        ("process", "CPU s", "rows/CPU-s"),
        [(role, f"{s:.1f}", f"{asked.rows / s:,.0f}") for s, role in rows],
    )
    ok = bool(figures["exact"])
    result = {"bench": "whole", "result": "ok" if ok else "failed", "cold": asked.cold, **figures}
    report_result("whole", result | {"load_average": busy})
    return 0 if ok else 1


if __name__ == "__main__":
    raise SystemExit(main())
