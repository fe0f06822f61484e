"""Whether the end state is that of the reference, and how long recoveries took."""

import datetime as dt
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import attrs
import numpy as np

from narthex._base.times import to_micros
from narthex._ir.assets import HistorySpec, TopicSpec
from narthex._ir.facts import Cell, Fact
from narthex_reference import Reference
from narthex_reference.cell_equality import same_cells
from narthex_reference.engines import reference
from narthex_stores import HistoryTable, history_path, newest, to_rows
from tests.chaos.card_velocity import HOURLY_TOPIC, STANDING_TOPIC, card_velocity
from tests.chaos.faults import KILL, Fault, kind_of
from tests.chaos.load import SentRows
from tests.chaos.plant import Installation
from tests.chaos.rows import BEGIN, CARDS, CATEGORIES, PROBE
from tests.differential.records import facts_standing

Identity: TypeAlias = tuple[Cell, ...]

LOGS = ("Approved", "HourlyPayments", "CardStandings", "Sprees")
SINKS = {"HourlyPayments": HOURLY_TOPIC, "CardStandings": STANDING_TOPIC}
INSTANTS = 24
WORST = 10
ASKED_OF: Mapping[str, tuple[str, Sequence[str]]] = {
    "CardVelocity": ("card", [*(f"c{n}" for n in range(CARDS)), PROBE]),
    "CategoryVelocity": ("category", CATEGORIES),
    "CardStandings": ("card", [f"c{n}" for n in range(CARDS)]),
}


@attrs.define
class Difference:
    """The differences of an end state from the reference's.

    Attributes:
        lost: Expected rows that are missing.
        doubled: Rows that exist more than once, or should not exist.
        wrong: Rows, or answers, with other values.
        compared: How many rows or answers.
        examples: The first ones, for people.
    """

    lost: int = 0
    doubled: int = 0
    wrong: int = 0
    compared: int = 0
    examples: list[str] = attrs.field(factory=list)

    @property
    def is_none(self) -> bool:
        return not (self.lost or self.doubled or self.wrong)

    def say(self, example: str) -> None:
        if len(self.examples) < WORST:
            self.examples.append(example)


def examples_of(differences: Mapping[str, Difference]) -> list[str]:
    """Return all examples; each begins with what differs: a log, the history, a sink, answers."""
    return [f"{name}: {said}" for name, one in differences.items() for said in one.examples]


def judge(plant: Installation, sent: SentRows) -> dict[str, Difference]:
    """Compare logs, history, sinks and answers with what the reference makes of the rows sent."""
    engine = reference(card_velocity())
    for dataset, rows in sent.by_dataset.items():
        engine.append(dataset, [row.fact() for row in rows])
    wanted = {dataset: _rows(engine.facts(dataset)) for dataset in LOGS}
    return {
        **{dataset: judge_rows(_log_facts(plant, dataset), wanted[dataset]) for dataset in LOGS},
        "history": _judge_history(plant, wanted["Approved"]),
        **{
            f"sink of {dataset}": judge_sink(
                plant.committed(topic), _current(engine.facts(dataset))
            )
            for dataset, topic in SINKS.items()
        },
        "answers": _judge_answers(plant, engine, sent),
    }


def identity_of(fact: Fact) -> Identity:
    """Return what identifies a row here: its key and event time, or the number of its payment.

    Row ids differ: the reference has not seen the offsets of the rows.
    """
    return (*map(str, fact.key), fact.event_time) if fact.key else fact.values[:1]


def _content(fact: Fact) -> tuple[Cell, ...]:
    return (fact.event_time, *fact.key, *fact.values, fact.alive)


def _rows(facts: Sequence[Fact]) -> dict[Identity, tuple[Cell, ...]]:
    return {identity_of(fact): _content(fact) for fact in facts}


def _current(facts: Sequence[Fact]) -> dict[Identity, tuple[Cell, ...]]:
    """Return the rows of a sink's target: of a keyed dataset, the newest row of each key."""
    rows = {tuple(map(str, fact.key or fact.values[:1])): fact for fact in facts}
    return {
        identity: (fact.event_time, *fact.key, *fact.values)
        for identity, fact in rows.items()
        if fact.alive
    }


def _log_facts(plant: Installation, dataset: str) -> Sequence[Fact]:
    topic = plant.bound(f"dataset/{dataset}/log")
    assert isinstance(topic.spec, TopicSpec)
    assert topic.spec.log is not None
    return facts_standing(plant.records(topic.physical_name), topic.spec.log)


def judge_rows(facts: Sequence[Fact], wanted: Mapping[Identity, tuple[Cell, ...]]) -> Difference:
    """Compare current rows with the expected ones, by their identity."""
    return _compare([(identity_of(fact), _content(fact)) for fact in facts], wanted)


