"""Plots of metrics: their lines, bars, gaps, axes and texts, and the pages with real values."""

import datetime as dt
import itertools
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narthex_ledger import MetricSpan
from narthex_server.console.plots import (
    HEIGHT,
    INNER_HEIGHT,
    INNER_WIDTH,
    LEFT,
    TOP,
    WIDTH,
    axis_end,
    axis_text,
    duration,
    plots,
    shown,
)
from narthex_server.operations.metric_series import MetricHistory
from tests.server.conftest import House
from tests.server.console.test_console import ParsedPage, look
from tests.server.driving import serve
from tests.server.sampled_minutes import Minutes
from tests.server.shop import shop_definitions

NOON = "2026-05-01T12:00:00+00:00"
UNITS = ["s", "records", "rows", "rows/min", "queries/s", "answers", "restarts"]
LINES = ["s", "records", "rows/min", "queries/s"]
VALUES = st.lists(st.none() | st.floats(0, 1e9), min_size=1, max_size=180)


def history(values: list[float | None], unit: str, span: str = "hour") -> MetricHistory:
    return {
        "span": span,
        "from": NOON,
        "bucket_minutes": MetricSpan(span).minutes,
        "series": [{"name": "one", "unit": unit, "meaning": "A number", "values": values}],
    }


def runs(values: list[float | None]) -> int:
    """Count the runs of values between gaps."""
    known = [value is not None for value in [None, *values]]
    return sum(now and not before for before, now in itertools.pairwise(known))


@given(VALUES, st.sampled_from(LINES))
def test_a_line_has_a_level_for_each_value_and_ends_at_each_gap(
    values: list[float | None], unit: str
) -> None:
    (plot,) = plots(history(values, unit))

    known = [value for value in values if value is not None]
    assert plot.path.count("H") == len(plot.buckets) == len(known)
    assert plot.path.count("M") == runs(values)
    assert plot.path.count("V") == len(known) - runs(values)
    levels = [
        float(one)
        for one in re.findall(r"M[\d.]+,([\d.]+)|V([\d.]+)", plot.path)
        for one in one
        if one
    ]
    end = axis_end(max(known, default=0.0), unit)
    for level, value in zip(levels, known, strict=True):
        assert level == pytest.approx(TOP + INNER_HEIGHT * (1 - value / end), abs=0.01)


@given(VALUES, st.sampled_from(UNITS))
def test_buckets_and_gaps_cover_the_span_once_and_nothing_leaves_the_picture(
    values: list[float | None], unit: str
) -> None:
    (plot,) = plots(history(values, unit))

    width = INNER_WIDTH / len(values)
    covered = sum(one.width for one in plot.buckets) + sum(wide for _, wide in plot.gaps)
    assert covered == pytest.approx(INNER_WIDTH, abs=0.02 * len(values))
    places = [round((one.x - LEFT) / width) for one in plot.buckets]
    assert places == [place for place, value in enumerate(values) if value is not None]
    for x, wide in [*plot.gaps, *((one.x, one.width) for one in plot.buckets)]:
        assert LEFT <= x <= x + wide <= WIDTH
    for one in plot.buckets:
        assert TOP <= one.top <= TOP + INNER_HEIGHT < HEIGHT


@given(st.floats(0, 1e12) | st.floats(0, 1e5) | st.floats(0, 10), st.sampled_from(UNITS))
def test_an_axis_has_room_for_the_greatest_value_and_little_more(
    greatest: float, unit: str
) -> None:
    end = axis_end(greatest, unit)

    assert end >= greatest * (1 - 1e-9)
    assert end > 0
    assert end <= max(2.51 * greatest, 2.0)


@pytest.mark.parametrize("span", ["hour", "day", "week", "month"])
def test_each_span_has_a_few_times_below_at_their_places(span: str) -> None:
    count = MetricSpan(span).buckets
    (plot,) = plots(history([1.0] * count, "s", span))

    begin = dt.datetime.fromisoformat(NOON)
    whole = count * MetricSpan(span).minutes
    assert 4 <= len(plot.times) <= 8
    for one in plot.times:
        at = begin + dt.timedelta(minutes=whole * (one.at - LEFT) / INNER_WIDTH)
        form = "%H:%M" if span in {"hour", "day"} else "%d %b"
        nearest = (at + dt.timedelta(minutes=whole / 1000)).strftime(form)
        assert one.text in {nearest, at.strftime(form)}


