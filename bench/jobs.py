"""Measure many live jobs in one driver: freshness, cores, memory; print tables and JSON.

    python -m bench.jobs                       # 50 expression streams, a row a second each
    python -m bench.jobs --code                # 5 streams with Python, 500 rows a second together
    python -m bench.jobs --join                # the same with an as-of join

Rows arrive by Kafka in an open loop, one topic per stream. A probe is a row with its own user (each
row, or with `--code` and `--join` each 25th), and is visible at the end of the first answer of
/query that counts it. The bench reads the resources of the processes at both ends of the measured
time. At the end every user's count must be exact, or the run fails and its figures are void.

Before the load the platform rests: when many jobs are new, they restart with longer intervals, one
per second. `--rest 0` measures freshness meanwhile.
"""

import argparse
import json
import secrets
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import attrs
import pandas as pd
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.figures import keep_raw, load_average, quantile, report_result, show
from bench.probes import Probe, last_differences
from bench.resources import Resources, held
from bench.running import connect, platform, say
from bench.streams import (
    ENDPOINT,
    KNOWN,
    UNKNOWN,
    Currencies,
    Kind,
    Streams,
    streams,
    webhook,
)
from narthex.client import Client
from narthex.settings import Settings
from narthex_spark_apps.jobs.application import STAGE_RUNNER
from narthex_stores import platform_broker

DRIVER = ("org.apache.spark.deploy.SparkSubmit", "narthex_spark_apps.jobs.driver")
STAGES = (STAGE_RUNNER,)
USERS = 100
PROBE_EACH = 25
TICK_S = 0.01
WARM_UP_S = 10.0
SETTLE_S = 60.0
AT_ONCE = 500
TARGETS = {
    Kind.PLAIN: {"p99_ms": 150.0, "driver_cores": 1.0, "driver_mib": 2048.0},
    Kind.CODE: {"p50_ms": 60.0, "p99_ms": 300.0},
    Kind.JOIN: {"p50_ms": 60.0, "p99_ms": 300.0},
}


