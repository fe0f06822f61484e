"""A round: many projects at once on one broker and one Spark session, live and as backfill.

All deployments of a project read the same sources, or the same logs whose facts are given. `live`
runs while they come, is cut by chance and started again; `half` is backfilled when half of them are
there, and then goes on live from the offsets of before that; `backfill` runs when all are there.
"""

import enum
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import attrs
from confluent_kafka.admin import AdminClient
from numpy.random import Generator, default_rng
from pyspark.sql import SparkSession

from narthex._compiler.blueprint import compile_blueprint
from narthex._ir.assets import ResolvedAsset, TopicSpec
from narthex._ir.connections import KafkaTopic
from narthex.settings import Settings
from narthex_reference.generate.project import Project
from narthex_spark_apps.jobs.backfill import AT_ONCE
from narthex_spark_apps.jobs.start import input_topics
from narthex_spark_apps.sinks.sink_stage import SinkFailedError
from narthex_stores import LogProducer, PartitionKey, StoreError, TransientError
from tests.differential.beside_spark import CrashError, Feed, LiveStage, is_beside_spark
from tests.differential.connecting import TOPIC_PARTITIONS, topics_of_authors
from tests.differential.deploying import (
    Deployment,
    create_directories,
    create_topics,
    delete_topics,
    deploy,
    given_logs,
)
from tests.differential.live_sinks import LiveSink, TargetRows, rows_of_targets
from tests.differential.locating import Event, LocatedProject, located
from tests.differential.on_spark import (
    LiveQuery,
    Starts,
    each_at_once,
    run_bounded,
    wait_a_little,
)
from tests.differential.records import Records
from tests.differential.sending import EventSender

LIVE, BACKFILL, HALF = "live", "backfill", "half"
WAYS = (LIVE, BACKFILL, HALF)


class StageOutcome(enum.Enum):
    """The fate of a stage that has taken records."""

    GO_ON = "went on"
    NOTE = "noted how far they were"
    END = "ended in order"
    CRASH = "crashed"
    LOSE_STATE = "lost their state"


FATES = (
    (StageOutcome.GO_ON, 0.5),
    (StageOutcome.NOTE, 0.25),
    (StageOutcome.END, 0.1),
    (StageOutcome.CRASH, 0.1),
    (StageOutcome.LOSE_STATE, 0.05),
)
"""How often each is."""

TRIES = 20
"""A bounded run that a broker did not answer is retried, as the task of a commit would."""

DIES = 0.1
"""How often a stage crashes before it has appended all of its output."""

RESTARTED, REPEATED = 1 / 3, 0.05
"""How many live queries are started again on the way; how often an idle feed applies twice."""

SETTLED_WITHIN_S = 240.0
"""If nothing advances for this long, the jobs are stuck."""


@attrs.define(kw_only=True)
class Run:
    """One deployment of one project, and what runs of it.

    Attributes:
        here: The project with the topics of this deployment.
    """

    here: LocatedProject
    number: int
    way: str
    deployment: Deployment
    feeds: list[Feed] = attrs.field(factory=list)
    stages: list[LiveStage] = attrs.field(factory=list)
    sinks: list[LiveSink] = attrs.field(factory=list)
    queries: list[LiveQuery] = attrs.field(factory=list)
    starts: dict[int, Starts] = attrs.field(factory=dict)
    wrong: str | None = None
    refused: str = "no broker refused anything"

    def fail(self, wrong: str) -> None:
        """Note why nothing can be expected of it any more."""
        self.wrong = self.wrong or wrong

    @property
    def project(self) -> Project:
        """The project with the facts that its sources make."""
        return self.here.project

    @property
    def topics(self) -> set[str]:
        """All topics of it, those that it shares too."""
        return set(self.deployment.topics)

    @property
    def targets(self) -> dict[str, str]:
        """The topic that the sink of a dataset writes to."""
        sinks = ((d.name, one.target) for d in self.project.definitions.datasets for one in d.sinks)
        return {name: to.topic for name, to in sinks if isinstance(to, KafkaTopic)}


