"""The places of rows in sources, and the order in which facts and records arrive.

The facts of a dataset with a source that a job reads become rows, sent in the order of their
positions with rows that the source must reject between them. The job makes them facts again, whose
identities are the places of the rows.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, TypeAlias

import attrs
from numpy.random import default_rng

from narthex._analysis.fingerprints import source_id
from narthex._ir.connections import Connector, KafkaTopic, WebhookEndpoint
from narthex._ir.entities import Dataset, Definitions
from narthex._ir.facts import Fact, Position, RowId, Version, position
from narthex_reference.conformance.arrivals import Sent
from narthex_reference.generate.project import Project
from tests.differential.author_rows import enveloped, row_of_fact
from tests.differential.connecting import TOPIC_PARTITIONS, read_by_a_job, spoiled_of
from tests.differential.spoiled_rows import Rejection, SpoiledRow

_MOST_ROWS: Final = 3


@attrs.frozen(kw_only=True)
class GivenFacts:
    """Facts that are appended to the log of their dataset."""

    dataset: str
    facts: tuple[Fact, ...]


@attrs.frozen(kw_only=True)
class SentRecord:
    """A record of the topic that a source reads: the rows of one call, or one row.

    Attributes:
        rows: How many rows it has.
    """

    dataset: str
    partition: int
    value: bytes
    rows: int


Event: TypeAlias = GivenFacts | SentRecord


@attrs.frozen(kw_only=True)
class LocatedProject:
    """A project with places of its own.

    Attributes:
        project: The project with the facts that its sources make.
        events: What arrives, in order.
        rejections: What the quarantine of each dataset with a real source must have.
    """

    project: Project
    events: tuple[Event, ...]
    rejections: Mapping[str, Sequence[Rejection]]


_Row: TypeAlias = Fact | SpoiledRow


@attrs.frozen
class _PlacedRow:
    place: Position
    row: _Row


def located(project: Project, *, run: str, way: str) -> LocatedProject:
    """Return the project with topics of its own, and with the facts that its sources make.

    Args:
        project: The project.
        run: A name of the run that is unique on the broker: sources have topics of their own in it.
        way: A name of the deployment that is unique in the run: so do sinks.
    """
    definitions = _with_topics(project.definitions, run=run, way=way)
    sources = [dataset for dataset in definitions.datasets if read_by_a_job(dataset)]
    placed = {dataset.name: _placed_rows(project, dataset) for dataset in sources}
    made = {one.name: _facts(one, placed[one.name]) for one in sources}
    sent: list[Sent] = [
        (name, next(made[name]) if name in made else fact) for name, fact in project.sent
    ]
    given = [GivenFacts(dataset=n, facts=facts) for n, facts in project.arrival if n not in placed]
    records = {one.name: list(_records(one, placed[one.name])) for one in sources}
    rejections = {
        dataset.name: [
            Rejection.of(one.row, one.place, dataset)
            for one in placed[dataset.name]
            if isinstance(one.row, SpoiledRow)
        ]
        for dataset in sources
    }
    return LocatedProject(
        project=attrs.evolve(project, definitions=definitions, sent=tuple(sent)),
        events=_interleaved(given, records),
        rejections=rejections,
    )


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


def _placed_rows(project: Project, dataset: Dataset) -> list[_PlacedRow]:
    """Return the rows of a source in order: those of facts, and the spoiled ones between them."""
    facts = [fact for name, fact in project.sent if name == dataset.name]
    numbered: list[tuple[int, _Row]] = list(enumerate(facts))
    numbered += [(one.after - 1, one) for one in spoiled_of(project) if one.dataset == dataset.name]
    numbered.sort(key=lambda one: one[0])
    (source,) = dataset.sources
    identity = source_id(source)
    return [
        _PlacedRow(_place(source.connector, identity, number), row)
        for number, (_, row) in enumerate(numbered)
    ]


def _place(connector: Connector, identity: str, number: int) -> Position:
    """Return the place of the row with a number: topics alternate, calls have some rows."""
    if isinstance(connector, KafkaTopic):
        offset, partition = divmod(number, TOPIC_PARTITIONS)
        return Position(source_id=identity, partition=partition, offset=offset, ordinal=0)
    # Calls of one, two and three rows, again and again.
    round_of_calls, within = divmod(number, sum(range(1, _MOST_ROWS + 1)))
    call = next(n for n in range(_MOST_ROWS) if within < (n + 1) * (n + 2) // 2)
    return Position(
        source_id=identity,
        partition=0,
        offset=round_of_calls * _MOST_ROWS + call,
        ordinal=within - call * (call + 1) // 2,
    )


def _facts(dataset: Dataset, placed: Sequence[_PlacedRow]) -> Iterator[Fact]:
    """Yield the facts that a source makes of its rows, in order."""
    for one in placed:
        if isinstance(one.row, Fact):
            at = one.place
            place = position(at.source_id, at.partition, at.offset, at.ordinal, at.rest)
            row_id = one.row.row_id if dataset.schema.keys else RowId(place)
            yield attrs.evolve(one.row, row_id=row_id, version=Version(place))


def _records(dataset: Dataset, placed: Sequence[_PlacedRow]) -> Iterator[SentRecord]:
    """Yield the records of a source, as a client or the author's service sends them."""
    for (partition, _), group in groupby(
        placed, lambda one: (one.place.partition, one.place.offset)
    ):
        rows = [_text(dataset, one.row) for one in group]
        (source,) = dataset.sources
        is_call = isinstance(source.connector, WebhookEndpoint)
        value = b'{"rows": [' + b", ".join(rows) + b"]}" if is_call else rows[0]
        yield SentRecord(dataset=dataset.name, partition=partition, value=value, rows=len(rows))


def _text(dataset: Dataset, row: _Row) -> bytes:
    if isinstance(row, SpoiledRow):
        return row.text
    (source,) = dataset.sources
    return json.dumps(
        enveloped(row_of_fact(row, dataset.schema), source.cdc, alive=row.alive)
    ).encode()


def _interleaved(
    given: Sequence[GivenFacts], records: Mapping[str, Sequence[SentRecord]]
) -> tuple[Event, ...]:
    """Mix batches of facts with records; the records of each dataset remain in order."""
    rng = default_rng(len(given) + sum(map(len, records.values())))
    found: list[tuple[float, Event]] = list(zip(sorted(rng.random(len(given))), given, strict=True))
    for name in sorted(records):
        of = records[name]
        found += zip(sorted(rng.random(len(of))), of, strict=True)
    return tuple(event for _, event in sorted(found, key=lambda one: one[0]))