class Load:
    """Sends to all streams in turn, at an even pace, however slow the platform is."""

    def __init__(self, settings: Settings, topics: Sequence[str], *, probe_each: int) -> None:
        """Open a producer; `expected` counts the sent rows by stream and user."""
        self._producer = Producer({**platform_broker(settings).config(), "linger.ms": 1})
        self._topics = topics
        self._numbers = {topic: number for number, topic in enumerate(topics)}
        self._probe_each = probe_each
        self._run = secrets.token_hex(4)
        self.expected: dict[tuple[int, str], int] = {}
        self.probes: list[Probe] = []
        self.failed: list[str] = []
        self.latest_s = 0.0
        self.made = 0

    def send(self, rows_per_s: float, seconds: float) -> None:
        """Send for `seconds`; return when the last row is acknowledged."""
        began = time.monotonic()
        wanted = int(rows_per_s * seconds)
        while self.made < wanted:
            due = min(wanted, int((time.monotonic() - began) * rows_per_s) + 1)
            self.latest_s = max(self.latest_s, (due - self.made) / rows_per_s)
            while self.made < due:
                self._send_one()
            self._producer.poll(0)
            time.sleep(TICK_S)
        self._producer.flush(30)

    def stream_of(self, probe: Probe) -> int:
        """Return the number of a probe's stream."""
        return self._numbers[probe.by]

    def _send_one(self) -> None:
        number, self.made = self.made, self.made + 1
        stream, turn = number % len(self._topics), number // len(self._topics)
        is_probe = turn % self._probe_each == 0
        user = f"{self._run}-{'p' if is_probe else 'u'}{turn if is_probe else turn % USERS}"
        cents = turn % 10 if not is_probe else 1
        if cents:
            self.expected[stream, user] = self.expected.get((stream, user), 0) + 1
        sent = time.monotonic()
        probe = Probe(user=user, by=self._topics[stream], sent=sent) if is_probe else None
        if probe is not None:
            self.probes.append(probe)
        row = {
            "user": user,
            "cents": cents,
            "currency": KNOWN if cents else UNKNOWN,
            "paid_at": datetime.now(UTC).isoformat(),
        }

        def done(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                self.failed.append(str(error))
            elif probe is not None:
                probe.accepted = time.monotonic()

        self._producer.produce(self._topics[stream], json.dumps(row).encode(), on_delivery=done)


def watch(client: Client, made: Streams, load: Load, stop: threading.Event) -> None:
    """Query all pending probes, of all their streams in one query."""
    known = 0
    waiting: list[Probe] = []
    while not stop.is_set():
        come = len(load.probes)
        waiting += load.probes[known:come]
        known = come
        if not waiting:
            time.sleep(0.001)
            continue
        users = sorted({probe.user for probe in waiting})
        answers = _ask(client, made, users, sorted({load.stream_of(probe) for probe in waiting}))
        answered = time.monotonic()
        for probe in waiting:
            if answers[load.stream_of(probe), probe.user]:
                probe.visible = answered
        waiting = [probe for probe in waiting if probe.visible is None]


def _ask(
    client: Client, made: Streams, users: Sequence[str], numbers: Sequence[int]
) -> dict[tuple[int, str], object]:
    outputs = [made.seen(number) for number in numbers]
    answers, _ = client.query_columns([made.user], outputs, {made.user: list(users)})
    return {
        (number, user): count
        for number, output in zip(numbers, outputs, strict=True)
        for user, count in zip(users, answers[output], strict=True)
    }


def _wrong(client: Client, made: Streams, expected: dict[tuple[int, str], int]) -> Iterator[str]:
    for number in sorted({number for number, _ in expected}):
        users = sorted(user for stream, user in expected if stream == number)
        for start in range(0, len(users), AT_ONCE):
            answers = _ask(client, made, users[start : start + AT_ONCE], [number])
            for place, count in answers.items():
                if count != expected[place]:
                    yield f"stream {number}, {place[1]}: {count}, not {expected[place]}"


def deploy(settings: Settings, made: Streams) -> float:
    """Commit the streams and wait until they serve; return the seconds that it took."""
    admin = AdminClient({**platform_broker(settings).config()})
    there = admin.list_topics(timeout=10).topics
    new = [NewTopic(topic, 1, 1) for topic in made.topics if topic not in there]
    for created in (admin.create_topics(new) if new else {}).values():
        created.result(30)
    began = time.monotonic()
    client = connect(settings)
    client.commit(
        "many streams", datasets=list(made.datasets), featuresets=[made.featureset], tell=say
    )
    if Currencies in made.datasets:
        long_ago = datetime(2020, 1, 1, tzinfo=UTC)
        known = [{"currency": KNOWN, "digits": 2, "known_at": long_ago}]
        client.log(webhook.name, ENDPOINT, pd.DataFrame(known))
    return time.monotonic() - began


@attrs.frozen(kw_only=True)
class ResourceSnapshot:
    """The resources of the processes at an instant of the monotonic clock."""

    at: float
    roles: dict[str, Resources]


def look(home: Path) -> ResourceSnapshot:
    """Measure all processes of a platform."""
    return ResourceSnapshot(at=time.monotonic(), roles=held(home))


def measure(
    settings: Settings, made: Streams, *, rows_per_s: float, seconds: float, kind: Kind
) -> dict[str, object]:
    """Measure on a platform that serves the streams; return the figures."""
    load = Load(settings, made.topics, probe_each=1 if kind is Kind.PLAIN else PROBE_EACH)
    stop = threading.Event()
    watcher = threading.Thread(
        target=watch, args=(connect(settings), made, load, stop), daemon=True, name="asker"
    )
    sender = threading.Thread(
        target=load.send, args=(rows_per_s, WARM_UP_S + seconds), daemon=True, name="sender"
    )
    began = time.monotonic()
    watcher.start()
    sender.start()
    time.sleep(WARM_UP_S)
    first = look(settings.home)
    sender.join()
    last = look(settings.home)
    client = connect(settings)
    wrong = last_differences(lambda: list(_wrong(client, made, load.expected)), within_s=SETTLE_S)
    stop.set()
    watcher.join(10)
    return _freshness(load.probes, began, f"jobs_{kind}") | {
        "jobs": _jobs(settings),
        "driver": _held(first, last, DRIVER),
        "stage_runner": _held(first, last, STAGES),
        "all": _held(first, last, tuple(last.roles)),
        "rows": load.made,
        "refused": load.failed[:3],
        "behind_s": round(load.latest_s, 2),
        "wrong": wrong[:5],
    }


def _freshness(probes: Sequence[Probe], began: float, name: str) -> dict[str, object]:
    raw = [(probe.by, round(probe.sent - began, 3), probe.fresh_ms) for probe in probes]
    fresh = [ms for _, sent, ms in raw if sent >= WARM_UP_S and ms is not None]
    figures: dict[str, object] = {
        f"{label}_ms": round(quantile(fresh, p), 1)
        for label, p in (("p50", 0.50), ("p95", 0.95), ("p99", 0.99), ("max", 1.0))
    }
    return figures | {
        "probes": len(fresh),
        "missed": sum(ms is None for _, _, ms in raw),
        "raw": keep_raw(name, ("topic", "sent_s", "freshness_ms"), raw),
    }


def _held(
    first: ResourceSnapshot, last: ResourceSnapshot, roles: Sequence[str]
) -> dict[str, float]:
    spent = sum(_cpu_s(last, role) - _cpu_s(first, role) for role in roles)
    memory = sum(last.roles[role].memory_mib for role in roles if role in last.roles)
    return {"cores": round(spent / (last.at - first.at), 3), "mib": round(memory)}


def _cpu_s(seen_at: ResourceSnapshot, role: str) -> float:
    return seen_at.roles[role].cpu_s if role in seen_at.roles else 0.0


def _jobs(settings: Settings) -> dict[str, int]:
    """Count running jobs and feeds by process: the driver, the stage runner, or a writer."""
    jobs = connect(settings).read("jobs")["jobs"]
    if not isinstance(jobs, list):
        raise TypeError("the server lists no jobs")
    running = (job for job in jobs if isinstance(job, dict) and job["desired"] == "running")
    return dict(Counter(str(job["trigger"] or "feed") for job in running))


def _show(figures: Mapping[str, object], targets: Mapping[str, float], title: str) -> None:
    names = ("p50_ms", "p95_ms", "p99_ms", "max_ms")
    show(
        title,
        ("", *names),
        [
            ("seen", *(str(figures[name]) for name in names)),
            ("target", *(str(targets.get(name, "-")) for name in names)),
        ],
    )
    held_by = [
        (who, str(found["cores"]), str(found["mib"]))
        for who in ("driver", "stage_runner", "all")
        if isinstance(found := figures[who], dict)
    ]
    limits = [str(targets.get(name, "-")) for name in ("driver_cores", "driver_mib")]
    show("what they held", ("", "cores", "MiB"), [*held_by, ("target of the driver", *limits)])


def main() -> int:
    """Run; exit with 1 if a count is wrong or a probe never became visible."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, help="the home of a running platform [a new one]")
    kinds = parser.add_mutually_exclusive_group()
    for one, what in ((Kind.CODE, "use Python"), (Kind.JOIN, "join with a keyed dataset")):
        kinds.add_argument(
            f"--{one}",
            dest="kind",
            action="store_const",
            const=one,
            default=Kind.PLAIN,
            help=f"{what} in each pipeline",
        )
    parser.add_argument("--streams", type=int, help="the number of streams [50, or 5]")
    parser.add_argument("--rows-per-s", type=float, help="rows per second of all [50, or 500]")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument(
        "--rest", type=float, default=120.0, help="seconds to wait before the load [120]"
    )
    asked = parser.parse_args()
    kind: Kind = asked.kind
    is_plain = kind is Kind.PLAIN
    count = asked.streams or (50 if is_plain else 5)
    rows_per_s = asked.rows_per_s or (float(count) if is_plain else 500.0)
    made = streams(count, kind)
    with platform(asked.home) as settings:
        commit_s = deploy(settings, made)
        say(f"serving after {commit_s:.1f} s; resting for {asked.rest:g} s")
        time.sleep(asked.rest)
        say(f"sending for {WARM_UP_S + asked.seconds:g} s")
        busy = load_average()
        figures = measure(
            settings,
            made,
            rows_per_s=rows_per_s,
            seconds=asked.seconds,
            kind=kind,
        )
    targets = TARGETS[kind]
    _show(figures, targets, f"{count} streams, {rows_per_s:g} rows/s, ms to visible")
    ok = not any(figures[name] for name in ("wrong", "missed", "refused"))
    result = {"bench": "jobs", "result": "ok" if ok else "failed", "streams": count, **figures}
    result |= {
        "kind": kind,
        "commit_s": round(commit_s, 1),
        "rest_s": asked.rest,
        "load_average": busy,
    }
    report_result(f"jobs_{kind}", result | {"target": targets})
    return 0 if ok else 1


if __name__ == "__main__":
    raise SystemExit(main())
