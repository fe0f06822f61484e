# ruff: noqa: ANN001, ANN202, N805
"""The metrics of sources and sinks over time: of jobs that run, by rights, and on their pages."""

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from urllib.parse import quote, urljoin

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from narthex._ir import (
    AssetKind,
    Definitions,
    PipelineJobSpec,
    ResolvedAsset,
    SinkJobSpec,
    SourceJobSpec,
)
from narthex._sdk.commit_definitions import definitions
from narthex.connectors import Kafka, Webhook, sink, source
from narthex.datasets import dataset, field, pipeline
from narthex.expr import col
from narthex.lib import inputs
from narthex_server.security.route_rights import Right
from narthex_stores import LogProducer, LogReader
from tests.server.calling import TestClient
from tests.server.conftest import House, house_at, settings_at
from tests.server.console.test_console import ParsedPage, look
from tests.server.driving import serve
from tests.server.operations.test_watermark_rounds import report
from tests.server.sampled_minutes import Minutes
from tests.server.security.test_visibility import said
from tests.shared_services import fresh_number
from tests.spark_apps import spark_jobs

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

__owner__ = "shop@narthex.dev"
SHOUTED = "told"
MAY_WRITE = f'[[topics]]\nname = "{SHOUTED}"\nbranches = ["main"]\nwrite = true\n'
HOSTILE = "<img src=x onerror=alert(1)>"
IDLE_S = 1.0


def shop(*, target: str = "", endpoint: str = "orders") -> Definitions:
    """A dataset with a source; with a target, another one with its rows is written there."""

    @source(Webhook(name="shop").endpoint(endpoint), disorder="1d", cdc="append")
    @dataset
    class Orders:
        user: str
        quantity: int
        at: datetime = field(timestamp=True)

    if not target:
        return definitions([Orders], [])

    @sink(Kafka("bus", "").topic(target), cdc="debezium")
    @dataset
    class Kept:
        user: str
        quantity: int
        at: datetime = field(timestamp=True)

        @pipeline
        @inputs(Orders)
        def all(cls, orders):
            return orders.filter(col("user") != "")

    return definitions([Orders, Kept], [])


def two_readers() -> Definitions:
    """Two datasets that read one source; one of them is secret."""
    orders = source(Webhook(name="shop").endpoint("orders"), disorder="1d", cdc="append")

    @orders
    @dataset
    class Orders:
        user: str
        at: datetime = field(timestamp=True)

    @orders
    @dataset
    class Baskets:
        user: str
        basket: str
        at: datetime = field(timestamp=True)

    return said(definitions([Orders, Baskets], []), "Baskets", "secret")


def job_asset(house: House, kind: type, dataset: str = "Orders") -> ResolvedAsset:
    (found,) = (
        job.asset
        for job in house.ledger.jobs.all()
        if isinstance(job.asset.spec, kind) and job.asset.spec.dataset == dataset
    )
    assert found.kind is AssetKind.STREAM_JOB
    return found


def series(client: TestClient, of: str, name: str) -> dict[str, list[float | None]]:
    """Return the known values of the metrics of a source or a sink, from the first minute on."""
    answer = client.get(f"/api/v1/{of}/metrics", params={"name": name, "span": "hour"})
    assert answer.status_code == 200, answer.text
    found: dict[str, list[float | None]] = {}
    for line in answer.json()["series"]:
        known = [place for place, value in enumerate(line["values"]) if value is not None]
        found[line["name"]] = line["values"][known[0] : known[-1] + 1] if known else []
    return found


@pytest.fixture
def live_shop(
    tmp_path_factory: pytest.TempPathFactory, ledger_dsn: str, kafka_bootstrap: str
) -> Iterator[House]:
    """A shop on a real broker, with a source and a sink whose jobs the test runs."""
    home, number = tmp_path_factory.mktemp("plotted"), fresh_number()
    topic = f"{SHOUTED}{number}"
    settings = settings_at(home, dsn=ledger_dsn, kafka=kafka_bootstrap)
    settings.policy_file.write_text(
        f'[[topics]]\nname = "{topic}"\nbranches = ["main"]\nwrite = true\n'
    )
    admin = AdminClient({"bootstrap.servers": kafka_bootstrap})
    admin.create_topics([NewTopic(topic, num_partitions=1)])[topic].result(30.0)
    with ExitStack() as closing:
        closing.callback(lambda: admin.delete_topics([topic])[topic].result(30.0))
        house = closing.enter_context(house_at(settings))
        serve(house, shop(target=topic))
        yield house


