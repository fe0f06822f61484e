# ruff: noqa: ANN001, ANN201, N805
"""A query with `after` waits until its indexes contain the rows of a call of `/log`."""

import shutil
import threading
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

import attrs
import pytest
from typing_extensions import override

from narthex._formats import key_bytes, keyed_row_id, parse_positions, render_positions
from narthex._ir import AssetKind, Fact, IndexSpec, Version
from narthex._sdk.commit_definitions import definitions
from narthex.connectors import Webhook, source
from narthex.datasets import Count, dataset, field, pipeline
from narthex.dtypes import Continuous
from narthex.expr import col
from narthex.featuresets import feature, featureset
from narthex.lib import inputs, meta
from narthex_ledger import Phase, ShardReport
from narthex_server.app import make_app
from narthex_server.reads.__main__ import connect, load_snapshots
from narthex_server.reads.handler import ReadHandler
from narthex_server.reads.pages import ReadPages
from narthex_server.reads.services import ReadServices
from narthex_server.services.branch_snapshots import OpenIndexes
from narthex_server.web.refused_calls import RefusedCalls
from narthex_stores import EndOffsetReader, LmdbIndex, index_store
from tests.cases import every
from tests.server.calling import PlainClient, TestClient
from tests.server.conftest import NOBODY, TOKEN, House, house_at, in_memory, settings_at
from tests.server.driving import SLOTS, serve

pytestmark = pytest.mark.postgres

__owner__ = "tests@narthex.dev"

AT = 1_767_322_800_000_000
bank = Webhook(name="bank")


@source(bank.endpoint("owners"), disorder="30m", cdc="upsert")
@dataset(index=True)
class Owners:
    """The owner of a card."""

    card: str = field(key=True)
    city: str
    at: datetime = field(timestamp=True)


@source(bank.endpoint("limits"), disorder="30m", cdc="upsert")
@meta(tags=["money"])
@dataset(index=True)
class Limits:
    """The limit of a card."""

    card: str = field(key=True)
    limit: int
    at: datetime = field(timestamp=True)


@meta(tags=["~money"])
@dataset(index=True)
class Romans:
    """The cards of Rome, with their limits."""

    card: str = field(key=True)
    city: str
    limit: int | None
    at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Owners, Limits)
    def of_rome(cls, owners, limits):
        return owners.filter(col("city") == "Rome").join(limits, how="left", on=["card"])


@source(bank.endpoint("visits"), disorder="30m", cdc="append")
@dataset
class Visits:
    """A card was used."""

    card: str
    at: datetime = field(timestamp=True)


@dataset(index=True)
class Use:
    """The number of visits with a limit."""

    card: str = field(key=True)
    visits: int
    at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Visits, Limits)
    def of_limited(cls, visits, limits):
        return (
            visits.join(limits, how="inner", on=["card"])
            .groupby("card")
            .aggregate(visits=Count(window=Continuous("forever")))
        )


@featureset
class Card:
    """The features of a card."""

    card: str
    city: str = feature(Owners.city, default="nowhere")
    limit: int = feature(Limits.limit, default=0)
    roman_limit: int = feature(Romans.limit, default=-1)
    visits: int = feature(Use.visits, default=0)


