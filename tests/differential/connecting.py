"""Real sources and sinks of drawn projects, and rows that the sources must reject.

A generated project has facts. Here some of its datasets get a source that a job reads, and some a
sink; `locating` makes rows of the facts of such a source.
"""

from collections.abc import Iterator
from typing import Final

import attrs
from numpy.random import Generator

from narthex._analysis.schemas import is_terminal
from narthex._ir.assets import TopicRole, TopicSpec
from narthex._ir.connections import Connector, KafkaTopic, WebhookEndpoint
from narthex._ir.entities import Cdc, Dataset, Definitions, Sink, Source
from narthex_reference.generate.project import Project
from tests.differential.spoiled_rows import SpoiledRow, spoiled_rows

PUSHED: Final = "pushed"
"""The webhook of endpoints that a job reads; the facts of others are given to the log itself."""

SHARES: Final = (("facts", 0.4), ("topic", 0.3), ("webhook", 0.3))
"""How often the rows of a dataset come as facts, from a topic of the author, from a webhook."""

SINKS: Final = 0.35
"""How many of the datasets that may have a sink have one."""

TOPIC_PARTITIONS: Final = 2


@attrs.frozen(kw_only=True)
class ConnectedProject(Project):
    """A project with the rows that its sources must reject."""

    spoiled: tuple[SpoiledRow, ...] = ()


def spoiled_of(project: Project) -> tuple[SpoiledRow, ...]:
    """Return the rows that the sources of a project must reject."""
    return project.spoiled if isinstance(project, ConnectedProject) else ()


def connected(project: Project, rng: Generator) -> ConnectedProject:
    """Return the project with sources that jobs read, rows that they must reject, and sinks."""
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
    spoiled: list[SpoiledRow] = []
    for dataset in filter(read_by_a_job, datasets):
        facts = [fact for name, fact in project.sent if name == dataset.name]
        spoiled += spoiled_rows(dataset, facts, rng)
    return ConnectedProject(
        definitions=attrs.evolve(project.definitions, datasets=datasets),
        sent=project.sent,
        arrival=project.arrival,
        instants=project.instants,
        spoiled=tuple(spoiled),
    )


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
