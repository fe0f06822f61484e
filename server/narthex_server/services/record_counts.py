"""How many records topics got, as long as the broker answers."""

import time
from collections.abc import Iterable
from typing import Final

import attrs

from narthex_stores import EndOffsetReader, StoreError

ASK_S: Final = 3.0
"""How long the broker may take to answer."""

PAUSE_S: Final = 10.0
"""How long a broker that did not answer is not asked again: no page waits for it meanwhile."""


@attrs.define
class RecordCounts:
    """Counts the records of topics by their ends; any number of threads may use it."""

    _ends: EndOffsetReader
    _ask_s: float = ASK_S
    _asks_at: float = attrs.field(default=0.0, init=False)

    def of(self, topics: Iterable[str]) -> dict[str, int]:
        """Return how many records each topic got since its creation; 0 for one that is missing.

        It is empty while the broker does not answer.
        """
        wanted = set(topics)
        if not wanted or time.monotonic() < self._asks_at:
            return {}
        try:
            ends = self._ends.ends(wanted, timeout_s=self._ask_s)
        except StoreError:
            self._asks_at = time.monotonic() + PAUSE_S
            return {}
        return {topic: sum(ends.get(topic, {}).values()) for topic in wanted}