@attrs.define
class Flow:
    """A process that answers reads, and all that moves rows, played by the test.

    Attributes:
        indexes: The indexes, by dataset.
        ends: The end offsets of topics, as Kafka has them.
    """

    house: House
    client: PlainClient
    indexes: dict[str, LmdbIndex]
    server: TestClient
    reads: ReadServices
    ends: dict[str, dict[int, int]] = attrs.field(factory=dict)

    def topic(self, path: str) -> str:
        return self.house.services.snapshots.serving("main").topic(path)

    def log(self, dataset: str) -> str:
        return self.topic(f"dataset/{dataset}/log")

    def after(self, endpoint: str, position: int) -> str:
        return render_positions({self.topic(f"webhook/bank/{endpoint}/ingest"): {0: position}})

    def ask(self, feature: str, after: str) -> Any:
        return self.client.post(
            "/api/v1/query",
            json={
                "inputs": ["Card.card"],
                "outputs": [f"Card.{feature}"],
                "data": {"Card.card": ["a"]},
                "after": after,
            },
            headers={"x-narthex-timeout-ms": "400"},
        )

    def progress(self, after: str, token: str = TOKEN) -> Any:
        """Ask the server what the rows wait for."""
        return self.server.get(
            "/api/v1/log/progress",
            params={"after": after},
            headers={"authorization": f"Bearer {token}"},
        )

    def report(self, path: str, read: Mapping[str, int]) -> None:
        """Report the positions that a job has reached in partition 0 of its topics."""
        asset = self.house.services.snapshots.serving("main").bindings[path]
        leases = self.house.ledger.slots.claim("tests", range(SLOTS))
        epochs = {lease.slot: lease.epoch for lease in leases}
        job = next(j for j in self.house.ledger.jobs.all() if j.asset.asset_id == asset.asset_id)
        offsets = {topic: {"0": position} for topic, position in read.items()}
        refused = self.house.ledger.jobs.report(
            [
                ShardReport(
                    asset_id=asset.asset_id,
                    shard=shard.shard,
                    generation=job.generation,
                    epoch=epochs[shard.slot],
                    phase=Phase.CAUGHT_UP,
                    lag_ms=0,
                    progress={"offsets": offsets},
                )
                for shard in job.shards
            ]
        )
        assert not refused

    def index(self, dataset: str, position: int, *values: Any) -> None:
        """Apply a row of card `a` to an index, up to a position of its log."""
        index = self.indexes[dataset]
        fact = Fact(
            row_id=keyed_row_id(key_bytes(index.spec.log.keys, ("a",)), AT),
            version=Version(position.to_bytes(2, "big")),
            event_time=AT,
            key=("a",),
            values=values,
        )
        index.apply([fact], offsets={(self.log(dataset), 0): position}, epoch=1)


def open_indexes(house: House) -> dict[str, LmdbIndex]:
    """Open the indexes by dataset; a process opens an index once, to write and to read."""
    found: dict[str, LmdbIndex] = {}
    for name in ("Owners", "Limits", "Romans", "Use"):
        asset = house.services.snapshots.serving("main").bindings[f"dataset/{name}/index"]
        assert isinstance(asset.spec, IndexSpec)
        directory = house.services.settings.index_dir / asset.physical_name
        found[name] = LmdbIndex(directory, asset.spec)
    return found


class KnownEnds(EndOffsetReader):
    """The ends of topics that a test appends to without a broker."""

    def __init__(self, broker: str) -> None:
        super().__init__(broker)
        self.known: dict[str, dict[int, int]] = {}

    @override
    def ends(self, topics: Iterable[str], *, timeout_s: float = 10.0) -> dict[str, dict[int, int]]:
        del timeout_s
        return {topic: self.known[topic] for topic in topics if topic in self.known}


@pytest.fixture
def flow(tmp_path_factory: pytest.TempPathFactory, ledger_dsn: str) -> Iterator[Flow]:
    settings = settings_at(tmp_path_factory.mktemp("after"), dsn=ledger_dsn, kafka=NOBODY)
    adapters = in_memory() | {AssetKind.INDEX: index_store(settings).adapter()}
    with house_at(settings, adapters=adapters) as house:
        serve(house, definitions([Owners, Limits, Romans, Visits, Use], [Card]))
        ends = KnownEnds(NOBODY)
        services = attrs.evolve(connect(settings), ends=ends)
        indexes = open_indexes(house)
        opened = {index.path.name: index for index in indexes.values()}
        services.snapshots.indexes = OpenIndexes(index_store(settings), opened)
        load_snapshots(services)
        handler = ReadHandler(services, otherwise=ReadPages(services), refused=RefusedCalls())
        client = PlainClient(handler, headers={"authorization": f"Bearer {TOKEN}"})
        served = attrs.evolve(house.services, ends=ends, snapshots=services.snapshots)
        server = TestClient(make_app(served), headers=house.client.headers)
        made = Flow(house, client, indexes, server, services, ends.known)
        for name, values in {"Owners": ("Oslo",), "Limits": (1,), "Romans": ("Oslo", 1)}.items():
            made.index(name, 1, *values)
        yield made
        handler.close()
        services.close()
        client.close()
        server.close()
        for index in indexes.values():
            index.close()


