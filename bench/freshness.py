"""Measure the time until an answer of /query counts an accepted row; print a table and JSON.

    python -m bench.freshness [--home HOME] [--rows-per-s 500] [--seconds 30]

The load is an open loop (a slow platform gets no less load), half by webhook, half by a Kafka
topic. Every 25th row is a probe with its own user. The bench repeats one query for all pending
probes, and a probe is visible at the end of the first answer that counts it. So no slow probe is
left out, and the figures include the time to answer /query.

At the end every user's count and sum must be exact, or the run fails and its figures are void.
"""

import argparse
import json
import secrets
import threading
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import attrs
from confluent_kafka import KafkaError, Message, Producer

from bench.figures import keep_raw, load_average, quantile, report_result, show
from bench.payments import ENDPOINT, TOPIC, WEBHOOK
from bench.probes import Probe, last_differences
from bench.running import connect, deploy, platform, say
from narthex._formats.pandas.frames import frame_of_rows
from narthex.client import Client
from narthex.settings import Settings
from narthex_stores import platform_broker

USERS = 1_000
PROBE_EACH = 25
REFUND_EACH = 10
TICK_S = 0.02
WARM_UP_S = 3.0
SETTLE_S = 90.0
AT_ONCE = 500
TARGET_MS = {"p50": 20.0, "p99": 250.0}
COUNT, CENTS, USER = "BenchUser.count_ever", "BenchUser.cents_ever", "BenchUser.user"


@attrs.define
class Load:
    """Generates rows, and counts what each user must have at the end."""

    run: str
    expected: dict[str, tuple[int, int]] = attrs.field(factory=dict)
    made: int = 0

    def rows(self, count: int) -> Iterator[tuple[dict[str, object], bool]]:
        """Generate the next rows, each with whether it is a probe."""
        for number in range(self.made, self.made + count):
            is_probe = number % PROBE_EACH == 0
            user = f"{self.run}-p{number}" if is_probe else f"{self.run}-{number * 7919 % USERS}"
            cents = 0 if not is_probe and number % REFUND_EACH == 1 else 1 + number % 9_999
            if cents:
                rows, total = self.expected.get(user, (0, 0))
                self.expected[user] = (rows + 1, total + cents)
            yield {"user": user, "cents": cents, "paid_at": _now()}, is_probe
        self.made += count


