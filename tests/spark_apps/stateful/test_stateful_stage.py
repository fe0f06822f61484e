"""The stage of a stateful job on a real broker: restarts, repetitions and what a crash left."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import attrs
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from typing_extensions import override

from narthex._formats.avro.codec import fact_codec
from narthex._formats.keys import key_bytes, keyed_row_id
from narthex._ir.aggregate_specs import Count, Sum
from narthex._ir.assets import PipelineInput, Trigger
from narthex._ir.facts import TOMBSTONE_TIME, Cell, Fact, RowId, Version, position
from narthex._ir.operators import Aggregate, DatasetRef, Union
from narthex._ir.schema import Field, Role, Schema
from narthex._ir.types import Datetime, Float, Int, Str, Struct, StructField
from narthex._ir.windows import Session
from narthex.settings import Settings, environment_of
from narthex_spark_apps.jobs.start import checkpoint_of, start_query
from narthex_spark_apps.pipelines.spark_plan import PipelineJob
from narthex_spark_apps.stateful import StatefulStage
from narthex_spark_apps.stateful.stage import LAYOUT
from narthex_spark_apps.storage.snapshots import STATE, snapshots_of
from narthex_stores import IndexFenced, JobState, LogProducer, LogReader, Record, StoreError
from tests.spark_apps.conftest import Log
from tests.spark_apps.spark_jobs import (
    checkpoint_need,
    live,
    log_of,
    pipeline_job,
    topic_need,
    wait_caught_up,
)

pytestmark = [pytest.mark.kafka]

SECOND = 1_000_000
GAP = Session(gap=10 * SECOND)
SPAN = Struct("Window", (StructField("begin", Datetime()), StructField("end", Datetime())))
VISITS = Schema(
    (
        Field(name="who", type=Str()),
        Field(name="spent", type=Float()),
        Field(name="at", type=Datetime(), role=Role.TIMESTAMP),
    )
)
STAYS = Schema(
    (
        Field(name="who", type=Str(), role=Role.KEY),
        Field(name="window", type=SPAN, role=Role.KEY),
        Field(name="visits", type=Int()),
        Field(name="spent", type=Float()),
        Field(name="at", type=Datetime(), role=Role.TIMESTAMP),
    )
)
STEPS = Aggregate(
    DatasetRef("Visits"),
    ("who",),
    (Count(into="visits", window=GAP), Sum(into="spent", window=GAP, of="spent")),
    window=GAP,
)


@pytest.fixture
def job(log: Log, platform: Settings, tmp_path: Path) -> PipelineJob:
    """Return a job that gathers visits into stays."""
    (platform.checkpoint_dir / "job").mkdir(parents=True)
    return pipeline_job(
        STEPS,
        inputs=(PipelineInput(dataset="Visits", log=log_of(VISITS), schema=VISITS),),
        schema=STAYS,
        needs=(
            topic_need("input:Visits", log.topic("visits", partitions=2), log=log_of(VISITS)),
            topic_need("output", log.topic("stays", partitions=2), log=log_of(STAYS)),
            checkpoint_need(tmp_path / "job"),
        ),
        trigger=Trigger.STATEFUL,
    )


def visit(number: int, who: str, at: int, *, version: int = 0, alive: bool = True) -> Fact:
    place = position("visits", 0, number)
    return Fact(
        row_id=RowId(place),
        version=Version(bytes([version])),
        event_time=at * SECOND,
        key=(),
        values=(who, 1.5) if alive else (None, None),
        alive=alive,
    )


def send(log: Log, job: PipelineJob, *facts: Fact) -> None:
    codec = fact_codec(log_of(VISITS))
    for fact in facts:
        log.send(job.input_topic, codec.encode(fact), fact.row_id)


def read(platform: Settings, topic: str) -> list[Record]:
    """Return all records of a topic."""
    records: list[Record] = []
    with LogReader(platform.kafka) as reader:
        ends = reader.end_offsets([topic])
        reader.assign(dict.fromkeys(ends, 0))
        while any(reader.positions[place] < end for place, end in ends.items()):
            records += reader.poll(max_records=100, timeout_s=0.2)
    return records


def told(platform: Settings, job: PipelineJob) -> list[Fact]:
    """Return everything that the job has emitted."""
    codec = fact_codec(job.spec.log)
    return codec.decode_many([record.value or b"" for record in read(platform, job.output)])


def standing(facts: Sequence[Fact]) -> dict[tuple[str, int, int], tuple[Cell, ...]]:
    """Return the current rows: by person, begin and end of the stay, the newest version."""
    newest: dict[RowId, Fact] = {}
    for fact in facts:
        known = newest.get(fact.row_id)
        if known is None or known.version < fact.version:
            newest[fact.row_id] = fact
    found: dict[tuple[str, int, int], tuple[Cell, ...]] = {}
    for fact in sorted(newest.values(), key=lambda fact: fact.event_time):
        who, window = fact.key
        if fact.event_time == TOMBSTONE_TIME or not isinstance(window, dict):
            continue
        place = (str(who), _whole(window, "begin"), _whole(window, "end"))
        found.pop(place, None)
        if fact.alive:
            found[place] = fact.values
    return found


def _whole(window: Mapping[str, Cell], name: str) -> int:
    instant = window[name]
    assert isinstance(instant, int)
    return instant // SECOND


def test_a_late_row_merges_two_sessions_and_retracts_them(
    log: Log, platform: Settings, job: PipelineJob
) -> None:
    send(log, job, visit(1, "ann", 100), visit(2, "ann", 116), visit(3, "bob", 100))
    with live(job, platform) as running:
        wait_caught_up(running, 3)
        assert standing(told(platform, job)) == {
            ("ann", 100, 100): (1, 1.5),
            ("ann", 116, 116): (1, 1.5),
            ("bob", 100, 100): (1, 1.5),
        }
        send(log, job, visit(4, "ann", 108))
        wait_caught_up(running, 4)

    found = told(platform, job)
    assert standing(found) == {("ann", 100, 116): (3, 4.5), ("bob", 100, 100): (1, 1.5)}
    assert any(fact.event_time == TOMBSTONE_TIME for fact in found)


def test_a_restart_continues_and_repetitions_emit_nothing(
    log: Log, platform: Settings, job: PipelineJob
) -> None:
    rows = (visit(1, "ann", 100), visit(2, "ann", 105))
    send(log, job, *rows)
    with live(job, platform) as running:
        wait_caught_up(running, 2)
    count = len(told(platform, job))
    send(log, job, *rows)
    with live(job, platform) as running:
        wait_caught_up(running, 4)

    assert standing(told(platform, job)) == {("ann", 100, 105): (2, 3.0)}
    assert len(told(platform, job)) == count


def test_a_row_that_is_retracted_splits_a_stay(
    log: Log, platform: Settings, job: PipelineJob
) -> None:
    send(log, job, visit(1, "ann", 100), visit(2, "ann", 108), visit(3, "ann", 116))
    send(log, job, visit(2, "ann", 108, version=1, alive=False))
    with live(job, platform) as running:
        wait_caught_up(running, 4)

    assert standing(told(platform, job)) == {
        ("ann", 100, 100): (1, 1.5),
        ("ann", 116, 116): (1, 1.5),
    }


def test_pending_output_is_emitted_first_after_a_crash(
    log: Log, platform: Settings, job: PipelineJob
) -> None:
    directory = checkpoint_of(job.asset, platform) / STATE
    fact = Fact(
        row_id=keyed_row_id(key_bytes(STAYS.keys, ("ann", {"begin": 0, "end": 1})), 0),
        version=Version(b"1"),
        event_time=0,
        key=("ann", {"begin": 0, "end": 1}),
        values=(1, 1.5),
    )
    value = fact_codec(job.spec.log).encode(fact)
    crashed = JobState(directory, epoch=1)
    crashed.run(lambda batch: batch.post([(b"key", value)]))
    crashed.close()

    stage = StatefulStage(
        job, settings=platform, checkpoint=checkpoint_of(job.asset, platform), epoch=2
    )
    stage.close()

    assert log.records(job.output, count=1) == [(b"key", value)]
    state = JobState(directory, epoch=2)
    assert state.outbox() == []
    state.close()


def test_a_run_of_an_earlier_epoch_is_refused(platform: Settings, job: PipelineJob) -> None:
    checkpoint = checkpoint_of(job.asset, platform)
    StatefulStage(job, settings=platform, checkpoint=checkpoint, epoch=2).close()

    with pytest.raises(IndexFenced, match="epoch 2"):
        StatefulStage(job, settings=platform, checkpoint=checkpoint, epoch=1)


@pytest.mark.spark
def test_a_live_run_continues_the_state_of_a_backfill_on_spark(
    log: Log, platform: Settings, job: PipelineJob, spark: SparkSession
) -> None:
    send(log, job, visit(1, "ann", 100), visit(2, "bob", 100))
    start_query(spark, job.asset, settings=platform, bounded=True, epoch=1).awaitTermination()

    send(log, job, visit(3, "ann", 109))
    with live(job, platform, epoch=2) as running:
        wait_caught_up(running, 3)

    assert standing(told(platform, job)) == {
        ("ann", 100, 109): (2, 3.0),
        ("bob", 100, 100): (1, 1.5),
    }


@pytest.mark.spark
def test_a_backfill_that_is_repeated_on_spark_changes_nothing(
    log: Log, platform: Settings, job: PipelineJob, spark: SparkSession
) -> None:
    send(log, job, visit(1, "ann", 100), visit(2, "bob", 100))
    start_query(spark, job.asset, settings=platform, bounded=True, epoch=1).awaitTermination()
    before = told(platform, job)
    # Spark reads everything again without its own checkpoint; the state skips what it contains.
    shutil.rmtree(checkpoint_of(job.asset, platform) / "backfill")
    start_query(spark, job.asset, settings=platform, bounded=True, epoch=2).awaitTermination()

    assert told(platform, job) == before


@pytest.mark.spark
def test_a_backfill_of_an_earlier_epoch_is_refused_on_spark(
    log: Log, platform: Settings, job: PipelineJob, spark: SparkSession
) -> None:
    send(log, job, visit(1, "ann", 100))
    checkpoint = checkpoint_of(job.asset, platform)
    StatefulStage(job, settings=platform, checkpoint=checkpoint, epoch=2).close()

    query = start_query(spark, job.asset, settings=platform, bounded=True, epoch=1)
    with pytest.raises(PySparkException, match="epoch 2"):
        query.awaitTermination()


def lose(state: Path) -> None:
    """Delete a state."""
    shutil.rmtree(state)


def lay_out_differently(state: Path) -> None:
    """Mark a state as one of an earlier release, whose rows cannot be read."""
    opened = JobState(state, epoch=1)
    opened.run(lambda batch: batch.lay_out(LAYOUT - 1))
    opened.close()


@pytest.mark.parametrize("spoil", [lose, lay_out_differently])
def test_a_lost_state_is_rebuilt_and_obsolete_rows_are_retracted(
    spoil: Callable[[Path], None], log: Log, platform: Settings, job: PipelineJob
) -> None:
    send(log, job, visit(1, "ann", 100), visit(2, "bob", 100))
    with live(job, platform) as running:
        wait_caught_up(running, 2)
    spoil(checkpoint_of(job.asset, platform) / STATE)
    send(log, job, visit(3, "ann", 105), visit(2, "bob", 100, version=1, alive=False))
    with live(job, platform, epoch=2) as running:
        wait_caught_up(running, 4)

    assert standing(told(platform, job)) == {("ann", 100, 105): (2, 3.0)}


class FailingProducer(LogProducer):
    """A producer whose process ends as soon as it is to append something."""

    @override
    def post(self, topic: str, *, key: bytes, value: bytes) -> None:
        """Fail."""
        raise StoreError(f"the process ended before it appended to `{topic}`")


def test_obsolete_rows_are_retracted_after_a_crash_on_the_last_record(
    log: Log, platform: Settings, job: PipelineJob
) -> None:
    checkpoint = checkpoint_of(job.asset, platform)
    send(log, job, visit(1, "ann", 100), visit(2, "bob", 100))
    with live(job, platform) as running:
        wait_caught_up(running, 2)
    shutil.rmtree(checkpoint / STATE)
    send(log, job, visit(3, "ann", 105), visit(2, "bob", 100, version=1, alive=False))
    crashed = StatefulStage(job, settings=platform, checkpoint=checkpoint, epoch=2)
    crashed._producer.close()  # noqa: SLF001
    crashed._producer = FailingProducer(platform.kafka)  # noqa: SLF001
    with pytest.raises(StoreError, match="ended before"):
        crashed.take(read(platform, job.input_topic))
    crashed.close()

    # Nothing more arrives: the restart alone retracts what the lost state had emitted.
    StatefulStage(job, settings=platform, checkpoint=checkpoint, epoch=3).close()

    assert standing(told(platform, job)) == {("ann", 100, 105): (2, 3.0)}


def test_a_restored_state_converges_to_the_lost_one(
    log: Log, platform: Settings, job: PipelineJob, tmp_path: Path
) -> None:
    state = checkpoint_of(job.asset, platform) / STATE
    send(log, job, visit(1, "ann", 100), visit(2, "bob", 100))
    with live(job, platform) as running:
        wait_caught_up(running, 2)
    shutil.copytree(state, tmp_path / "copy")
    # The output for this row is retracted in the same batch when it is read again.
    send(log, job, visit(3, "bob", 108))
    with live(job, platform, epoch=2) as running:
        wait_caught_up(running, 3)
    shutil.rmtree(state)
    shutil.copytree(tmp_path / "copy", state)
    send(log, job, visit(3, "bob", 108, version=1, alive=False), visit(4, "ann", 101))
    with live(job, platform, epoch=3) as running:
        wait_caught_up(running, 5)

    assert standing(told(platform, job)) == {
        ("ann", 100, 101): (2, 3.0),
        ("bob", 100, 100): (1, 1.5),
    }


def test_a_lost_state_is_restored_from_its_latest_snapshot_and_continues(
    log: Log, platform: Settings, job: PipelineJob, tmp_path: Path
) -> None:
    keeping = attrs.evolve(platform, snapshot_dir=str(tmp_path / "kept"))
    checkpoint = checkpoint_of(job.asset, platform)
    send(log, job, visit(1, "ann", 100), visit(2, "bob", 100))
    with live(job, keeping) as running:
        wait_caught_up(running, 2)
        taken = snapshot_of_state(keeping, checkpoint.name)
    assert sum(taken.values()) == 2
    send(log, job, visit(3, "bob", 108))
    with live(job, keeping, epoch=2) as running:
        wait_caught_up(running, 3)
    shutil.rmtree(checkpoint)

    stage = StatefulStage(job, settings=keeping, checkpoint=checkpoint, epoch=3)
    restored = {f"{topic} {number}": at for (topic, number), at in stage.positions().items()}
    stage.close()
    send(log, job, visit(3, "bob", 108, version=1, alive=False), visit(4, "ann", 101))
    with live(job, keeping, epoch=4) as running:
        wait_caught_up(running, 5)

    assert restored == taken
    assert standing(told(platform, job)) == {
        ("ann", 100, 101): (2, 3.0),
        ("bob", 100, 100): (1, 1.5),
    }


def test_a_running_job_continues_in_a_restored_state(
    log: Log, platform: Settings, job: PipelineJob, tmp_path: Path
) -> None:
    keeping = attrs.evolve(platform, snapshot_dir=str(tmp_path / "kept"))
    state = checkpoint_of(job.asset, platform) / STATE
    send(log, job, visit(1, "ann", 100))
    with live(job, keeping) as running:
        wait_caught_up(running, 1)
        snapshot_of_state(keeping, state.parent.name)
        send(log, job, visit(2, "ann", 105))
        wait_caught_up(running, 2)
        state.rename(tmp_path / "moved away")
        store = snapshots_of(keeping)
        store.restore(store.find(state.parent.name), state)
        send(log, job, visit(3, "ann", 109))
        report = wait_caught_up(running, 3)

    assert report.progress["restarts"] == 1
    assert standing(told(platform, job)) == {("ann", 100, 109): (3, 4.5)}


def test_an_owner_that_resumes_beside_its_successor_shares_no_version_with_it(
    log: Log, platform: Settings, job: PipelineJob, tmp_path: Path
) -> None:
    send(log, job, visit(1, "ann", 100), visit(2, "ann", 108))
    send(log, job, visit(3, "ann", 104), visit(4, "ann", 105))
    records = read(platform, job.input_topic)
    checkpoint, elsewhere = checkpoint_of(job.asset, platform), tmp_path / "elsewhere"
    old = StatefulStage(job, settings=platform, checkpoint=checkpoint, epoch=1)
    old.take(records[:2])
    shutil.copytree(checkpoint, elsewhere)
    new = StatefulStage(job, settings=platform, checkpoint=elsewhere, epoch=2)
    new.take(records[2:3])
    new.take(records[3:])
    old.take(records[2:4])
    for stage in (old, new):
        stage.close()

    contents: dict[tuple[RowId, Version], set[tuple[Cell, ...]]] = {}
    for fact in told(platform, job):
        contents.setdefault((fact.row_id, fact.version), set()).add(fact.values)
    assert [found for found in contents.values() if len(found) > 1] == []
    assert standing(told(platform, job)) == {("ann", 100, 108): (4, 6.0)}


def test_a_machine_that_has_neither_state_nor_snapshot_reads_all_again(
    log: Log, platform: Settings, job: PipelineJob, tmp_path: Path
) -> None:
    send(log, job, visit(1, "ann", 100))
    elsewhere = attrs.evolve(
        platform,
        checkpoint_dir=tmp_path / "elsewhere",
        snapshot_dir=str(tmp_path / "nothing stored"),
    )
    with live(job, elsewhere) as running:
        wait_caught_up(running, 1)

    assert standing(told(platform, job)) == {("ann", 100, 100): (1, 1.5)}


def snapshot_of_state(settings: Settings, name: str) -> dict[str, int]:
    """Take a snapshot while the job runs, in a process of its own; return its offsets."""
    done = subprocess.run(
        [sys.executable, "-m", "narthex.cli", "snapshots", "take", name, "--json"],
        env={**os.environ, **environment_of(settings)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    offsets: dict[str, int] = json.loads(done.stdout)["said"]["offsets"]
    return offsets


def test_two_datasets_with_one_log_are_two_sides_of_a_union(
    log: Log, platform: Settings, tmp_path: Path
) -> None:
    (platform.checkpoint_dir / "both").mkdir(parents=True)
    topic = log.topic("visits", partitions=2)
    names = ("Visits", "Again")
    both = pipeline_job(
        Union(DatasetRef("Visits"), DatasetRef("Again")),
        inputs=tuple(
            PipelineInput(dataset=name, log=log_of(VISITS), schema=VISITS) for name in names
        ),
        schema=VISITS,
        needs=(
            *(topic_need(f"input:{name}", topic, log=log_of(VISITS)) for name in names),
            topic_need("output", log.topic("both"), log=log_of(VISITS)),
            checkpoint_need(tmp_path / "both"),
        ),
        trigger=Trigger.STATEFUL,
    )
    send(log, both, visit(1, "ann", 100))
    with live(both, platform) as running:
        wait_caught_up(running, 1)

    found = told(platform, both)
    assert [fact.values for fact in found] == [("ann", 1.5)] * 2
    assert len({fact.row_id for fact in found}) == 2