def judge_sink(
    records: Sequence[tuple[bytes, bytes | None]], wanted: Mapping[Identity, tuple[Cell, ...]]
) -> Difference:
    """Compare the records of a sink's topic with the expected rows: the newest of a key counts."""
    envelopes = [json.loads(value) for value in dict(records).values() if value is not None]
    rows = [envelope["after"] for envelope in envelopes if envelope["after"] is not None]
    return _compare([_sink_row(row) for row in rows], wanted)


def _sink_row(row: dict[str, Cell]) -> tuple[Identity, tuple[Cell, ...]]:
    """Return a row of a sink; the first of its fields identifies it."""
    *_, at = row.values()
    cells = [cell for name, cell in row.items() if name != "paid_at"]
    return (str(cells[0]),), (to_micros(dt.datetime.fromisoformat(str(at))), *cells)


def _compare(
    rows: Sequence[tuple[Identity, tuple[Cell, ...]]],
    wanted: Mapping[Identity, tuple[Cell, ...]],
) -> Difference:
    difference = Difference(compared=len(wanted))
    times = Counter(identity for identity, _ in rows)
    for identity in sorted(wanted.keys() - times.keys(), key=str):
        difference.lost += 1
        difference.say(f"lost: {wanted[identity]}")
    for identity, count in times.items():
        if count > 1 or identity not in wanted:
            difference.doubled += 1
            difference.say(f"row {identity} exists {count} times")
    for identity, content in rows:
        if identity in wanted and not same_cells(content, wanted[identity]):
            difference.wrong += 1
            difference.say(f"{content} instead of {wanted[identity]}")
    return difference


def _judge_history(plant: Installation, wanted: Mapping[Identity, tuple[Cell, ...]]) -> Difference:
    """Compare the history with the same rows, and each record of the log with one of its own."""
    asset = plant.bound("dataset/Approved/history")
    assert isinstance(asset.spec, HistorySpec)
    path = history_path(plant.settings.history_dir, asset.physical_name)
    states = HistoryTable(path, asset.spec).scan()
    places = Counter(
        zip(
            states.column("partition").to_pylist(), states.column("offset").to_pylist(), strict=True
        )
    )
    difference = judge_rows(
        [row.fact for row in to_rows(asset.spec.log, newest(states)) if row.fact.alive], wanted
    )
    for place, count in places.items():
        if count > 1:
            difference.doubled += 1
            difference.say(f"the record at {place} was written {count} times")
    return difference


def _judge_answers(plant: Installation, engine: Reference, sent: SentRows) -> Difference:
    """Ask every key at many instants, as readers do."""
    found = Difference()
    for dataset, (key, values) in ASKED_OF.items():
        for at in _instants(sent):
            answer = plant.lookup(
                dataset, [{key: value} for value in values], [at.isoformat()] * len(values)
            )
            wanted = engine.lookup(dataset, [(v,) for v in values], [to_micros(at)] * len(values))
            names = [name for name in answer["data"] if name not in {key, "paid_at"}]
            for place, (value, one) in enumerate(zip(values, wanted, strict=True)):
                found.compared += 1
                is_found = bool(answer["found"][place])
                told = tuple(_cell(answer["data"][name][place]) for name in names)
                right = one is not None and same_cells(told, one.values)
                if is_found is not (one is not None) or (is_found and not right):
                    found.wrong += 1
                    found.say(f"{dataset} of {value} at {at}: {told} instead of {one}")
    return found


def _instants(sent: SentRows) -> Iterator[dt.datetime]:
    last = max(row.at for row in sent.payments if row.card != PROBE)
    for number in range(1, INSTANTS):
        yield BEGIN + (last - BEGIN) * number / INSTANTS
    yield last
    yield last + dt.timedelta(seconds=1)
    yield last + dt.timedelta(days=1)


def _cell(rendered: object) -> Cell:
    if isinstance(rendered, list):
        return tuple(_cell(one) for one in rendered)
    assert rendered is None or isinstance(rendered, bool | int | float | str)
    return rendered


def recoveries(sent: SentRows, faults: Sequence[Fault]) -> dict[str, list[float]]:
    """Return for each kind of victim how long after a kill the first new row was visible, seconds.

    A new row is one that was first sent after the kill. Another fault may hit meanwhile.
    """
    found: dict[str, list[float]] = {}
    for fault in faults:
        if fault.what != KILL:
            continue
        later = next((n for n, at in enumerate(sent.probes, start=1) if at > fault.at), None)
        if later is not None and later in sent.visible:
            found.setdefault(kind_of(fault.victim), []).append(sent.visible[later] - fault.at)
    return found


def quantiles(seconds: Sequence[float]) -> tuple[float, float]:
    """Return the median and the 95th percentile."""
    middle, high = np.quantile(np.array(seconds), [0.5, 0.95])
    return float(middle), float(high)
