"""The comparison of deployments with the reference finds faults, and interrupts jobs fairly."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import attrs
import pytest
from numpy.random import default_rng

from narthex._compiler.blueprint import compile_blueprint
from narthex._formats.avro.codec import fact_codec
from narthex._ir.assets import PipelineJobSpec, Trigger
from narthex._ir.facts import TOMBSTONE_TIME, Fact, Version, parse_position
from narthex_reference.cell_equality import is_never_the_same
from narthex_reference.generate import Project
from narthex_spark_apps.platform.record_batches import RecordCells
from narthex_spark_apps.sinks.kafka import KafkaSink
from narthex_spark_apps.sources.row_rendering import Arrived, RowRenderer
from narthex_spark_apps.sources.source_stage import SourceStage
from narthex_spark_apps.writers.index_writer import IndexFeed
from narthex_stores import Record
from tests.differential.beside_spark import MOST, shared_workers, some
from tests.differential.connecting import read_by_a_job, spoiled_of
from tests.differential.deploying import Deployment, deploy, given_logs
from tests.differential.drawing import Jobs, drawn, from_seeds
from tests.differential.judging import ReferenceAnswers
from tests.differential.locating import SentRecord, located
from tests.differential.platform import settings_of
from tests.differential.records import Records, facts_standing
from tests.differential.round import BACKFILL, LIVE, WAYS
from tests.differential.searching import Searcher, smaller

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def project() -> Project:
    """Return a project with facts of a keyed source that nothing but its index reads.

    It has no history: a lookup finds no row that is older, so that losing one changes no answer.
    """
    for found in drawn(3, count=25):
        datasets = found.definitions.datasets
        sources = (one for one in datasets if one.schema.keys and not one.pipelines)
        source = next((one for one in sources if one.history_us is None), None)
        sent = [one for one in found.sent if source is not None and one[0] == source.name]
        if source is not None and len(sent) > 3:
            arrival = tuple(batch for batch in found.arrival if batch[0] == source.name)
            alone = attrs.evolve(found.definitions, datasets=(source,))
            return attrs.evolve(found, definitions=alone, sent=tuple(sent), arrival=arrival)
    raise AssertionError("the seed has no such project")


@pytest.fixture(scope="module")
def through() -> Project:
    """Return a project that runs without Spark; its sources reject some rows, and it has a sink."""
    for _, _, found in from_seeds(0, jobs=Jobs.ANY):
        datasets = found.definitions.datasets
        ends = [one for one in datasets if one.sinks and not is_never_the_same(one)]
        has_sources = all(map(read_by_a_job, (one for one in datasets if one.sources)))
        assets = (asset.spec for asset in compile_blueprint(found.definitions).assets)
        triggers = {spec.trigger for spec in assets if isinstance(spec, PipelineJobSpec)}
        spoiled = {one.field is None for one in spoiled_of(found)}
        if (
            len(spoiled) > 1
            and ends
            and has_sources
            and triggers <= {Trigger.STAGE, Trigger.STATEFUL}
        ):
            judge = ReferenceAnswers.of(found)
            if any(fact.alive for one in ends for fact in judge.facts(one.name)):
                return found
    raise AssertionError("no seed has such a project")


def test_rows_are_sent_in_the_order_of_their_positions(through: Project) -> None:
    here = located(through, run="r", way=LIVE)
    places = {(name, parse_position(fact.version)) for name, fact in here.project.sent} | {
        (name, one.place) for name, found in here.rejections.items() for one in found
    }
    rows: Counter[tuple[str, int, int]] = Counter(
        (name, place.partition, place.offset) for name, place in places
    )
    ends: Counter[tuple[str, int]] = Counter()

    for event in here.events:
        assert isinstance(event, SentRecord)
        offset = ends[event.dataset, event.partition]
        assert rows.pop((event.dataset, event.partition, offset)) == event.rows
        ends[event.dataset, event.partition] += 1

    assert not rows
    assert len(places) == len(through.sent) + len(spoiled_of(through))


def test_a_project_has_topics_of_its_own_in_each_run_and_way(through: Project) -> None:
    made = [located(through, run=run, way=way) for run in ("r0", "r1") for way in (LIVE, BACKFILL)]
    datasets = [dataset for here in made for dataset in here.project.definitions.datasets]
    targets = [sink.target for dataset in datasets for sink in dataset.sinks]

    assert len(set(targets)) == len(targets)


def deployed(project: Project, way: str) -> Deployment:
    blueprint = compile_blueprint(project.definitions)
    return deploy(project.definitions, blueprint, run="r", way=way, install_id="differal")


def test_a_row_that_never_was_is_not_in_a_log(project: Project) -> None:
    _, spec = deployed(project, LIVE).log(project.sent[0][0])
    alive = next(fact for _, fact in project.sent if fact.alive)
    never = attrs.evolve(
        alive,
        version=Version(b"\xff"),
        event_time=TOMBSTONE_TIME,
        values=(None,) * len(alive.values),
        alive=False,
    )

    assert facts_standing(_records(spec, [never, alive]), spec) == ()
    assert facts_standing(_records(spec, [alive]), spec) == (alive,)


def _records(spec, facts: list[Fact]) -> list[Record]:  # noqa: ANN001
    codec = fact_codec(spec)
    return [_record(codec.encode(fact), offset=at) for at, fact in enumerate(facts)]


def _record(value: bytes, *, partition: int = 0, offset: int) -> Record:
    return Record("t", partition, offset, 0, b"", value, ())


def test_ways_share_the_logs_of_sources_and_nothing_else(project: Project) -> None:
    made = [deployed(project, way) for way in WAYS]
    shared = set(given_logs(made[0]))

    names = [{*one.topics, *one.indexes} - shared for one in made]

    assert all(shared <= set(one.topics) for one in made)
    assert len(set.union(*names)) == sum(map(len, names))


def test_a_smaller_project_has_less_in_it(project: Project) -> None:
    found = list(smaller(project))

    assert found
    assert all(
        (len(one.sent), len(one.arrival)) < (len(project.sent), len(project.arrival))
        for one in found
    )


@pytest.fixture(scope="module")
def searcher(kafka_bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Searcher]:
    home = tmp_path_factory.mktemp("differential")
    settings = settings_of(home, bootstrap=kafka_bootstrap, jars_dir=Path())
    with shared_workers():
        yield Searcher(session=_no_spark, settings=settings, seed=0)


@pytest.mark.kafka
def test_an_index_that_has_all_facts_is_right(searcher: Searcher, project: Project) -> None:
    assert searcher.judged([(project, WAYS)] * 3) == []


@pytest.mark.kafka
def test_an_index_that_lost_a_fact_is_found(
    searcher: Searcher, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = IndexFeed.apply
    lost = next(fact for _, fact in reversed(project.sent) if fact.alive)

    def forgetful(feed: IndexFeed, records: list[Record], producer: object) -> None:
        kept = [r for r in records if feed.codec.decode(r.value or b"") != lost]
        whole(feed, kept, producer)  # type: ignore[arg-type]
        ends = {(r.topic, r.partition): r.offset + 1 for r in records}
        feed.index.apply([], offsets=ends, epoch=feed.assignment.epoch)

    monkeypatch.setattr(IndexFeed, "apply", forgetful)

    (found,) = searcher.judged([(project, (LIVE,))])

    assert found.way == LIVE
    assert len(searcher.made_smaller(found).project.sent) == 1


@pytest.mark.kafka
def test_rows_that_come_through_sources_and_leave_through_sinks_are_right(
    searcher: Searcher, through: Project
) -> None:
    assert searcher.judged([(through, (LIVE,))] * 3) == []


@pytest.mark.kafka
def test_a_sink_that_loses_changes_is_found(
    searcher: Searcher, through: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KafkaSink, "write", lambda *_, **__: None)

    (found,) = searcher.judged([(through, (LIVE,))])

    assert found.wrong.startswith("the sink of `D")


@pytest.mark.kafka
def test_a_row_that_a_source_loses_is_found(
    searcher: Searcher, through: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SourceStage, "take", lambda *_: None)

    (found,) = searcher.judged([(through, (LIVE,))])

    assert found.way == LIVE


@pytest.mark.kafka
def test_a_rejected_row_that_the_quarantine_lacks_is_found(
    searcher: Searcher, through: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    change_rejections(monkeypatch, lambda _: None)

    (found,) = searcher.judged([(through, (LIVE,))])

    assert found.wrong.startswith("the quarantine of `S")
    assert "has None" in found.wrong


@pytest.mark.kafka
def test_another_reason_of_a_rejected_row_is_found(
    searcher: Searcher, through: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    change_rejections(monkeypatch, lambda described: {**described, "reason": "it is wrong"})

    (found,) = searcher.judged([(through, (LIVE,))])

    assert "it is wrong" in found.wrong


def change_rejections(
    patch: pytest.MonkeyPatch,
    change: Callable[[dict[str, object]], dict[str, object] | None],
) -> None:
    """Let sources change the records of rows that they reject, or leave them out."""
    whole = RowRenderer.render

    def changed(renderer: RowRenderer, record: RecordCells) -> Iterator[RecordCells]:
        topic, key, value = record
        described = json.loads(value) if topic == renderer.quarantine else None
        if described is None:
            yield record
        elif (new := change(described)) is not None:
            yield topic, key, json.dumps(new).encode()

    def render(renderer: RowRenderer, rows: Sequence[Arrived]) -> list[tuple[RecordCells, ...]]:
        rendered = whole(renderer, rows)
        return [
            tuple(one for record in made for one in changed(renderer, record)) for made in rendered
        ]

    patch.setattr(RowRenderer, "render", render)


def _no_spark() -> object:
    raise AssertionError("nothing here needs Spark")


def test_chance_takes_each_partition_in_order() -> None:
    class Some(Records):
        def __init__(self) -> None:
            nine = {p: [_record(b"", partition=p, offset=o) for o in range(9)] for p in (0, 1)}
            self.kept = {("t", partition): found for partition, found in nine.items()}

    taken = some(Some(), [("t", 0), ("t", 1)], {("t", 0): 2}, default_rng(5))

    for partition, begin in ((0, 2), (1, 0)):
        offsets = [r.offset for r in taken if r.partition == partition]
        assert offsets == list(range(begin, begin + len(offsets)))
        assert len(offsets) < MOST
