"""Whether the end state is that of the reference, and how long recoveries took."""

import datetime as dt
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import attrs
import numpy as np

from narthex._base.times import to_micros
from narthex._formats.avro.codec import fact_codec
from narthex._ir.assets import HistorySpec, TopicSpec
from narthex._ir.facts import Cell, Fact
from narthex_reference import Reference
from narthex_reference.cell_equality import same_cells
from narthex_reference.engines import reference
from narthex_stores import HistoryTable, history_path, newest, to_rows
from tests.chaos.card_velocity import card_velocity
from tests.chaos.faults import KILL, Fault
from tests.chaos.load import SentRows
from tests.chaos.plant import Installation
from tests.chaos.rows import BEGIN, CARDS, CATEGORIES, PROBE

INSTANTS = 24
WORST = 10
ASKED_OF: Mapping[str, tuple[str, Sequence[str]]] = {
    "CardVelocity": ("card", [*(f"c{n}" for n in range(CARDS)), PROBE]),
    "CategoryVelocity": ("category", CATEGORIES),
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


def judge(plant: Installation, sent: SentRows) -> dict[str, Difference]:
    """Compare log, history and answers with what the reference makes of the rows sent."""
    engine = reference(card_velocity())
    for dataset, rows in sent.by_dataset.items():
        engine.append(dataset, [row.fact() for row in rows])
    wanted = {_number(fact): _told(fact) for fact in engine.facts("Approved")}
    return {
        "log": judge_rows(_standing(_log_facts(plant)), wanted),
        "history": _judge_history(plant, wanted),
        "answers": _judge_answers(plant, engine, sent),
    }


def _number(fact: Fact) -> int:
    number = fact.values[0]
    assert isinstance(number, int)
    return number


def _told(fact: Fact) -> tuple[Cell, ...]:
    return (fact.event_time, *fact.values)


def _log_facts(plant: Installation) -> Sequence[Fact]:
    topic = plant.bound("dataset/Approved/log")
    assert isinstance(topic.spec, TopicSpec)
    assert topic.spec.log is not None
    records = plant.records(topic.physical_name)
    return fact_codec(topic.spec.log).decode_many([record.value or b"" for record in records])


def _standing(facts: Sequence[Fact]) -> list[Fact]:
    """Return the current facts: the newest version of each row, if it is alive."""
    found: dict[bytes, Fact] = {}
    for fact in facts:
        known = found.get(fact.row_id)
        if known is None or known.version <= fact.version:
            found[fact.row_id] = fact
    return [fact for fact in found.values() if fact.alive]


def judge_rows(facts: Sequence[Fact], wanted: Mapping[int, tuple[Cell, ...]]) -> Difference:
    """Compare current rows with the expected ones: by number, the event time and the values."""
    found = Difference(compared=len(wanted))
    times = Counter(_number(fact) for fact in facts)
    for number in sorted(wanted.keys() - times.keys()):
        found.lost += 1
        found.say(f"lost: {wanted[number]}")
    for number, count in times.items():
        if count > 1 or number not in wanted:
            found.doubled += 1
            found.say(f"payment {number} exists {count} times")
    for fact in facts:
        if _number(fact) in wanted and not same_cells(_told(fact), wanted[_number(fact)]):
            found.wrong += 1
            found.say(f"{_told(fact)} instead of {wanted[_number(fact)]}")
    return found


def _judge_history(plant: Installation, wanted: Mapping[int, tuple[Cell, ...]]) -> Difference:
    """Hold the history to the same, and to each record of the log but once."""
    asset = plant.bound("dataset/Approved/history")
    assert isinstance(asset.spec, HistorySpec)
    path = history_path(plant.settings.history_dir, asset.physical_name)
    states = HistoryTable(path, asset.spec).scan()
    places = Counter(
        zip(
            states.column("partition").to_pylist(), states.column("offset").to_pylist(), strict=True
        )
    )
    found = judge_rows(
        [row.fact for row in to_rows(asset.spec.log, newest(states)) if row.fact.alive], wanted
    )
    for place, count in places.items():
        if count > 1:
            found.doubled += 1
            found.say(f"the record at {place} was written {count} times")
    return found


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
            kind = fault.victim.rpartition("/")[2].partition("-")[0]
            found.setdefault(kind, []).append(sent.visible[later] - fault.at)
    return found


def quantiles(seconds: Sequence[float]) -> tuple[float, float]:
    """Return the median and the 95th percentile."""
    middle, high = np.quantile(np.array(seconds), [0.5, 0.95])
    return float(middle), float(high)
