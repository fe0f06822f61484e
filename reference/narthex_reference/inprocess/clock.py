"""The clock of a unit test."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from narthex._base import from_micros, parse_duration, to_micros
from narthex._formats import parse_instant


class UnitTestClock:
    """The machine's clock until it is set; then it is stopped until it is advanced."""

    def __init__(self) -> None:
        self._set_to: datetime | None = None
        self._ahead = timedelta()

    def now(self) -> datetime:
        """Return the present, aware, UTC."""
        return (self._set_to or datetime.now(UTC)) + self._ahead

    def now_us(self) -> int:
        """Return the present in microseconds."""
        return to_micros(self.now())

    def set(self, instant: datetime | str) -> None:
        """Stop at an instant; a naive one is UTC."""
        micros = parse_instant(instant) if isinstance(instant, str) else to_micros(instant)
        self._set_to, self._ahead = from_micros(micros), timedelta()

    @contextmanager
    def standing_at(self, instant: datetime) -> Iterator[None]:
        """Stop at an instant inside the block; after it, continue as before."""
        before = self._set_to, self._ahead
        self.set(instant)
        try:
            yield
        finally:
            self._set_to, self._ahead = before

    def advance(self, by: timedelta | str) -> None:
        """Advance by a duration such as `1d`."""
        span = by if isinstance(by, timedelta) else timedelta(microseconds=parse_duration(by))
        self._ahead += span
