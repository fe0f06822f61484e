"""An engine with a defect: rows that come too late are lost."""

from collections.abc import Sequence

from narthex._ir.entities import Definitions
from narthex._ir.facts import Cell, Fact
from narthex_reference import Answer
from narthex_reference.engines import reference


class ForgetsLateRows:
    """Answers like the reference, but for rows five seconds behind the newest."""

    def __init__(self, definitions: Definitions) -> None:
        self._right = reference(definitions)
        self._newest = 0

    def append(self, dataset: str, facts: Sequence[Fact]) -> None:
        kept = [fact for fact in facts if fact.event_time >= self._newest - 5_000_000]
        self._newest = max([self._newest, *(fact.event_time for fact in facts)])
        self._right.append(dataset, kept)

    def facts(self, dataset: str) -> tuple[Fact, ...]:
        return self._right.facts(dataset)

    def lookup(
        self, dataset: str, keys: Sequence[tuple[Cell, ...]], as_of: Sequence[int]
    ) -> Sequence[Answer | None]:
        return self._right.lookup(dataset, keys, as_of)
