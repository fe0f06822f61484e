"""Probes: rows with their own users, timed until an answer counts them; and checks of exactness.

Instants are seconds of the monotonic clock.
"""

import time
from collections.abc import Callable

import attrs

TWICE = 2
"""A row that is counted twice may come after one that was counted once: so all is read again."""


@attrs.define
class Probe:
    """A row with its own user, timed until an answer counts it.

    Attributes:
        by: The connection, or the stream, by which it is sent.
    """

    user: str
    by: str
    sent: float
    accepted: float | None = None
    visible: float | None = None

    @property
    def accepting_ms(self) -> float | None:
        """Milliseconds from sent to acknowledged, of the acknowledged probes."""
        return None if self.accepted is None else (self.accepted - self.sent) * 1000

    @property
    def fresh_ms(self) -> float | None:
        """Milliseconds from acknowledged to visible, of the visible probes."""
        if self.accepted is None or self.visible is None:
            return None
        # An answer may count a row before its sender has heard that it was accepted.
        return max(0.0, (self.visible - self.accepted) * 1000)


def last_differences(find: Callable[[], list[str]], *, within_s: float) -> list[str]:
    """Compare repeatedly until two comparisons, a second apart, find no difference.

    Args:
        find: Compares all expected values and returns the differences.
        within_s: The time limit.

    Returns:
        The differences of the last comparison; empty if everything is as expected.
    """
    ends_at = time.monotonic() + within_s
    agreed = 0
    found: list[str] = []
    while agreed < TWICE and time.monotonic() < ends_at:
        found = find()
        agreed = 0 if found else agreed + 1
        time.sleep(1.0)
    return found