class Sender:
    """Sends rows at an even pace, however slow the platform is."""

    def __init__(self, settings: Settings, load: Load, *, by: str) -> None:
        """Open a separate connection: by `webhook` or by `kafka`."""
        self._by = by
        self._load = load
        self._client = connect(settings)
        self._producer = Producer({**platform_broker(settings).config(), "linger.ms": 1})
        self.probes: list[Probe] = []
        self.failed: list[str] = []
        self.latest_s = 0.0

    def run(self, rows_per_s: float, seconds: float) -> None:
        """Send for `seconds`; return when the last row is accepted."""
        began = time.monotonic()
        sent = 0
        while sent < int(rows_per_s * seconds):
            due = min(int(rows_per_s * seconds), int((time.monotonic() - began) * rows_per_s) + 1)
            if due > sent:
                self.latest_s = max(self.latest_s, (due - sent) / rows_per_s)
                self._send(due - sent)
                sent = due
            self._producer.poll(0)
            time.sleep(TICK_S)
        self._producer.flush(30)

    def _send(self, count: int) -> None:
        rows, probes = [], []
        for row, is_probe in self._load.rows(count):
            rows.append(row)
            if is_probe:
                probes.append(Probe(user=str(row["user"]), by=self._by, sent=time.monotonic()))
                if self._by == "kafka":
                    self._produce(row, probes[-1])
            elif self._by == "kafka":
                self._produce(row, None)
        if self._by == "webhook":
            self._client.log(WEBHOOK, ENDPOINT, frame_of_rows(rows))
            for probe in probes:
                probe.accepted = time.monotonic()
        self.probes += probes

    def _produce(self, row: dict[str, object], probe: Probe | None) -> None:
        def done(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                self.failed.append(str(error))
            elif probe is not None:
                probe.accepted = time.monotonic()

        self._producer.produce(TOPIC, json.dumps(row).encode(), on_delivery=done)


def watch(client: Client, senders: Sequence[Sender], stop: threading.Event) -> None:
    """Query all pending probes repeatedly until the stop event."""
    places = [0] * len(senders)
    waiting: list[Probe] = []
    while not stop.is_set():
        for number, sender in enumerate(senders):
            known = len(sender.probes)
            waiting += sender.probes[places[number] : known]
            places[number] = known
        if not waiting:
            time.sleep(0.001)
            continue
        counts = ask(client, [probe.user for probe in waiting], [COUNT])[COUNT]
        answered = time.monotonic()
        for probe, count in zip(waiting, counts, strict=True):
            if count:
                probe.visible = answered
        waiting = [probe for probe in waiting if probe.visible is None]


def ask(client: Client, users: Sequence[str], outputs: Sequence[str]) -> dict[str, list[object]]:
    """Query features of users as of now."""
    answers, _ = client.query_columns([USER], list(outputs), {USER: list(users)})
    return answers


def is_exact(client: Client, expected: dict[str, tuple[int, int]]) -> bool:
    """Wait until every user's figures are exact; false if they differ or time runs out."""
    users = sorted(expected)

    def find() -> list[str]:
        found = totals(client, users)
        return [
            f"{user}: {found[user]}, not {expected[user]}"
            for user in users
            if found[user] != expected[user]
        ]

    differing = last_differences(find, within_s=SETTLE_S)
    if differing:
        say(f"{len(differing)} of {len(users)} users differ (rows, cents), such as")
        for one in differing[:5]:
            say(f"  {one}")
    return not differing


def totals(client: Client, users: Sequence[str]) -> dict[str, tuple[object, object]]:
    """Query each user's count and sum."""
    found: dict[str, tuple[object, object]] = {}
    for start in range(0, len(users), AT_ONCE):
        some = users[start : start + AT_ONCE]
        answers = ask(client, some, [COUNT, CENTS])
        pairs = zip(answers[COUNT], answers[CENTS], strict=True)
        found |= dict(zip(some, pairs, strict=True))
    return found


def measure(settings: Settings, *, rows_per_s: float, seconds: float) -> dict[str, object]:
    """Measure on a platform that serves; return the figures."""
    load = [Load(run=f"{secrets.token_hex(4)}{by}") for by in ("webhook", "kafka")]
    senders = [
        Sender(settings, one, by=by) for one, by in zip(load, ("webhook", "kafka"), strict=True)
    ]
    stop = threading.Event()
    client = connect(settings)
    watcher = threading.Thread(target=watch, args=(client, senders, stop), daemon=True)
    watcher.start()
    began = time.monotonic()
    threads = [
        threading.Thread(target=sender.run, args=(rows_per_s / 2, seconds)) for sender in senders
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sending_s = time.monotonic() - began
    exact = is_exact(
        connect(settings), {user: n for one in load for user, n in one.expected.items()}
    )
    stop.set()
    watcher.join(10)
    probes = [probe for sender in senders for probe in sender.probes]
    return _figures(probes, began) | {
        "rows_per_s": round(sum(one.made for one in load) / sending_s, 1),
        "rows": sum(one.made for one in load),
        "refused": [reason for sender in senders for reason in sender.failed[:3]],
        "behind_s": round(max(sender.latest_s for sender in senders), 2),
        "exact": exact,
    }


def _figures(probes: Sequence[Probe], began: float) -> dict[str, object]:
    raw = [(probe.by, probe.sent - began, probe.accepting_ms, probe.fresh_ms) for probe in probes]
    path = keep_raw("freshness", ("by", "sent_s", "accepting_ms", "freshness_ms"), raw)
    warm = [one for one in raw if one[1] >= WARM_UP_S]
    figures: dict[str, object] = {"probes": len(warm), "raw": path}
    figures["missed"] = sum(one[3] is None for one in raw)
    for name, ways in (
        ("", ("webhook", "kafka")),
        ("webhook_", ("webhook",)),
        ("kafka_", ("kafka",)),
    ):
        fresh = [one[3] for one in warm if one[0] in ways and one[3] is not None]
        for label, p in (("p50", 0.50), ("p95", 0.95), ("p99", 0.99), ("max", 1.0)):
            figures[f"{name}{label}_ms"] = round(quantile(fresh, p), 1)
    return figures


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")


def _show(figures: dict[str, object]) -> None:
    rows = [
        (way or "both", *(str(figures[f"{name}{p}_ms"]) for p in ("p50", "p95", "p99", "max")))
        for way, name in (("", ""), ("webhook", "webhook_"), ("Kafka", "kafka_"))
    ]
    target = ("target", str(TARGET_MS["p50"]), "-", str(TARGET_MS["p99"]), "-")
    show(
        f"freshness, ms from accepted to visible; {figures['rows_per_s']} rows/s",
        ("by", "p50", "p95", "p99", "max"),
        [*rows, target],
    )


def main() -> int:
    """Run; exit with 1 if a count is wrong or a probe never became visible."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, help="the home of a running platform [a new one]")
    parser.add_argument("--rows-per-s", type=float, default=500.0)
    parser.add_argument("--seconds", type=float, default=30.0)
    asked = parser.parse_args()
    with platform(asked.home) as settings:
        commit_s = deploy(settings)
        say(f"serving after {commit_s:.1f} s; sending for {asked.seconds:g} s")
        busy = load_average()
        figures = measure(settings, rows_per_s=asked.rows_per_s, seconds=asked.seconds)
    _show(figures)
    ok = bool(figures["exact"]) and not figures["missed"] and not figures["refused"]
    result = {"bench": "freshness", "result": "ok" if ok else "failed", **figures}
    result |= {"commit_s": round(commit_s, 1), "load_average": busy, "target_ms": TARGET_MS}
    report_result("freshness", result)
    return 0 if ok else 1


if __name__ == "__main__":
    raise SystemExit(main())
