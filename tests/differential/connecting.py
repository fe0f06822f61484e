"""Real sources and sinks of drawn projects, and the records that clients and authors send.

A generated project has facts. Here some of its datasets get a source that a job reads, and some a
sink. The facts of such a dataset become rows, sent in the order of their positions; the job makes
them facts again, whose identities are the places of the rows in the source.
"""

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

import attrs
from numpy.random import Generator, default_rng

from narthex._analysis.fingerprints import source_id
from narthex._analysis.schemas import is_terminal
from narthex._base import Json
from narthex._formats import render_cell
from narthex._ir.assets import TopicRole, TopicSpec
from narthex._ir.connections import Connector, KafkaTopic, WebhookEndpoint
from narthex._ir.entities import Cdc, Dataset, Definitions, Sink, Source
from narthex._ir.facts import Fact, RowId, Version, parse_position, position
from narthex._ir.schema import Schema
from narthex_reference.conformance.arrivals import Arrival, Batch, Sent
from narthex_reference.generate.project import Project

PUSHED: Final = "pushed"
"""The webhook of endpoints that a job reads; the facts of others are given to the log itself."""

SHARES: Final = (("facts", 0.4), ("topic", 0.3), ("webhook", 0.3))
"""How often the rows of a dataset come as facts, from a topic of the author, from a webhook."""

SINKS: Final = 0.35
"""How many of the datasets that may have a sink have one."""

TOPIC_PARTITIONS: Final = 2
_MOST_ROWS = 3


def connected(project: Project, rng: Generator) -> Project:
    """Return the project with sources that jobs read, and with sinks."""
    dead = {name for name, fact in project.sent if not fact.alive}

    def drawn(dataset: Dataset) -> Dataset:
        if dataset.pipelines:
            if is_terminal(dataset.pipelines[-1].terminal) or rng.random() >= SINKS:
                return dataset
            target = KafkaTopic(name="bus", bootstrap_servers="", topic=f"changes_{dataset.name}")
            return attrs.evolve(dataset, sinks=(Sink(target=target, cdc=Cdc.DEBEZIUM),))
        way = SHARES[int(rng.choice(len(SHARES), p=[share for _, share in SHARES]))][0]
        in_envelopes = bool(dataset.schema.keys) and (dataset.name in dead or rng.random() < 0.5)
        return attrs.evolve(dataset, sources=_sources(dataset, way, in_envelopes=in_envelopes))

    datasets = tuple(map(drawn, project.definitions.datasets))
    return attrs.evolve(project, definitions=attrs.evolve(project.definitions, datasets=datasets))


def _sources(dataset: Dataset, way: str, *, in_envelopes: bool) -> tuple[Source, ...]:
    connectors: dict[str, Connector] = {
        "topic": KafkaTopic(name="bus", bootstrap_servers="", topic=f"rows_{dataset.name}"),
        "webhook": WebhookEndpoint(webhook=PUSHED, endpoint=dataset.name),
    }
    if way not in connectors:
        return dataset.sources
    (source,) = dataset.sources
    cdc = Cdc.DEBEZIUM if in_envelopes else source.cdc
    return (attrs.evolve(source, connector=connectors[way], cdc=cdc),)


def read_by_a_job(dataset: Dataset) -> bool:
    """Whether rows of a dataset enter through a source, and not as facts of its log."""
    return any(_is_real(source.connector) for source in dataset.sources)


def _is_real(connector: Connector) -> bool:
    return not isinstance(connector, WebhookEndpoint) or connector.webhook == PUSHED


def located(project: Project, *, run: str, way: str) -> Project:
    """Return the project with topics of its own, and with the facts that its sources make.

    Args:
        project: The project.
        run: A name of the run that is unique on the broker: sources have topics of their own in it.
        way: A name of the deployment that is unique in the run: so do sinks.
    """
    definitions = _with_topics(project.definitions, run=run, way=way)
    sources = {d.name: d for d in definitions.datasets if read_by_a_job(d)}
    sent: list[Sent] = []
    numbers = dict.fromkeys(sources, 0)
    for name, fact in project.sent:
        if name in sources:
            fact = _placed(fact, sources[name], numbers[name])  # noqa: PLW2901 (its place changes)
            numbers[name] += 1
        sent.append((name, fact))
    others = [batch for batch in project.arrival if batch[0] not in sources]
    arrival = _interleaved(others, [one for one in sent if one[0] in sources])
    return attrs.evolve(project, definitions=definitions, sent=tuple(sent), arrival=arrival)


