"""Functions that author code can call: the last closed window, and secrets by name."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from narthex import secrets as kept
from narthex._base.origin import NOWHERE
from narthex._ir.code import UserCode
from narthex._ir.schema import Column
from narthex._ir.types import WINDOW, Datetime, List, Str
from narthex._runtime.workers import WorkerPool
from narthex._sdk.closure import resolve
from narthex._testing.in_process import InProcessCalls
from narthex.dtypes import Continuous, Hopping, Tumbling, Window
from narthex.errors import SecretMissing, UserCodeError, WindowInvalid
from narthex.lib import bucketize, secrets

NOON = datetime(2024, 1, 2, 12, 30, tzinfo=UTC)


def _at(hour: int, day: int = 2) -> datetime:
    return datetime(2024, 1, day, hour, tzinfo=UTC)


@pytest.mark.parametrize(
    ("window", "begin", "end"),
    [
        ("1h", _at(11), _at(12)),
        (Tumbling("1d"), _at(0, 1), _at(0, 2)),
        (("2h", "1h"), _at(10), _at(12)),
        (Hopping("1d", "1h"), _at(12, 1), _at(12, 2)),
        (Hopping("3h", "2h"), _at(8), _at(11)),
    ],
)
def test_the_last_window_that_closed(window: Any, begin: datetime, end: datetime) -> None:
    assert bucketize(NOON, window) == Window(begin=begin, end=end)


def test_a_window_is_closed_at_its_end() -> None:
    assert bucketize(_at(12), "1h") == Window(begin=_at(11), end=_at(12))
    assert bucketize(_at(12) - timedelta(microseconds=1), "1h").end == _at(11)


def test_an_instant_without_an_offset_is_utc() -> None:
    naive = datetime(2024, 1, 2, 12, 30)  # noqa: DTZ001
    elsewhere = datetime(2024, 1, 2, 14, 30, tzinfo=timezone(timedelta(hours=2)))

    assert bucketize(naive, "1h") == bucketize(NOON, "1h") == bucketize(elsewhere, "1h")


@pytest.mark.parametrize("window", [Continuous("1h"), Hopping("forever", "1h"), 5])
def test_a_window_without_an_end_never_closes(window: Any) -> None:
    with pytest.raises(WindowInvalid):
        bucketize(NOON, window)


def _code(function: object) -> UserCode:
    return resolve(function, what="`f`", origin=NOWHERE)


AT = Column("at", Datetime())
NAME = Column("name", Str())
INSTANT_US = 1_704_198_600_000_000


@pytest.fixture(params=["sandboxed", "in process"])
def calls(request: pytest.FixtureRequest) -> Iterator[Any]:
    provide = {"chat": "xyz"}.get
    if request.param == "in process":
        yield InProcessCalls(secrets=provide)
        return
    with WorkerPool(1, secrets=provide) as pool:
        yield pool


def test_code_gives_windows_and_lists_of_them(calls: Any) -> None:
    one = _code(lambda df: df["at"].apply(lambda at: bucketize(at, Tumbling("1d"))))
    many = _code(lambda df: df["at"].apply(lambda at: [bucketize(at, "1h")]))
    given = {"inputs": [(AT, [INSTANT_US])], "title": "`f`"}

    (window,) = calls.compute_each(one, output=Column("w", WINDOW), **given)
    (windows,) = calls.compute_each(many, output=Column("w", List(WINDOW)), **given)

    assert window == {"begin": 1_704_067_200_000_000, "end": 1_704_153_600_000_000}
    assert windows == ({"begin": 1_704_193_200_000_000, "end": 1_704_196_800_000_000},)


def test_code_reads_secrets_by_name_and_they_do_not_travel_with_it(calls: Any) -> None:
    code = _code(lambda df: df["name"].apply(secrets.get))

    assert kept.READS_SECRETS in code.source
    assert "xyz" not in code.source
    given = {"inputs": [(NAME, ["chat"])], "output": Column("token", Str()), "title": "`f`"}
    assert calls.compute_each(code, **given) == ["xyz"]


def test_a_secret_that_is_not_there_fails_the_call(calls: Any) -> None:
    code = _code(lambda df: df["name"].apply(secrets.get))
    given = {"inputs": [(NAME, ["maps"])], "output": Column("token", Str()), "title": "`f`"}

    with pytest.raises((UserCodeError, SecretMissing), match="there is no secret `maps`"):
        raise calls.compute_each(code, **given)[0]


def test_secrets_are_handed_out_only_where_somebody_does() -> None:
    with pytest.raises(SecretMissing, match="is not available here"):
        secrets.get("chat")
    with kept.found_by({"chat": "xyz"}.get):
        assert secrets.get("chat") == "xyz"