@contextmanager
def sampled(house: House) -> Iterator[Minutes]:
    minutes = Minutes(house)
    try:
        yield minutes
    finally:
        for ledger in minutes.opened:
            ledger.close()


def order(number: int, **other: object) -> dict[str, object]:
    return {"user": "ann", "quantity": number, "at": 1_777_622_400_000_000 + number} | other


@pytest.mark.kafka
def test_the_plots_of_a_source_and_a_sink_show_what_their_jobs_have_done(
    live_shop: House,
) -> None:
    settings = live_shop.services.settings
    reads, writes = job_asset(live_shop, SourceJobSpec), job_asset(live_shop, SinkJobSpec, "Kept")
    ingest = reads.need("input").physical_name
    copied: set[tuple[int, int]] = set()
    calls = ([order(1)], [order(2), order(3), order(4), order(5, quantity="many")])
    with (
        sampled(live_shop) as minutes,
        LogProducer(settings.kafka) as producer,
        spark_jobs.live_asset(reads, settings) as reader,
        spark_jobs.live_asset(writes, settings) as writer,
    ):
        for number, rows in enumerate(calls, start=1):
            producer.append(ingest, value=json.dumps({"rows": rows}).encode(), key=b"").result(30.0)
            read = spark_jobs.wait_caught_up(reader, number)
            copy(settings.kafka, reads, writes, copied)
            written = spark_jobs.wait_caught_up(writer, len(copied))
            progress = {reads.asset_id: read.progress, writes.asset_id: written.progress}
            report(live_shop, progress)
            minutes.sample(2 + number, None)

    (one,) = live_shop.client.get("/api/v1/sinks").json()["sinks"]
    of_source = series(live_shop.client, "sources", "webhook:shop/orders")
    of_sink = series(live_shop.client, "sinks", one["name"])
    # The first sample knows no growth: what was read before it is of an unknown time.
    assert of_source["rows"] == [4.0]
    assert of_source["quarantined"] == [1.0]
    assert of_source["behind"] == [0.0, 0.0]
    assert of_source["restarts"] == [0.0]
    assert of_sink["rows"] == [3.0]
    assert of_sink["behind"] == [0.0, 0.0]
    for found in (of_source, of_sink):
        # A report rounds it to half a minute, and the clock of the test is a minute ahead or less.
        assert len(found["since_success"]) == 2
        assert all(one is not None and 0 <= one < 120 for one in found["since_success"])
    seen = look(live_shop.client, "/console/sources?of=webhook:shop/orders&span=hour")
    assert re.search(r"Rows read per minute latest \S+( rows/min)?, at most 4 rows/min", seen.text)
    assert "Quarantined rows 1 rows in all" in seen.text
    seen = look(live_shop.client, f"/console/sinks?of={quote(one['name'])}&span=hour")
    assert re.search(
        r"Rows written per minute latest \S+( rows/min)?, at most 3 rows/min", seen.text
    )


def copy(kafka: str, of: ResolvedAsset, to: ResolvedAsset, copied: set[tuple[int, int]]) -> None:
    """Append the new rows of a source's log to that of a sink, as a pipeline does."""
    log, other = of.need("output").physical_name, to.need("input:Kept").physical_name
    with LogReader(kafka) as reader, LogProducer(kafka) as producer:
        reader.assign(reader.first_offsets([log]))
        while records := reader.poll(max_records=100, timeout_s=IDLE_S):
            for record in records:
                if (place := (record.partition, record.offset)) not in copied:
                    producer.append(other, value=record.value, key=record.key).result(30.0)
                    copied.add(place)


def pictures(seen: ParsedPage) -> list[str]:
    return [
        str(found["aria-labelledby"]).partition("-title")[0]
        for tag, found in seen.tags
        if tag == "svg"
    ]