def test_texts_have_the_latest_the_greatest_and_the_gaps() -> None:
    (line,) = plots(history([90.0, None, 3.5], "s"))
    (bars,) = plots(history([2.0, None, 3.0], "rows"))
    (nothing,) = plots(history([None, None], "s"))

    assert line.summary == "latest 3.5 s, at most 1.5 min"
    assert line.description == (
        "A number, the last hour: latest 3.5 s, at most 1.5 min. "
        "There is no sample in 1 of 3 buckets."
    )
    assert [one.text for one in line.buckets] == [
        "2026-05-01 12:00: 1.5 min",
        "2026-05-01 12:02: 3.5 s",
    ]
    assert (bars.summary, bars.path) == ("5 rows in all", "")
    assert (nothing.summary, nothing.path, nothing.buckets) == ("no samples", "", ())
    assert nothing.gaps == ((LEFT, INNER_WIDTH),)


@pytest.mark.parametrize(
    ("number", "unit", "text"),
    [
        (0.0, "s", "0 s"),
        (0.0004, "s", "0.4 ms"),
        (0.0123, "s", "12.3 ms"),
        (5400.0, "s", "1.5 h"),
        (300 * 86400.0, "s", "300 d"),
        (1234567.0, "records", "1,234,567 records"),
        (0.25, "queries/s", "0.25 queries/s"),
        (12.4, "rows/min", "12.4 rows/min"),
    ],
)
def test_a_value_has_its_unit(number: float, unit: str, text: str) -> None:
    assert shown(number, unit) == text


def test_numbers_at_an_axis_are_short() -> None:
    assert [axis_text(one, "records") for one in (0, 20, 2e3, 1.5e6, 4e9)] == [
        *("0", "20", "2k", "1.5M", "4G")
    ]
    assert axis_text(7200, "s") == duration(7200) == "2 h"


def plotted(seen: ParsedPage, name: str) -> list[str]:
    """Return the titles of the buckets of a plot of a page."""
    found: list[str] = []
    inside = False
    for tag, attributes in seen.tags:
        if tag == "svg":
            inside = str(attributes["aria-labelledby"]).startswith(f"{name}-title")
        if inside and attributes.get("class") == "bucket":
            found.append(str(attributes["x"]))
    return found


@pytest.mark.postgres
def test_pages_show_the_sampled_values_and_link_to_their_json(
    house: House, minutes: Minutes
) -> None:
    serve(house, shop_definitions())
    for minute, rows in ((1, 100), (2, 130), (3, 140), (5, 150)):
        minutes.sample(minute, rows)
    job = house.client.get("/api/v1/jobs").json()["jobs"][0]

    dataset = look(house.client, "/console/datasets/Orders?span=hour")
    branch = look(house.client, "/console/metrics?span=hour")
    queries = look(house.client, "/console/metrics/queries?span=hour")
    one = look(house.client, f"/console/jobs/{job['asset_id']}?span=hour")

    assert "Rows per minute latest unknown, at most 30 rows/min" in dataset.text
    assert "Rows per minute latest unknown, at most 90 rows/min" in branch.text
    assert "There is no sample in 58 of 60 buckets." in dataset.text
    assert len(plotted(dataset, "rows")) == 2
    assert "Age of the oldest unread record latest 3 ms, at most 3 ms" in one.text
    assert "Queries and lookups per second" in queries.text
    for seen, twin in (
        (dataset, "datasets/Orders/metrics"),
        (branch, "branch/metrics"),
        (queries, "metrics/queries"),
        (one, f"jobs/{job['asset_id']}/metrics"),
    ):
        assert [link for link in seen.links() if link.endswith(f"/{twin}?branch=main&span=hour")]
        pictures = [found for tag, found in seen.tags if tag == "svg"]
        assert pictures
        assert {found["role"] for found in pictures} == {"img"}
        (current,) = [
            found for tag, found in seen.tags if tag == "a" and found.get("aria-current") == "true"
        ]
        assert "span=hour" in str(current["href"])


@pytest.mark.postgres
def test_tables_of_jobs_link_to_the_page_of_each(house: House) -> None:
    serve(house, shop_definitions())
    listed: Any = house.client.get("/api/v1/jobs").json()["jobs"]

    links = look(house.client, "/console/jobs").links()

    for job in listed:
        assert [link for link in links if f"console/jobs/{job['asset_id']}?" in link]