def test_a_query_waits_for_the_source_and_then_for_the_index(flow: Flow) -> None:
    after = flow.after("owners", 5)
    ingest = flow.topic("webhook/bank/owners/ingest")
    flow.ends[flow.log("Owners")] = {0: 3}

    unread = flow.ask("city", after)
    flow.report("job/Owners/source/0", {ingest: 4})
    still_unread = flow.ask("city", after)
    flow.report("job/Owners/source/0", {ingest: 5})
    unindexed = flow.ask("city", after)
    flow.index("Owners", 3, "Rome")
    answer = flow.ask("city", after)

    assert [one.status_code for one in (unread, still_unread, unindexed)] == [409] * 3
    assert unread.json()["err_msg"] == (
        "`Owners` does not contain the rows yet: a job before it has 5 records to read"
    )
    assert "a job before it has 1 records to read" in still_unread.json()["err_msg"]
    assert "its index has 2 records to read" in unindexed.json()["err_msg"]
    assert (answer.status_code, answer.json()) == (200, {"Card.city": ["Rome"]})


def test_a_query_that_waits_is_answered_once_the_rows_are_there(flow: Flow) -> None:
    ingest = flow.topic("webhook/bank/owners/ingest")
    flow.ends[flow.log("Owners")] = {0: 2}
    flow.report("job/Owners/source/0", {ingest: 1})
    later = threading.Timer(0.2, lambda: flow.index("Owners", 2, "Rome"))
    later.start()

    answer = flow.ask("city", flow.after("owners", 1))

    later.join()
    assert answer.json() == {"Card.city": ["Rome"]}


