"""Let feeds take turns at costly work, with a limited share of the time for all of it."""

from collections.abc import Mapping

import attrs

from narthex_spark_apps.supervision.runner_messages import ShardId


@attrs.define
class Turns:
    """Decides which feed does its work next, one at a time.

    Attributes:
        share: The share of the time that the work of all feeds may take.
    """

    share: float
    _not_before: float = float("-inf")

    def next(self, due: Mapping[ShardId, float], now: float) -> ShardId | None:
        """Return the feed that has waited longest, if the share of the time allows it.

        Args:
            due: Since when each feed that has work waits.
            now: The instant, by the clock of `due`, in seconds.
        """
        if now < self._not_before:
            return None
        return min(due, key=due.__getitem__, default=None)

    def spent(self, cost_s: float, now: float) -> None:
        """Account for the cost of one feed's work, which has just ended."""
        self._not_before = now + cost_s * (1 / self.share - 1)
