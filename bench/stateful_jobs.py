"""Measure stateful jobs: deduplication, a join of keyed rows, sessions; print a table and JSON.

    python -m bench.stateful_jobs [--rows 40000]

Each job runs as a live stage does, with its state on disk and its output in a topic of a real
broker. Reports rows per CPU-second of this process, from the records of the input to the durable
output; reading the input from the broker is not included. The rows of the output are compared with
a computation by hand; a wrong job has no figure.
"""

import argparse
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import attrs

from bench.broker_jobs import PARTITIONS, broker_settings, create_topics, job_of
from bench.figures import load_average, report_result, show
from bench.running import say
from bench.visits import DATASETS
from narthex._formats import key_encoder, keyed_row_id
from narthex._formats.avro import fact_codec
from narthex._ir import (
    Cell,
    Fact,
    LogShape,
    LogSpec,
    RowId,
    Trigger,
    Version,
    position,
)
from narthex_spark_apps.pipelines.spark_plan import PipelineJob
from narthex_spark_apps.platform import gc_tuning
from narthex_spark_apps.stateful import StatefulStage
from narthex_stack.servers.local_servers import kafka_broker
from narthex_stores import LogReader, Record

BATCH = 2_000
"""Records per batch, as a stage under load takes them."""
USERS, PLANS, PAGES = 2_000, 50, 7
BURST = 5
"""Visits of a session."""
SECOND_US = 1_000_000
GAP_US = 60 * SECOND_US

Row = tuple[int, tuple[Cell, ...], tuple[Cell, ...]]
"""The event time, key and values of a row."""


@attrs.frozen(kw_only=True)
class Workload:
    """The input of one job, and what its output must be.

    Attributes:
        rows: The rows of each dataset that the job reads, in the order of their arrival.
        expected: The rows of the output, in any order.
    """

    dataset: str
    rows: Sequence[tuple[str, Row]]
    expected: Sequence[Row]