@attrs.define(kw_only=True)
class Clock:
    """Where the time goes."""

    spent: dict[str, float] = attrs.field(factory=dict)

    def by_length(self) -> list[tuple[str, float]]:
        """Return what was done with its seconds, the longest first."""
        return sorted(self.spent.items(), key=lambda one: -one[1])

    @contextmanager
    def doing(self, what: str) -> Iterator[None]:
        """Count the seconds of a block."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.spent[what] = self.spent.get(what, 0.0) + time.monotonic() - began


class Round:
    """Projects deployed together; `work_off` runs all of them until nothing is left to do."""

    def __init__(
        self,
        projects: Sequence[tuple[Project, Sequence[str]]],
        *,
        name: str,
        session: Callable[[], SparkSession],
        settings: Settings,
        seed: int,
        clock: Clock,
    ) -> None:
        """Name and create all assets.

        Args:
            projects: Each with the ways in which it is run.
            name: A name of the round that is unique on this broker.
            session: Returns the Spark session; called if a project has a query.
            settings: Where broker and directories are.
            seed: The seed of all random choices.
            clock: Measures the time of each phase.
        """
        self._session = session
        self._settings = settings
        self._rng = default_rng(seed)
        self._clock = clock
        self._producer = LogProducer(settings.kafka)
        self._sender = EventSender.of(settings.kafka, self._producer)
        self._admin = AdminClient({"bootstrap.servers": settings.kafka, "log_level": 0})
        self.records = Records(settings.kafka)
        self.runs: list[Run] = []
        self.counts: Counter[str] = Counter()
        self._sources: dict[int, dict[str, str]] = {}
        self._make(projects, name)
        self._pool = ThreadPoolExecutor(max_workers=AT_ONCE)

    def _make(self, projects: Sequence[tuple[Project, Sequence[str]]], name: str) -> None:
        topics: dict[str, TopicSpec] = {}
        install = self._settings.install_id
        for number, (project, ways) in enumerate(projects):
            run = f"{install}_{name}_{number}"
            for way in ways:
                here = located(project, run=run, way=way)
                definitions = here.project.definitions
                blueprint = compile_blueprint(definitions)
                made = deploy(definitions, blueprint, run=run, way=way, install_id=install)
                topics |= given_logs(made) | made.topics | topics_of_authors(definitions)
                self.runs.append(Run(here=here, number=number, way=way, deployment=made))
        self._targets = {topic for run in self.runs for topic in run.targets.values()}
        with self._clock.doing("create topics"):
            create_topics(self._admin, topics)
            self.records.watch(set(topics) - self._targets)
        with self._clock.doing("create directories"):
            for one in self.runs:
                create_directories(one.deployment, self._settings)
                one.feeds = [Feed.open(feed, self._settings) for feed in one.deployment.feeds]
                one.sinks = [
                    LiveSink(asset=sink, settings=self._settings) for sink in one.deployment.sinks
                ]

    # The events, in order.

    def work_off(self) -> None:
        """Send all facts and run all deployments, until nothing is left to do."""
        halves = {run.number: len(run.here.events) // 2 for run in self.runs}
        live = self._of(LIVE)
        with self._clock.doing("start live"):
            self._start_live(live)
        self._send_while_live({n: self._events(n)[:h] for n, h in halves.items()}, live)
        half = self._of(HALF)
        if half:
            with self._clock.doing("backfill half"):
                self._backfill(half, noting=True)
        with self._clock.doing("restart"):
            again = [q for run in live for q in run.queries if self._rng.random() < RESTARTED]
            each_at_once(again, pool=self._pool, ends=True)
            each_at_once(again, pool=self._pool, ends=False)
            self._start_live(half)
        both = [*live, *half]
        self._send_while_live({n: self._events(n)[h:] for n, h in halves.items()}, both)
        with self._clock.doing("backfill"):
            # Meanwhile live queries report that they have read everything.
            self._backfill(self._of(BACKFILL), noting=False)
        with self._clock.doing("sinks of backfills"):
            for run in self._of(BACKFILL):
                for sink in run.sinks:
                    self._sink(run, sink, None)
        with self._clock.doing("settle"):
            self._settle(both)
        with self._clock.doing("stop"):
            each_at_once([q for run in both for q in run.queries], pool=self._pool, ends=True)
            for stage in self._stages(both):
                stage.end()
            for sink in (sink for run in self.runs for sink in run.sinks):
                sink.close()
        self.counts["queries"] += sum(q.lives for run in both for q in run.queries)
        self.counts["stages"] += sum(s.lives for run in both for s in run.stages)
        self.counts["sinks"] += sum(s.lives for run in self.runs for s in run.sinks)

    def _of(self, way: str) -> list[Run]:
        return [run for run in self.runs if run.way == way]

    def _events(self, number: int) -> Sequence[Event]:
        return next(run.here.events for run in self.runs if run.number == number)

    # Live.

    def _start_live(self, runs: Sequence[Run]) -> None:
        for run in runs:
            for job in run.deployment.jobs:
                starts = run.starts.get(job.asset_id, ())
                if is_beside_spark(job):
                    noted = {(topic, p): offset for topic, p, offset in starts}
                    run.stages += LiveStage.shards_of(job, self._settings, noted=noted)
                else:
                    query = LiveQuery(
                        asset=job, settings=self._settings, session=self._session, starts=starts
                    )
                    run.queries.append(query)
        each_at_once([q for run in runs for q in run.queries], pool=self._pool, ends=False)

    def _send_while_live(self, events: Mapping[int, Sequence[Event]], live: Sequence[Run]) -> None:
        """Send events; between them, each live job takes a random number of records."""
        steps = max(map(len, events.values()), default=0)
        at_once = max(1, -(-steps // 6))
        for begin in range(0, steps, at_once):
            with self._clock.doing("send"):
                for number, some in events.items():
                    run = next(run for run in self.runs if run.number == number)
                    self._sender.send(run.deployment, some[begin : begin + at_once], self.counts)
                self._sender.flush()
                self.records.pull()
            with self._clock.doing("work"):
                self._work(live, self._rng)

    def _work(self, runs: Iterable[Run], rng: Generator | None) -> None:
        """Let feeds and stages take something, in any order."""
        turns: list[tuple[Run, Feed | LiveStage | LiveSink]] = []
        for run in runs:
            turns += [(run, feed) for feed in run.feeds]
            turns += [(run, stage) for stage in run.stages]
            turns += [(run, sink) for sink in run.sinks]
        if rng is not None:
            turns = [turns[int(at)] for at in rng.permutation(len(turns))]
        for run, one in turns:
            if run.wrong is not None:
                continue
            match one:
                case Feed():
                    self._feed(one, rng)
                case LiveSink():
                    self._sink(run, one, rng)
                case LiveStage():
                    self._stage(run, one, rng)

    def _feed(self, feed: Feed, rng: Generator | None) -> None:
        if feed.unread(self.records):
            feed.take(self.records, self._producer, rng)
        elif rng is not None and rng.random() < REPEATED:
            feed.repeat(self.records, self._producer, rng)
            self.counts["repeated batches"] += 1

    def _sink(self, run: Run, sink: LiveSink, rng: Generator | None) -> None:
        try:
            sink.take(self.records, rng)
        except (StoreError, SinkFailedError) as error:
            sink.close()
            run.refused = str(error)
            self.counts["sinks that a broker refused"] += 1
        except Exception as error:  # noqa: BLE001 (a job that fails is one that differs)
            run.fail(f"a sink failed: {type(error).__name__}: {error}")
        else:
            fate = None if rng is None else sink.end_by_chance(rng)
            if fate is not None:
                self.counts[f"sinks {fate}"] += 1

    def _stage(self, run: Run, stage: LiveStage, rng: Generator | None) -> None:
        if not stage.unread(self.records):
            return
        if stage.reads_corrections(self.records):
            # It waits until its indexes contain an invalidation; no other thread advances them.
            self.records.pull()
            for feed in run.feeds:
                feed.take(self.records, self._producer, None)
        dies = int(rng.integers(0, 4)) if rng is not None and rng.random() < DIES else None
        try:
            stage.take(self.records, rng, dies=dies)
        except CrashError:
            stage.crash()
            self.counts["crashes while appending"] += 1
        except StoreError as error:
            # The stage runner pauses and begins again; here the others' turns are the pause.
            stage.crash()
            run.refused = str(error)
            self.counts["stages that a broker refused"] += 1
        except Exception as error:  # noqa: BLE001 (a job that fails is one that differs)
            run.fail(f"a stage failed: {type(error).__name__}: {error}")
            return
        if rng is not None:
            self._end_by_chance(stage, rng)

    def _end_by_chance(self, stage: LiveStage, rng: Generator) -> None:
        fate = FATES[int(rng.choice(len(FATES), p=[share for _, share in FATES]))][0]
        match fate:
            case StageOutcome.CRASH:
                stage.crash()
            case StageOutcome.END:
                stage.end()
            case StageOutcome.NOTE:
                stage.noted = dict(stage.at)
            case StageOutcome.LOSE_STATE if not stage.lose_state():
                fate = StageOutcome.CRASH
        self.counts[f"stages {fate.value}"] += 1

    def _stages(self, runs: Iterable[Run]) -> Iterator[LiveStage]:
        for run in runs:
            yield from run.stages

    def _settle(self, runs: Sequence[Run]) -> None:
        """Work on until nothing is left, and nothing new has come since that was seen."""
        ends, left = self.records.pull(), len(runs)
        moved = time.monotonic()
        while True:
            self._work(runs, None)
            self._producer.flush()
            late = self._late(runs)
            before = ends, left
            ends, left = self.records.pull(), len(late)
            if not late and ends == before[0]:
                return
            if (ends, left) != before:
                moved = time.monotonic()
            if time.monotonic() > moved + SETTLED_WITHIN_S:
                for run in late:
                    run.fail(f"it does not work its topics off; {run.refused}")
            if late:
                wait_a_little()

    def _late(self, runs: Sequence[Run]) -> list[Run]:
        """Return those whose queries, stages or feeds have not read all."""
        found = []
        for run in runs:
            for query in run.queries:
                if not self.records.are_read(query.at, query.topics):
                    query.look()
                if query.wrong is not None:
                    run.fail(query.wrong)
            if run.wrong is not None:
                continue
            readers = [(query.topics, query.at) for query in run.queries]
            readers += [(sink.topics, sink.at) for sink in run.sinks]
            readers += [((f.topic,), f.index.offsets()) for f in run.feeds]
            are_read = all(self.records.are_read(at, topics) for topics, at in readers)
            has_unread = any(stage.unread(self.records) for stage in run.stages)
            if not are_read or has_unread or not all(sink.has_written for sink in run.sinks):
                found.append(run)
        return found

    def target_rows(self) -> TargetRows:
        """Return what the sinks have written."""
        topics = sorted(self._targets)
        return rows_of_targets(self._settings.kafka, topics, partitions=TOPIC_PARTITIONS)

    # Bounded.

    def _backfill(self, runs: Sequence[Run], *, noting: bool) -> None:
        """Run each job over all records, in order of dependencies."""
        levels: dict[int, list[tuple[Run, ResolvedAsset]]] = {}
        for run in runs:
            for job, level in _levels(run.deployment.jobs):
                levels.setdefault(level, []).append((run, job))
        for level in sorted(levels):
            self._index_all(runs)
            ends = self.records.pull()
            due = [one for one in levels[level] if self._is_due(*one, ends, noting=noting)]
            self.counts["bounded runs"] += len(due)
            wrongs = self._pool.map(self._bounded, [job for _, job in due])
            for (run, _), wrong in zip(due, wrongs, strict=True):
                if wrong is not None:
                    run.fail(wrong)
        self._index_all(runs)

    def _is_due(
        self, run: Run, job: ResolvedAsset, ends: Mapping[PartitionKey, int], *, noting: bool
    ) -> bool:
        """Whether there is something to run a job over; and note where its live run starts."""
        topics = set(input_topics(job))
        starts = tuple((t, p, end) for (t, p), end in sorted(ends.items()) if t in topics)
        if noting:
            run.starts[job.asset_id] = self._overlapping(starts)
        return run.wrong is None and any(end for _, _, end in starts)

    def _index_all(self, runs: Iterable[Run]) -> None:
        self.records.pull()
        for run in runs:
            for feed in run.feeds:
                feed.take(self.records, self._producer, None)
        self._producer.flush()

    def _overlapping(self, starts: Starts) -> Starts:
        """Return offsets some of which lie before those at which the bounded run ended."""
        back = [int(self._rng.integers(0, 3)) for _ in starts]
        return tuple(
            (topic, partition, max(0, offset - less))
            for (topic, partition, offset), less in zip(starts, back, strict=True)
        )

    def _bounded(self, job: ResolvedAsset) -> str | None:
        wrong = None
        for _ in range(TRIES):
            wrong = run_bounded(job, session=self._session, settings=self._settings, epoch=1)
            if wrong is None or TransientError.__name__ not in wrong:
                break
            wait_a_little()
        return wrong

    def close(self) -> None:
        """End what was started, and ask that the topics go."""
        for run in self.runs:
            for feed in run.feeds:
                feed.close()
        topics = {topic for topic, _ in self.records.kept} | self._targets
        self.records.close()
        self._producer.close()
        delete_topics(self._admin, topics)
        self._pool.shutdown()


def _levels(jobs: Sequence[ResolvedAsset]) -> Iterator[tuple[ResolvedAsset, int]]:
    """Yield jobs with how many must run before, one after the other."""
    writers = {job.need("output").physical_name: 0 for job in jobs}
    for job in jobs:
        reads = [writers.get(name, 0) for name in _logs_read(job, jobs)]
        level = max(reads, default=0)
        writers[job.need("output").physical_name] = level + 1
        yield job, level


def _logs_read(job: ResolvedAsset, jobs: Sequence[ResolvedAsset]) -> set[str]:
    """Return the logs that a job reads, itself or by way of an index of a joined dataset."""
    inputs = getattr(job.spec, "inputs", ())
    datasets = {one.dataset for one in inputs}
    made = {getattr(j.spec, "dataset", ""): j.need("output").physical_name for j in jobs}
    return {made[name] for name in datasets if name in made}