def test_a_page_of_a_source_has_its_plots_and_links_to_their_json(
    house: House, minutes: Minutes
) -> None:
    serve(house, shop(endpoint=HOSTILE))
    asset = job_asset(house, SourceJobSpec)
    for minute, rows in ((3, 10), (4, 40), (5, 45)):
        done = {"rows": rows, "quarantined": rows // 10, "behind": 2, "restarts": 0, "offsets": {}}
        report(house, {asset.asset_id: done})
        minutes.sample(minute, None)
    name = f"webhook:shop/{HOSTILE}"

    here = f"/console/sources?of={quote(name)}&span=hour"
    seen = look(house.client, here)

    assert series(house.client, "sources", name)["rows"] == [30, 5]
    assert "Quarantined rows 3 rows in all" in seen.text
    assert pictures(seen) == ["behind", "rows", "quarantined", "restarts"]
    unknown = "age of the oldest unread record, age of the newest row, time since it last worked"
    assert f"No samples in this span: {unknown}." in seen.text
    assert [tag for tag, _ in seen.tags if tag == "img"] == []
    (twin,) = [link for link in seen.links() if "/sources/metrics?" in link]
    found = house.client.get(urljoin(here, twin))
    assert found.json()["span"] == "hour"
    assert [line["name"] for line in found.json()["series"]][:2] == ["lag", "behind"]
    spans = [link for link in seen.links() if "span=month" in link]
    assert spans
    look(house.client, urljoin(here, spans[0]))


def test_a_source_without_reports_has_no_plots_and_an_unknown_one_is_refused(house: House) -> None:
    serve(house, shop())
    unknown = {"name": "webhook:shop/nothing"}

    seen = look(house.client, "/console/sources?of=webhook:shop/orders")

    assert "No samples in this span: age of the oldest unread record" in seen.text
    for path in ("sources/metrics", "sinks/metrics"):
        assert house.client.get(f"/api/v1/{path}", params=unknown).status_code == 404
        assert house.client.get(f"/api/v1/{path}").status_code == 400
        wrong = {"name": "webhook:shop/orders", "span": "year"}
        assert house.client.get(f"/api/v1/{path}", params=wrong).status_code == 400


def test_jobs_of_one_source_are_added_for_those_who_see_it_and_unknown_to_all_others(
    house: House, minutes: Minutes
) -> None:
    serve(house, two_readers())
    jobs = [job_asset(house, SourceJobSpec, name).asset_id for name in ("Orders", "Baskets")]
    for minute, rows in ((4, 10), (5, 40)):
        behind = [{"rows": rows, "behind": 3}, {"rows": 10 * rows, "behind": 4}]
        report(house, dict(zip(jobs, behind, strict=True)))
        minutes.sample(minute, None)
    token = "nx_tests_ada"
    house.ledger.tokens.put(token, name="ada", scopes=tuple(Right), tags=("team",))
    ada = TestClient(house.client.app, headers={"authorization": f"Bearer {token}"})

    found = series(house.client, "sources", "webhook:shop/orders")
    names = ("webhook:shop/orders", "webhook:shop/nobody")
    refused = [ada.get("/api/v1/sources/metrics", params={"name": name}) for name in names]

    assert (found["rows"], found["behind"]) == ([330], [7, 7])
    assert [one.status_code for one in refused] == [404, 404]
    assert refused[0].text.replace(*names) == refused[1].text
    look(ada, "/console/sources?of=webhook:shop/orders", status=404)


def test_a_branch_shows_the_jobs_of_its_own_sources(house: House, minutes: Minutes) -> None:
    dev = {"x-narthex-branch": "dev"}
    serve(house, shop())
    house.client.post("/api/v1/init", json={}, headers=dev)
    serve(house, said(shop(), "Orders", "other"), **dev)
    asset = job_asset(house, SourceJobSpec)
    for minute, rows in ((4, 10), (5, 40)):
        report(house, {asset.asset_id: {"rows": rows}})
        minutes.sample(minute, None)

    assert series(house.client, "sources", "webhook:shop/orders")["rows"] == [30]
    other = TestClient(house.client.app, headers={**house.client.headers, **dev})
    assert series(other, "sources", "webhook:shop/orders")["rows"] == [30]


def test_the_page_of_a_job_links_to_what_it_reads_and_writes(house: House) -> None:
    house.services.settings.policy_file.write_text(MAY_WRITE)
    serve(house, shop(target=SHOUTED))
    pipeline_id = job_asset(house, PipelineJobSpec, "Kept").asset_id
    flows = {
        job_asset(house, SourceJobSpec).asset_id: (r"sources\?.*of=webhook", "datasets/Orders"),
        pipeline_id: ("datasets/Orders", "datasets/Kept"),
        job_asset(house, SinkJobSpec, "Kept").asset_id: ("datasets/Kept", r"sinks\?.*of=kafka"),
    }

    for asset_id, places in flows.items():
        links = look(house.client, f"/console/jobs/{asset_id}").links()
        for place in places:
            assert [one for one in links if re.search(f"/console/{place}", one)], (asset_id, links)
    house.client.post("/api/v1/init", json={}, headers={"x-narthex-branch": "dev"})
    other = look(house.client, f"/console/jobs/{pipeline_id}?branch=dev")
    assert [one for one in other.links() if "datasets/" in one] == []
