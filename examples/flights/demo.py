"""`make demo`: the whole path on real data; verifies that online and offline answers are equal.

Starts the platform, commits the features through Airflow, fills January to November from files,
replays December live, asks online while rows flow, then asks the same offline and compares.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from typing import TypeAlias

import attrs
import psutil
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from examples.flights import features
from examples.flights.data import Flights, prepare
from examples.flights.questions import INPUTS, OUTPUT, Prober, Querier, QueryLog, count_unequal
from examples.flights.replay import TOPICS, Replay
from narthex.client import Client
from narthex.settings import Settings, home_of, load_settings
from narthex_stores import platform_broker

ROWS_PER_S = float(os.environ.get("NARTHEX_DEMO_ROWS_PER_S", "250"))
SETTLE_S = 60.0
DATASETS = [
    features.Departures,
    features.Weather,
    features.Planes,
    features.Conditions,
    features.OriginDelays,
    features.CarrierDelays,
    features.TailnumHistory,
]

Answers: TypeAlias = dict[str, list[object]]

story = Console(stderr=True)


@attrs.define
class Memory:
    """The greatest resident set of the whole platform, sampled; shared pages count once."""

    home: str
    peak_mib: float = 0.0

    def watch(self, stop: threading.Event) -> None:
        """Sample until the stop event."""
        while not stop.wait(5.0):
            self.peak_mib = max(self.peak_mib, self._sample_mib())

    def _sample_mib(self) -> float:
        total = 0
        for process in psutil.process_iter():
            try:
                if process.environ().get("NARTHEX_HOME") == self.home:
                    total += process.memory_full_info().pss
            except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
                continue
        return total / 2**20


def start_platform() -> Settings:
    """Start everything and wait until it is healthy; a second call finds it running."""
    home = home_of(os.environ)
    environment = {
        **os.environ,
        "NARTHEX_HOME": str(home),
        "NARTHEX_FILES_ROOT": str(home / "files"),
    }
    os.environ.update(environment)
    subprocess.run([sys.executable, "-m", "narthex.cli", "up"], check=True, env=environment)
    return load_settings()


def make_topics(settings: Settings) -> None:
    """Create the topics of the outside world, into which other services write."""
    admin = AdminClient({**platform_broker(settings).config()})
    there = admin.list_topics(timeout=10).topics
    wanted = [
        NewTopic(topic, num_partitions=2, replication_factor=1)
        for topic in TOPICS.values()
        if topic not in there
    ]
    for future in (admin.create_topics(wanted) if wanted else {}).values():
        future.result(30)


def commit(client: Client) -> float:
    """Commit the features and wait until they serve; return the seconds that it took."""
    began = time.monotonic()
    client.commit(
        message="flights about to depart",
        datasets=DATASETS,
        featuresets=[features.AboutToDepart],
    )
    return time.monotonic() - began


@attrs.frozen(kw_only=True)
class Live:
    """The result of the replay."""

    replay: Replay
    querier: Querier
    prober: Prober
    seconds: float


def replay_december(settings: Settings, flights: Flights) -> Live:
    """Send December, and meanwhile query features and measure freshness."""
    replay = Replay(
        client=_client(settings),
        kafka=platform_broker(settings),
        rows=flights.december,
        rows_per_s=ROWS_PER_S,
    )
    querier = Querier(_client(settings), replay)
    prober = Prober(_client(settings), replay, flights.departures_of)
    stop = threading.Event()
    threads = [
        threading.Thread(target=worker.run, args=(stop,), daemon=True)
        for worker in (querier, prober)
    ]
    began = time.monotonic()
    bar = Progress(
        TextColumn("replaying December"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[clock]}"),
        TimeElapsedColumn(),
        console=story,
    )
    with bar:
        task = bar.add_task("rows", total=len(flights.december), clock="")
        for thread in threads:
            thread.start()
        replay.run(progress=lambda sent: bar.update(task, completed=sent, clock=replay.clock))
    seconds = time.monotonic() - began
    stop.set()
    for thread in threads:
        thread.join(SETTLE_S)
    return Live(replay=replay, querier=querier, prober=prober, seconds=seconds)


def _client(settings: Settings) -> Client:
    return Client(settings.server_url, settings.token)


def settle(client: Client) -> None:
    """Wait until every job and feed has drained its topics."""
    ends_at = time.monotonic() + SETTLE_S
    quiet = 0
    while quiet < 3:  # noqa: PLR2004 - reports come in turns
        jobs = client.read("jobs")["jobs"]
        running = [j for j in jobs if j["desired"] == "running"]
        behind = [j for j in running if j["phase"] != "caught_up" or j["behind"]]
        quiet = 0 if behind else quiet + 1
        if time.monotonic() > ends_at:
            story.print(f"[yellow]still behind: {[j['label'] for j in behind]}")
            return
        time.sleep(1.0)


def query_offline(client: Client, log: QueryLog) -> tuple[Answers, Answers]:
    """Repeat every logged query offline: at the offsets that it had read, and without them."""
    count = len(log.as_of)
    spine: dict[str, list[object]] = {name: 2 * cells for name, cells in log.columns.items()}
    spine |= {"as_of": [*log.as_of, *log.as_of], "offsets": [*log.offsets, *[""] * count]}
    cells_of = client.query_offline_columns(
        list(INPUTS), [OUTPUT], spine, timestamp_column="as_of", offsets_column="offsets"
    )
    return (
        {name: cells[:count] for name, cells in cells_of.items()},
        {name: cells[count:] for name, cells in cells_of.items()},
    )


def main() -> int:
    """Run the demo; exit with 0 only if all answers are equal."""
    began = time.monotonic()
    settings = start_platform()
    client = _client(settings)
    stop = threading.Event()
    memory = Memory(home=str(settings.home))
    threading.Thread(target=memory.watch, args=(stop,), daemon=True).start()
    flights = prepare(settings.files_root)
    make_topics(settings)
    commit_s = commit(client)
    live = replay_december(settings, flights)
    settle(client)
    then, now = query_offline(client, live.querier.log)
    unequal, shown = count_unequal(live.querier.log.answers, then)
    later, _ = count_unequal(live.querier.log.answers, now)
    stop.set()
    datasets = client.read("datasets")["datasets"]
    result = {
        "rows_in": {d["name"]: d["rows"] for d in datasets},
        "rows_quarantined": {d["name"]: d["quarantined"] or 0 for d in datasets},
        "rows_replayed": {"webhook": live.replay.by_webhook, "kafka": live.replay.by_kafka},
        "answers_compared": len(live.querier.log.as_of),
        "answers_unequal": unequal,
        "answers_changed_by_later_rows": later,
        "freshness_p50_ms": _quantile(live.prober.freshness_ms, 0.50),
        "freshness_p99_ms": _quantile(live.prober.freshness_ms, 0.99),
        "freshness_probes": len(live.prober.freshness_ms),
        "freshness_probes_missed": live.prober.missed,
        "query_p50_ms": _quantile(live.querier.took_ms, 0.50),
        "query_p99_ms": _quantile(live.querier.took_ms, 0.99),
        "commit_s": round(commit_s, 1),
        "peak_memory_mib": round(memory.peak_mib),
        "total_s": round(time.monotonic() - began, 1),
    }
    show(result, settings, shown)
    if os.environ.get("CI") == "true":
        subprocess.run([sys.executable, "-m", "narthex.cli", "down"], check=True)
    print(json.dumps(result))
    compared = len(live.querier.log.as_of)
    return 0 if compared and not unequal and not live.prober.missed else 1


def _quantile(values: list[float], p: float) -> float | None:
    if not values:
        return None
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, int(p * len(ordered)))], 1)


def show(result: dict[str, object], settings: Settings, differences: list[str]) -> None:
    """Print a summary for people."""
    table = Table(title="Flights: January to November from files, December live", show_header=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    for name, value in result.items():
        shown = (
            "  ".join(f"{k} {v:,}" for k, v in value.items() if v is not None)
            if isinstance(value, dict)
            else f"{value:,}"
            if isinstance(value, int)
            else str(value)
        )
        table.add_row(name.replace("_", " "), shown)
    story.print(table)
    for difference in differences:
        story.print(f"[red]{difference}")
    secrets = f"{settings.home}/services.json"
    story.print(
        f"Airflow   {settings.airflow_url}  ({settings.airflow_user}, password in {secrets})"
    )
    story.print(f"console   {settings.server_url}/console  (token in {secrets})")
    story.print("stop with `make down`")


if __name__ == "__main__":
    argparse.ArgumentParser(
        prog="python -m examples.flights.demo",
        description="Start the platform, run the flights example and leave the platform running.",
    ).parse_args()
    raise SystemExit(main())