@pytest.mark.slow
def test_a_token_that_ends_while_its_query_waits_gets_no_answer(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("narthex_server.security.known_tokens.KNOWN_S", 0.0)
    monkeypatch.setattr("narthex_server.reads.handler.AUTHORIZED_S", 0.0)
    flow.house.ledger.tokens.put("nx_reader", name="reader", scopes=("reader",))
    ingest = flow.topic("webhook/bank/owners/ingest")
    flow.ends[flow.log("Owners")] = {0: 2}
    flow.report("job/Owners/source/0", {ingest: 1})

    def end() -> None:
        flow.house.ledger.tokens.revoke("nx_reader")
        flow.index("Owners", 2, "Rome")

    later = threading.Timer(0.2, end)
    later.start()
    answer = flow.client.post(
        "/api/v1/query",
        json={
            "inputs": ["Card.card"],
            "outputs": ["Card.city"],
            "data": {"Card.card": ["a"]},
            "after": flow.after("owners", 1),
        },
        headers={"authorization": "Bearer nx_reader", "x-narthex-timeout-ms": "30000"},
    )

    later.join()
    assert answer.status_code == 401, answer.text


def test_a_query_of_a_pipeline_waits_for_the_inputs_that_the_rows_reach(flow: Flow) -> None:
    ingest = flow.topic("webhook/bank/limits/ingest")
    flow.ends |= {flow.log("Limits"): {0: 3}, flow.log("Romans"): {0: 5}}
    after = flow.after("limits", 7)

    seen = [flow.ask("roman_limit", after).status_code]
    flow.report("job/Limits/source/0", {ingest: 7})
    seen.append(flow.ask("roman_limit", after).status_code)
    flow.report("job/Romans/pipeline/of_rome", {flow.log("Limits"): 3})
    seen.append(flow.ask("roman_limit", after).status_code)
    flow.index("Romans", 5, "Rome", 9)
    answer = flow.ask("roman_limit", after)

    assert seen == [409, 409, 409]
    assert answer.json() == {"Card.roman_limit": [9]}
    assert flow.ask("roman_limit", flow.after("owners", 1)).status_code == 409


@pytest.mark.slow
def test_a_query_of_a_join_waits_until_corrections_of_the_right_side_are_read(flow: Flow) -> None:
    ingest, corrections = (
        flow.topic("webhook/bank/limits/ingest"),
        flow.topic("dataset/Limits/touched"),
    )
    flow.ends |= {
        flow.log("Limits"): {0: 3},
        corrections: {0: 4},
        flow.log("Use"): {0: 6},
    }
    after = flow.after("limits", 7)

    def missing() -> str:
        return flow.ask("visits", after).json()["err_msg"].partition(": ")[2]

    seen = [missing()]
    flow.report("job/Limits/source/0", {ingest: 7})
    seen.append(missing())
    flow.report("dataset/Limits/index_feed", {flow.log("Limits"): 3})
    seen.append(missing())
    flow.report("job/Use/pipeline/of_limited", {corrections: 4})
    seen.append(missing())

    assert seen == [
        "a job before it has 7 records to read",
        "a job before it has 3 records to read",
        "a job before it has 4 records to read",
        "its index has 6 records to read",
    ]


@pytest.mark.slow
def test_rows_that_do_not_reach_a_dataset_are_not_awaited(flow: Flow) -> None:
    assert flow.ask("limit", flow.after("owners", 5)).json() == {"Card.limit": [1]}


@pytest.mark.slow
def test_a_person_waits_for_all_indexes_that_the_rows_reach(flow: Flow) -> None:
    after = flow.after("owners", 1)
    flow.ends |= {flow.log("Owners"): {0: 2}, flow.log("Romans"): {0: 3}}

    seen = [flow.progress(after).json()["waits_for"]]
    flow.report("job/Owners/source/0", {flow.topic("webhook/bank/owners/ingest"): 1})
    seen.append(flow.progress(after).json()["waits_for"])
    flow.index("Owners", 2, "Rome")
    seen.append(flow.progress(after).json()["waits_for"])
    flow.report("job/Romans/pipeline/of_rome", {flow.log("Owners"): 2})
    flow.index("Romans", 3, "Rome", 1)
    seen.append(flow.progress(after).json()["waits_for"])

    assert seen == [
        "`Owners` does not contain the rows yet: a job before it has 1 records to read",
        "`Owners` does not contain the rows yet: its index has 1 records to read",
        "`Romans` does not contain the rows yet: a job before it has 2 records to read",
        None,
    ]
    assert flow.progress("1.x").status_code == 400


def test_rows_that_came_later_are_not_awaited(flow: Flow) -> None:
    flow.ends[flow.log("Owners")] = {0: 2}
    flow.report("job/Owners/source/0", {flow.topic("webhook/bank/owners/ingest"): 1})
    flow.report("job/Romans/pipeline/of_rome", {flow.log("Owners"): 2})
    first = flow.progress(flow.after("owners", 1)).json()
    flow.ends[flow.log("Owners")] = {0: 9}
    flow.index("Owners", 2, "Rome")

    again = flow.progress(flow.after("owners", 1)).json()
    next_of_first = flow.progress(first["after"]).json()

    assert first["waits_for"] is not None
    assert again["waits_for"] == (
        "`Owners` does not contain the rows yet: its index has 7 records to read"
    )
    assert next_of_first["waits_for"] is None


def test_only_datasets_that_a_token_may_read_are_named(flow: Flow) -> None:
    token = "nx_tests_of_romans"
    flow.house.ledger.tokens.put(token, name="rome", scopes=("reader",), tags=("team-*",))
    flow.ends |= {flow.log("Limits"): {0: 3}, flow.log("Romans"): {0: 5}}
    flow.report("job/Limits/source/0", {flow.topic("webhook/bank/limits/ingest"): 7})
    flow.report("job/Romans/pipeline/of_rome", {flow.log("Limits"): 3})
    after = flow.after("limits", 7)

    whole, narrow = flow.progress(after).json(), flow.progress(after, token).json()

    assert "`Limits` does not" in whole["waits_for"]
    assert "`Romans` does not" in narrow["waits_for"]
    assert flow.log("Limits") in parse_positions(whole["after"])
    assert parse_positions(narrow["after"]).keys() == {
        flow.topic("webhook/bank/limits/ingest"),
        flow.log("Romans"),
    }


@pytest.mark.slow
def test_rows_are_not_awaited_in_an_index_that_is_missing(flow: Flow) -> None:
    flow.ends[flow.log("Owners")] = {0: 2}
    flow.report("job/Owners/source/0", {flow.topic("webhook/bank/owners/ingest"): 1})
    after = flow.after("owners", 1)
    flow.indexes["Owners"].close()
    shutil.rmtree(flow.indexes["Owners"].path)
    flow.reads.snapshots.serving("main").indexes = OpenIndexes(
        index_store(flow.house.services.settings)
    )

    answers = [flow.ask("city", after), flow.progress(after)]

    assert [one.status_code for one in answers] == [503, 503]
    assert "the index of `Owners` is missing" in answers[0].json()["err_msg"]


@every("after", ["", "1.", "x", "1.bm90IGpzb24", "1.WzFd", "2.e30", "1.eyJhIjpbXX0"])
def test_a_text_without_positions_is_refused(flow: Flow, after: str) -> None:
    answer = flow.ask("city", after)

    assert answer.status_code == 400
    assert "`after` is not a text that `/log` returned" in answer.json()["err_msg"]
