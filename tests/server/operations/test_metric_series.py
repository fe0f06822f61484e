"""Metrics over time: sampled by a real loop in a real ledger, and shown by branch and by rights."""

import datetime as dt
from typing import Any

import attrs
import pytest

from narthex._ir import AssetKind, Definitions
from narthex_server.operations.metric_sampling import MetricSampling
from narthex_server.security.route_rights import Right
from tests.server.calling import TestClient
from tests.server.conftest import House
from tests.server.driving import serve
from tests.server.operations.test_watermark_rounds import job_of, report
from tests.server.sampled_minutes import MINUTE, Minutes
from tests.server.security.test_visibility import said
from tests.server.shop import shop_definitions

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

SPANS = {"hour": (1, 60), "day": (10, 144), "week": (60, 168), "month": (240, 180)}


def client_with(house: House, name: str, **limits: tuple[str, ...]) -> TestClient:
    token = f"nx_tests_{name}"
    house.ledger.tokens.put(token, name=name, scopes=tuple(Right), **limits)
    return TestClient(house.client.app, headers={"authorization": f"Bearer {token}"})


def answer(client: TestClient, path: str, span: str = "hour", **headers: str) -> Any:
    found = client.get(f"/api/v1/{path}?span={span}", headers=headers)
    assert found.status_code == 200, found.text
    return found.json()


def series(client: TestClient, path: str, name: str, span: str = "hour", **headers: str) -> Any:
    """Return the values of a metric of the newest five minutes, which the present one may begin."""
    found = answer(client, path, span, **headers)
    (line,) = [one for one in found["series"] if one["name"] == name]
    known = [place for place, value in enumerate(line["values"]) if value is not None]
    return line["values"][known[0] : known[-1] + 1] if known else []


def tagged() -> Definitions:
    return said(shop_definitions(), "Users", "pii")


def test_rows_per_minute_outlive_restarts_of_the_server_and_have_gaps(
    house: House, minutes: Minutes
) -> None:
    serve(house, shop_definitions())
    for minute, rows in ((0, 100), (1, 130), (2, 7), (4, 9)):
        minutes.sample(minute, rows)

    assert series(house.client, "datasets/Orders/metrics", "rows") == [30, 7]
    minutes.sample(5, 19)
    assert series(house.client, "datasets/Orders/metrics", "rows") == [30, 7, None, None, 10]
    # The three datasets together, as each log has the same end here.
    assert series(house.client, "branch/metrics", "rows") == [90, 21, None, None, 30]


def test_a_broker_that_does_not_answer_leaves_the_other_metrics(
    house: House, minutes: Minutes
) -> None:
    serve(house, shop_definitions())
    feed = job_of(house, "Orders", AssetKind.HISTORY_FEED).asset.asset_id
    noon = int(dt.datetime(2026, 3, 2, 12, tzinfo=dt.UTC).timestamp() * 1_000_000)
    report(house, {feed: {"newest_event_time": noon, "behind": 4, "late": 1, "restarts": 2}})
    minutes.sample(3, None)
    report(house, {feed: {"newest_event_time": noon, "behind": 5, "late": 3, "restarts": 3}})
    minutes.sample(4, None)

    path = "datasets/Orders/metrics"
    assert series(house.client, path, "rows") == []
    assert series(house.client, path, "late") == [2]
    (older, newer) = series(house.client, path, "freshness")
    assert older == pytest.approx((dt.datetime.now(dt.UTC).timestamp() - noon / 1e6), rel=0.01)
    assert newer == pytest.approx(older, rel=0.01)
    assert series(house.client, f"jobs/{feed}/metrics", "behind") == [4, 5]
    assert series(house.client, f"jobs/{feed}/metrics", "restarts") == [1]


def test_several_servers_take_one_sample_of_a_minute_and_one_each_of_their_queries(
    house: House, minutes: Minutes
) -> None:
    serve(house, shop_definitions())
    for minute in (3, 4):
        for owner in ("server:one:1", "server:two:2"):
            services = minutes.services(minute)
            collector = attrs.evolve(services.collector, owner=owner)
            services.meters.requests.add(5, route="/api/v1/query", status="200")
            minutes.rows = 10 * minute + (owner == "server:two:2")
            MetricSampling(attrs.evolve(services, collector=collector), minutes.ends).sample()

    assert series(house.client, "datasets/Orders/metrics", "rows") == [10]
    # Both report the same meters here, which grow by ten between two samples of a server.
    assert series(house.client, "metrics/queries", "queries") == [pytest.approx(20 / 60)]