def deduplication(count: int) -> Workload:
    """Return visits of which each arrives twice."""
    visits = [_visit(number // 2) for number in range(count)]
    return Workload(
        dataset="UniqueVisits", rows=[("Visits", visit) for visit in visits], expected=visits[::2]
    )


def sessions(count: int) -> Workload:
    """Return visits in bursts of five, each burst a session of its user that grows by visits."""
    visits = [_visit(number) for number in range(count)]
    expected: list[Row] = []
    for number, (at, _, (user, _page)) in enumerate(visits):
        first, _, _ = visits[number - number % BURST]
        window = {"begin": first, "end": at + 1}
        expected.append((at, (user, window), (number % BURST + 1,)))
    return Workload(
        dataset="VisitSessions", rows=[("Visits", visit) for visit in visits], expected=expected
    )


def keyed_join(count: int) -> Workload:
    """Return the prices of all plans, then changes of the plans of users."""
    prices: dict[Cell, Cell] = {f"plan-{number}": 100 + number for number in range(PLANS)}
    accounts: list[tuple[int, Cell, Cell]] = [
        ((number + 1) * SECOND_US, f"user-{number % USERS}", f"plan-{number * 7 % PLANS}")
        for number in range(count)
    ]
    plans = [("Plans", (0, (plan,), (price,))) for plan, price in prices.items()]
    return Workload(
        dataset="PricedAccounts",
        rows=[*plans, *(("Accounts", (at, (user,), (plan,))) for at, user, plan in accounts)],
        expected=[(at, (user,), (plan, prices[plan])) for at, user, plan in accounts],
    )


def _visit(number: int) -> Row:
    """Return a visit: each user has bursts of five visits, a second apart, every ten minutes."""
    burst, step = divmod(number, BURST)
    turn, user = divmod(burst, USERS)
    at = turn * 10 * GAP_US + step * SECOND_US
    return at, (), (f"user-{user}", number % PAGES)


def stateful_job(dataset: str) -> PipelineJob:
    """Compile the job of a dataset."""
    job = job_of(DATASETS, dataset)
    if job.spec.trigger is not Trigger.STATEFUL:
        raise SystemExit(f"the job of `{dataset}` has no state")
    return job


def measure(bootstrap: str, home: Path, workload: Workload) -> dict[str, object]:
    """Run the job on its input; return its figures."""
    job = stateful_job(workload.dataset)
    logs = {one.dataset: one.log for one in job.spec.inputs}
    records = _records(job, logs, workload.rows)
    stage = StatefulStage(
        job, settings=broker_settings(home, bootstrap), checkpoint=home / workload.dataset, epoch=1
    )
    began, before = time.monotonic(), time.process_time()
    for start in range(0, len(records), BATCH):
        stage.take(records[start : start + BATCH])
    spent, wall = time.process_time() - before, time.monotonic() - began
    stage.close()
    found = _standing_rows(bootstrap, job)
    return {
        "job": workload.dataset,
        "rows": len(records),
        "ok": sorted(found, key=repr) == sorted(workload.expected, key=repr),
        "rows_per_cpu_s": round(len(records) / spent),
        "cpu_s": round(spent, 2),
        "wall_s": round(wall, 2),
    }


def _records(
    job: PipelineJob, logs: Mapping[str, LogSpec], rows: Iterable[tuple[str, Row]]
) -> list[Record]:
    """Render rows as the records of their logs."""
    records: list[Record] = []
    for offset, (dataset, row) in enumerate(rows):
        fact = _fact(logs[dataset], dataset, offset, row)
        value = fact_codec(logs[dataset]).encode(fact)
        topic = job.asset.need(f"input:{dataset}").physical_name
        records.append(Record(topic, offset % PARTITIONS, offset, 0, None, value, ()))
    return records


def _fact(log: LogSpec, dataset: str, offset: int, row: Row) -> Fact:
    at, key, values = row
    place = position(f"bench:{dataset}", 0, offset)
    if log.shape is LogShape.KEYED:
        row_id, version = keyed_row_id(key_encoder(log.keys)(key), at), Version(place)
    else:
        row_id, version = RowId(place), Version(b"\x00")
    return Fact(row_id=row_id, version=version, event_time=at, key=key, values=values)


def _standing_rows(bootstrap: str, job: PipelineJob) -> list[Row]:
    """Return the rows of the output."""
    topic = job.asset.need("output").physical_name
    newest: dict[RowId, Fact] = {}
    with LogReader(bootstrap) as reader:
        ends = reader.end_offsets([topic])
        reader.assign(dict.fromkeys(ends, 0))
        while any(reader.positions[place] < end for place, end in ends.items()):
            records = reader.poll(max_records=BATCH, timeout_s=1.0)
            for fact in fact_codec(job.spec.log).decode_many([r.value or b"" for r in records]):
                known = newest.get(fact.row_id)
                if known is None or known.version <= fact.version:
                    newest[fact.row_id] = fact
    return [(fact.event_time, fact.key, fact.values) for fact in newest.values() if fact.alive]


def main() -> int:
    """Run all jobs; exit with 1 if the output of one is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=40_000)
    rows = parser.parse_args().rows
    busy = load_average()
    # The runner of live stages does it too.
    gc_tuning.tune_gc()
    results: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as name, kafka_broker(Path(name) / "broker") as bootstrap:
        workloads = [make(rows) for make in (deduplication, keyed_join, sessions)]
        create_topics(bootstrap, [stateful_job(workload.dataset) for workload in workloads])
        for workload in workloads:
            say(workload.dataset)
            results.append(measure(bootstrap, Path(name), workload))
    names = ("job", "rows", "ok", "rows_per_cpu_s", "cpu_s", "wall_s")
    show("stateful jobs", names, [[str(result[name]) for name in names] for result in results])
    ok = all(result["ok"] for result in results)
    outcome = "ok" if ok else "failed"
    report_result(
        "stateful_jobs",
        {"bench": "stateful_jobs", "result": outcome, "load_average": busy, "jobs": results},
    )
    return 0 if ok else 1


if __name__ == "__main__":
    raise SystemExit(main())
