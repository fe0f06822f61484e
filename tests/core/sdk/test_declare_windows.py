"""Authors write the lengths of windows as text; a bare number has no unit and is refused."""

from collections.abc import Callable
from typing import Any

import pytest

from narthex._base.records import from_plain
from narthex._ir import windows
from narthex.dtypes import Continuous, Hopping, Session, Tumbling
from narthex.errors import DefinitionError, DurationInvalid, WindowInvalid

HOUR = 3_600_000_000
Written = Callable[[], object]


def test_the_sent_code_is_the_code_that_authors_write() -> None:
    assert Continuous("1h") == windows.Continuous(HOUR)
    assert Continuous("forever") == windows.Continuous(None)
    assert Continuous("1h", max_error="1%") == windows.Continuous(HOUR, max_error=0.01)
    assert Tumbling("1h", lookback="2h") == windows.Tumbling(HOUR, 2 * HOUR)
    assert Hopping("2h", stride="1h") == windows.Hopping(2 * HOUR, HOUR)
    assert Hopping("forever", "1h", "1h") == windows.Hopping(None, HOUR, HOUR)
    assert Session(gap="1h") == windows.Session(HOUR)


def test_the_wire_still_counts_microseconds() -> None:
    assert from_plain({"$": "Continuous", "duration": HOUR}) == Continuous("1h")
    assert from_plain({"$": "Session", "gap": HOUR}) == Session("1h")


@pytest.mark.parametrize(
    ("written", "part"),
    [
        (Continuous, "`duration` of `Continuous`"),
        (Tumbling, "`duration` of `Tumbling`"),
        (lambda wrong: Tumbling("1h", wrong), "`lookback` of `Tumbling`"),
        (lambda wrong: Hopping(wrong, "1h"), "`duration` of `Hopping`"),
        (lambda wrong: Hopping("1h", wrong), "`stride` of `Hopping`"),
        (lambda wrong: Hopping("1h", "1h", lookback=wrong), "`lookback` of `Hopping`"),
        (Session, "`gap` of `Session`"),
    ],
)
@pytest.mark.parametrize("wrong", [5, 5.0, True, None, "5", "1x"], ids=repr)
def test_a_duration_without_a_unit_is_refused_at_its_line(
    written: Callable[[Any], object], part: str, wrong: object
) -> None:
    with pytest.raises(DurationInvalid) as raised:
        written(wrong)

    assert part in str(raised.value)
    assert raised.value.origin.file.endswith("test_declare_windows.py")
    assert raised.value.origin.line > 0


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        (lambda: Tumbling("forever"), DurationInvalid),
        (lambda: Hopping("1d", "forever"), DurationInvalid),
        (lambda: Session("forever"), DurationInvalid),
        (lambda: Continuous("1d", max_error=0.01), WindowInvalid),  # type: ignore[arg-type]
        (lambda: Continuous("1d", max_error="1"), WindowInvalid),
    ],
)
def test_invalid_windows_are_refused(written: Written, wanted: type[DefinitionError]) -> None:
    with pytest.raises(wanted):
        written()