@pytest.mark.parametrize("span", SPANS)
def test_each_span_has_its_buckets_and_contains_the_newest_minute(
    house: House, minutes: Minutes, span: str
) -> None:
    serve(house, shop_definitions())
    minutes.sample(4, 100)
    minutes.sample(5, 130)

    found = answer(house.client, "branch/metrics", span)

    assert (found["span"], found["bucket_minutes"]) == (span, SPANS[span][0])
    assert {len(one["values"]) for one in found["series"]} == {SPANS[span][1]}
    assert max(one for one in series(house.client, "datasets/Orders/metrics", "rows", span)) == 30
    begin = dt.datetime.fromisoformat(found["from"])
    age = dt.datetime.now(dt.UTC) - begin
    # The present bucket is the last one; the present minute may have no sample yet.
    assert -1 < age / (SPANS[span][0] * MINUTE) - SPANS[span][1] <= 1


def test_an_unknown_span_is_refused(house: House) -> None:
    serve(house, shop_definitions())
    feed = job_of(house, "Orders", AssetKind.HISTORY_FEED).asset.asset_id
    paths = ("datasets/Orders/metrics", "branch/metrics", f"jobs/{feed}/metrics", "metrics/queries")
    pages = ("datasets/Orders", "metrics", f"jobs/{feed}", "metrics/queries")

    for span in ("", "year", "hour' OR 1=1", "60", "HOUR", "\x00", "day&span=week"):
        for path in (*(f"api/v1/{one}" for one in paths), *(f"console/{one}" for one in pages)):
            found = house.client.get(f"/{path}", params={"span": span})
            assert (found.status_code, path) == (400, path), found.text


def test_subjects_that_do_not_exist_are_refused(house: House) -> None:
    serve(house, shop_definitions())

    for path, status in {
        "datasets/Nobody/metrics": 404,
        "datasets/%27%20OR%201=1/metrics": 404,
        f"datasets/{'x' * 201}/metrics": 400,
        "jobs/999999/metrics": 404,
        "jobs/-1/metrics": 400,
        "jobs/9223372036854775808/metrics": 400,
        "jobs/one/metrics": 400,
    }.items():
        found = house.client.get(f"/api/v1/{path}")
        assert (found.status_code, path) == (status, path), found.text
        page = house.client.get(f"/console/{path.removesuffix('/metrics')}")
        assert (page.status_code, path) == (status, path)


def test_a_branch_that_does_not_exist_is_refused_and_an_empty_one_has_no_samples(
    house: House,
) -> None:
    missing = house.client.get("/api/v1/branch/metrics", headers={"x-narthex-branch": "nowhere"})

    assert missing.status_code == 404
    assert series(house.client, "branch/metrics", "rows") == []


def test_a_branch_shows_its_own_samples(house: House, minutes: Minutes) -> None:
    serve(house, shop_definitions())
    minutes.sample(2, 100)
    minutes.sample(3, 110)
    house.client.post(
        "/api/v1/init", json={"clone_from": "main"}, headers={"x-narthex-branch": "dev"}
    )
    minutes.sample(4, 120)
    minutes.sample(5, 150)
    ada = client_with(house, "ada", branches=("dev",))
    path, dev = "datasets/Orders/metrics", {"x-narthex-branch": "dev"}

    assert series(ada, path, "rows", **dev) == [30]
    assert series(house.client, path, "rows") == [10, 10, 30]
    for one in (path, "branch/metrics", "metrics/queries"):
        assert ada.get(f"/api/v1/{one}").status_code == 403


def test_a_token_of_some_tags_sees_and_adds_only_its_datasets(
    house: House, minutes: Minutes
) -> None:
    serve(house, tagged())
    minutes.sample(4, 100)
    minutes.sample(5, 110)
    ada, eve = client_with(house, "ada", tags=("team",)), client_with(house, "eve", tags=("pii",))
    hidden = job_of(house, "Users", AssetKind.HISTORY_FEED).asset.asset_id

    assert series(eve, "branch/metrics", "rows") == [30]
    assert series(ada, "branch/metrics", "rows") == [20]
    assert answer(eve, "datasets/Users/metrics")["span"] == "hour"
    for path in ("datasets/{}/metrics", "jobs/{}/metrics"):
        names = ("Users", "Nobody") if path.startswith("datasets") else (hidden, 999_999)
        found = [ada.get(f"/api/v1/{path.format(name)}") for name in names]
        assert [one.status_code for one in found] == [404, 404]
        assert found[0].text.replace(str(names[0]), str(names[1])) == found[1].text
        page = ada.get(f"/console/{path.format(names[0]).removesuffix('/metrics')}")
        assert page.status_code == 404


def test_no_samples_are_taken_or_stay_without_days_to_keep_them(
    house: House, minutes: Minutes
) -> None:
    serve(house, shop_definitions())
    minutes.sample(3, 100)
    minutes.sample(4, 110)
    assert series(house.client, "datasets/Orders/metrics", "rows") == [10]

    minutes.sample(5, 120, metrics_kept_days=0)

    assert minutes.services(5).ledger.metrics.is_due()
    assert series(house.client, "datasets/Orders/metrics", "rows") == []