def _with_topics(definitions: Definitions, *, run: str, way: str) -> Definitions:
    def named(connector: Connector, of: str) -> Connector:
        if not isinstance(connector, KafkaTopic):
            return connector
        return attrs.evolve(connector, topic=f"{connector.topic}_{of}")

    datasets = [
        attrs.evolve(
            dataset,
            sources=tuple(
                attrs.evolve(one, connector=named(one.connector, run)) for one in dataset.sources
            ),
            sinks=tuple(
                attrs.evolve(one, target=named(one.target, f"{run}_{way}")) for one in dataset.sinks
            ),
        )
        for dataset in definitions.datasets
    ]
    return attrs.evolve(definitions, datasets=tuple(datasets))


def _placed(fact: Fact, dataset: Dataset, number: int) -> Fact:
    """Return the fact that a source makes of the row with a number."""
    (source,) = dataset.sources
    partition, offset, ordinal = _place(source.connector, number)
    place = position(source_id(source), partition, offset, ordinal)
    row_id = fact.row_id if dataset.schema.keys else RowId(place)
    return attrs.evolve(fact, row_id=row_id, version=Version(place))


def _place(connector: Connector, number: int) -> tuple[int, int, int]:
    """Return partition, offset and ordinal of a row: topics alternate, calls have some rows."""
    if isinstance(connector, KafkaTopic):
        return number % TOPIC_PARTITIONS, number // TOPIC_PARTITIONS, 0
    # Calls of one, two and three rows, again and again.
    round_of_calls, within = divmod(number, sum(range(1, _MOST_ROWS + 1)))
    call = next(n for n in range(_MOST_ROWS) if within < (n + 1) * (n + 2) // 2)
    return 0, round_of_calls * _MOST_ROWS + call, within - call * (call + 1) // 2


def _interleaved(others: Sequence[Batch], rows: Sequence[Sent]) -> Arrival:
    """Mix batches of facts with rows; the rows of each dataset remain in order."""
    rng = default_rng(len(others) + len(rows))
    found = list(zip(sorted(rng.random(len(others))), others, strict=True))
    for name in sorted({name for name, _ in rows}):
        facts = (fact for of, fact in rows if of == name)
        calls = [(name, tuple(group)) for _, group in groupby(facts, key=_record_of)]
        found += zip(sorted(rng.random(len(calls))), calls, strict=True)
    return tuple(batch for _, batch in sorted(found, key=lambda one: one[0]))


def _record_of(fact: Fact) -> tuple[int, int]:
    place = parse_position(fact.version)
    return place.partition, place.offset


@attrs.frozen(kw_only=True)
class SentRecord:
    """A record of a source: the rows of one call, or one row."""

    partition: int
    value: bytes


def record_of_rows(dataset: Dataset, facts: Sequence[Fact]) -> SentRecord:
    """Render the rows of facts that have one record, as a client or the author's service does."""
    (source,) = dataset.sources
    rows = [_row(fact, dataset.schema, source.cdc) for fact in facts]
    partition, _ = _record_of(facts[0])
    found: Json = {"rows": rows} if isinstance(source.connector, WebhookEndpoint) else rows[0]
    return SentRecord(partition=partition, value=json.dumps(found).encode())


def _row(fact: Fact, schema: Schema, cdc: Cdc) -> dict[str, Json]:
    row: dict[str, Json] = {schema.timestamp: _cell(fact.event_time, schema, schema.timestamp)}
    row |= {c.name: render_cell(v, c.type) for c, v in zip(schema.keys, fact.key, strict=True)}
    if fact.alive:
        values = zip(schema.values, fact.values, strict=True)
        row |= {column.name: render_cell(cell, column.type) for column, cell in values}
    if cdc is not Cdc.DEBEZIUM:
        return row
    # A delete has its row's own instant: `ts_ms` is not exact enough for these.
    return {"op": "c", "after": row} if fact.alive else {"op": "d", "before": row}


def _cell(instant: int, schema: Schema, name: str) -> Json:
    return next(render_cell(instant, field.type) for field in schema.fields if field.name == name)


def topics_of_authors(definitions: Definitions) -> dict[str, TopicSpec]:
    """Return the topics that sources read and sinks write to, which the author has made."""
    connectors: Iterator[Connector] = (
        connector
        for dataset in definitions.datasets
        for connector in (
            *(s.connector for s in dataset.sources),
            *(s.target for s in dataset.sinks),
        )
    )
    return {
        connector.topic: TopicSpec(
            role=TopicRole.INGEST, partitions=TOPIC_PARTITIONS, identity=connector.topic
        )
        for connector in connectors
        if isinstance(connector, KafkaTopic)
    }
