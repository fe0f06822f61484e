"""Files are skipped if their dates say that all their rows are outside the source's bounds."""

from datetime import UTC, datetime, timedelta

import pytest

from narthex._base import DAY_US, HOUR_US, to_micros
from narthex._ir import Cdc, Files, JsonLines, Source
from narthex_spark_apps.sources.files.dated_paths import dates_of, may_have_rows

MAY = datetime(2024, 5, 1, tzinfo=UTC)
DAYS = "day/%Y-%m-%d/*.csv"


def source_of(*, since: datetime | None = None, until: datetime | None = None) -> Source:
    return Source(
        connector=Files(name="f", path=DAYS, format=JsonLines(), spread_us=HOUR_US),
        disorder_us=0,
        cdc=Cdc.APPEND,
        since_us=None if since is None else to_micros(since),
        until_us=None if until is None else to_micros(until),
    )


@pytest.mark.parametrize(
    ("path", "file", "begin", "length"),
    [
        (DAYS, "day/2024-05-01/a.csv", MAY, timedelta(days=1)),
        ("%Y/%m/*.csv", "2024/05/a.csv", MAY, timedelta(days=31)),
        ("%Y/*.csv", "2024/a.csv", datetime(2024, 1, 1, tzinfo=UTC), timedelta(days=366)),
        ("%Y/%j/*", "2024/122/a", MAY, timedelta(days=1)),
        ("%Y%m%d/%H-*.csv", "20240501/07-x.csv", MAY.replace(hour=7), timedelta(hours=1)),
        (
            "%Y-%m-%d/%H%M.csv",
            "2024-05-01/0730.csv",
            MAY.replace(hour=7, minute=30),
            timedelta(minutes=1),
        ),
        ("s3://air/**/%Y-%m-%d/*", "s3://air/x/y/2024-05-01/a", MAY, timedelta(days=1)),
        ("%Y/day-%d/*", "2024/day-17/a", datetime(2024, 1, 1, tzinfo=UTC), timedelta(days=366)),
    ],
)
def test_the_dates_of_a_file_are_as_narrow_as_they_are_written(
    path: str, file: str, begin: datetime, length: timedelta
) -> None:
    assert dates_of(file, path) == (to_micros(begin), to_micros(begin + length))


@pytest.mark.parametrize(
    ("path", "file"),
    [
        ("*.csv", "2024.csv"),
        ("%m-%d/*", "05-01/a"),
        ("%Y-%U/*", "2024-07/a"),
        ("%Y/%Y-%m/*", "2024/2024-05/a"),
        ("%Y/*", "9999/a"),
    ],
)
def test_a_path_that_names_no_certain_span_skips_nothing(path: str, file: str) -> None:
    assert dates_of(file, path) is None
    assert may_have_rows(source_of(since=MAY), path, file, HOUR_US)


@pytest.mark.parametrize(
    ("since", "until", "is_read"),
    [
        (MAY, None, True),
        (MAY + timedelta(days=1), None, True),
        (MAY + timedelta(days=1, hours=1), None, False),
        (None, MAY, True),
        (None, MAY - timedelta(hours=1), False),
        (MAY - timedelta(days=9), MAY + timedelta(days=9), True),
        (None, None, True),
    ],
)
def test_a_file_is_read_if_its_dates_and_the_spread_meet_the_bounds(
    since: datetime | None, until: datetime | None, *, is_read: bool
) -> None:
    source = source_of(since=since, until=until)

    assert may_have_rows(source, DAYS, "day/2024-05-01/a.csv", HOUR_US) is is_read
    assert may_have_rows(source, DAYS, "day/2024-05-01/a.csv", 400 * DAY_US)
