# ruff: noqa: ANN001, ANN201, ARG002, N805
"""Queries and lookups are answered from what the process knows, whatever else is away."""

import asyncio
import gc
import json
import threading
import time
from collections.abc import Callable, Iterator, MutableMapping
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import attrs
import pytest
import sqlalchemy as sa
from fastapi.routing import APIRoute

from narthex._formats import key_bytes, keyed_row_id
from narthex._ir import AssetKind, Fact, IndexSpec, Version
from narthex._sdk.commit_definitions import definitions
from narthex.connectors import Webhook, source
from narthex.datasets import dataset, field
from narthex.featuresets import extractor, feature, featureset
from narthex.lib import inputs, outputs
from narthex_ledger import Ledger, LedgerError
from narthex_server.app import make_routes
from narthex_server.operations.usage_sampling import UsageSampling
from narthex_server.reads import follower
from narthex_server.reads import handler as read_handler
from narthex_server.reads.__main__ import connect, load_snapshots
from narthex_server.reads.handler import ReadHandler
from narthex_server.reads.pages import ReadPages
from narthex_server.reads.services import ReadServices
from narthex_server.services import branch_snapshots
from narthex_server.services.branch_snapshots import SnapshotCache
from narthex_server.services.read_instants import reads_loop, store_reads
from narthex_server.web.refused_calls import RefusedCalls
from narthex_stores import LmdbIndex, index_store
from tests.cases import every
from tests.server.calling import PlainClient
from tests.server.conftest import NOBODY, TOKEN, House, house_at, in_memory, settings_at
from tests.server.driving import catch_up, deploy, serve, shown
from tests.server.reads.slow_network import HangingProxy, hanging_proxy
from tests.server.security.test_tampering import write

pytestmark = pytest.mark.postgres

__owner__ = "tests@narthex.dev"

AT = 1_767_322_800_000_000
AS_OF = "2026-01-02T04:00:00Z"


@source(Webhook(name="bank").endpoint("owners"), disorder="30m", cdc="upsert")
@dataset(index=True)
class Owners:
    """The owner of a card."""

    card: str = field(key=True)
    city: str
    at: datetime = field(timestamp=True)


@featureset
class Card:
    """The features of a card."""

    card: str
    city: str = feature(Owners.city, default="nowhere")
    length: int

    @extractor
    @inputs("city")
    @outputs("length")
    def measure(cls, ts, city):
        return city.str.len().rename("length")

    slow_length: int

    @extractor
    @inputs("city")
    @outputs("slow_length")
    def measure_slowly(cls, ts, city):
        sum(range(5_000_000))
        return city.str.len().rename("slow_length")


@featureset
class AddedCard:
    """A featureset of a later commit."""

    card: str
    city: str = feature(Owners.city, default="unknown")


QUESTION: dict[str, Any] = {
    "inputs": ["Card.card"],
    "outputs": ["Card.city"],
    "data": {"Card.card": ["a", "b"]},
    "as_of": AS_OF,
}
ANSWER = {"Card.city": ["Rome", "nowhere"]}
ADDED = QUESTION | {
    "inputs": ["AddedCard.card"],
    "outputs": ["AddedCard.city"],
    "data": {"AddedCard.card": ["a", "b"]},
}


@attrs.frozen
class Reads:
    """A process that only reads, of a house whose database is reached through a proxy."""

    house: House
    services: ReadServices
    handler: ReadHandler
    client: PlainClient
    proxy: HangingProxy


@pytest.fixture
def reads(tmp_path_factory: pytest.TempPathFactory, ledger_dsn: str) -> Iterator[Reads]:
    home = tmp_path_factory.mktemp("reads")
    settings = settings_at(home, dsn=ledger_dsn, kafka=NOBODY)
    adapters = in_memory() | {AssetKind.INDEX: index_store(settings).adapter()}
    url = sa.make_url(ledger_dsn)
    with (
        house_at(settings, adapters=adapters) as house,
        hanging_proxy(str(url.host), int(url.port or 0)) as proxy,
    ):
        serve(house, definitions([Owners], [Card]))
        asset = house.services.snapshots.serving("main").bindings["dataset/Owners/index"]
        assert isinstance(asset.spec, IndexSpec)
        index = LmdbIndex(settings.index_dir / asset.physical_name, asset.spec)
        index.apply([_owner(index.spec, "a", "Rome")], offsets={("t", 0): 7}, epoch=1)
        index.close()
        proxied = url.set(host="127.0.0.1", port=proxy.port)
        services = connect(
            attrs.evolve(settings, ledger_dsn=proxied.render_as_string(hide_password=False))
        )
        load_snapshots(services)
        following = services.follower()
        following.start()
        handler = ReadHandler(services, otherwise=ReadPages(services), refused=RefusedCalls())
        client = PlainClient(handler, headers={"authorization": f"Bearer {TOKEN}"})
        try:
            yield Reads(house, services, handler, client, proxy)
        finally:
            proxy.flow()
            following.stop()
            handler.close()
            services.workers.close()
            client.close()


def _owner(spec: IndexSpec, card: str, city: str) -> Fact:
    row_id = keyed_row_id(key_bytes(spec.log.keys, (card,)), AT)
    return Fact(row_id=row_id, version=Version(b"1"), event_time=AT, key=(card,), values=(city,))


def ask(reads: Reads, **more: Any) -> Any:
    return reads.client.post("/api/v1/query", json=QUESTION | more)


def wait_until(holds: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + 30.0
    while not holds():
        assert time.monotonic() < ends_at
        time.sleep(0.02)


@pytest.mark.slow
def test_a_query_is_answered_while_the_database_hangs(reads: Reads) -> None:
    reads.proxy.hang()
    wait_until(lambda: (reads.services.snapshots.age_s or 0.0) > 2.0)

    answer = ask(reads)
    found = reads.client.post(
        "/api/v1/dataset/Owners/lookup", json={"keys": [{"card": "a"}], "fields": ["city"]}
    )

    assert (answer.status_code, answer.json()) == (200, ANSWER)
    assert found.json() == {"found": [True], "data": {"city": ["Rome"]}}
    assert float(answer.headers["x-narthex-snapshot-age"]) >= 1.0
    health = reads.client.get("/healthz")
    assert (health.status_code, health.json()["status"]) == (200, "ok")
    assert "narthex_snapshot_age_seconds" in reads.client.get("/api/v1/metrics").text


def test_a_query_reads_the_commit_that_was_just_promoted(
    reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Between two refreshes, as long as the test lasts.
    monkeypatch.setattr(branch_snapshots, "REFRESH_S", 3600.0)
    house = reads.house
    assert house.client.post("/api/v1/query", json=QUESTION).json() == ANSWER
    commit_id = deploy(house.client, definitions([Owners], [Card, AddedCard]))
    catch_up(house)
    house.services.executor.promote(UUID(commit_id))  # as the recovery does, beside the server
    assert shown(house.client, commit_id)["promotion"] == "DONE"

    answer = house.client.post("/api/v1/query", json=ADDED)

    assert (answer.status_code, answer.json()) == (200, {"AddedCard.city": ["Rome", "unknown"]})


@pytest.mark.slow
def test_a_token_that_was_used_is_known_while_the_database_hangs(reads: Reads) -> None:
    reads.house.ledger.tokens.put("nx_known", name="reader", scopes=("reader",))
    bearer = {"authorization": "Bearer nx_known"}
    assert reads.client.post("/api/v1/query", json=QUESTION, headers=bearer).status_code == 200
    wait_until(lambda: reads.services.tokens.is_followed)
    reads.proxy.hang()
    wait_until(lambda: (reads.services.snapshots.age_s or 0.0) > 3.0)

    assert reads.client.post("/api/v1/query", json=QUESTION, headers=bearer).status_code == 200


def test_a_revoked_token_is_refused_within_seconds(reads: Reads) -> None:
    reads.house.ledger.tokens.put("nx_known", name="reader", scopes=("reader",))
    bearer = {"authorization": "Bearer nx_known"}
    assert reads.client.post("/api/v1/query", json=QUESTION, headers=bearer).status_code == 200

    reads.house.ledger.tokens.revoke("nx_known")

    def is_refused() -> bool:
        answer = reads.client.post("/api/v1/query", json=QUESTION, headers=bearer)
        return bool(answer.status_code == 401)

    wait_until(is_refused)


@pytest.mark.slow
def test_unknown_tokens_keep_no_other_request_waiting_while_the_database_hangs(
    reads: Reads,
) -> None:
    reads.proxy.hang()
    unknown = [
        threading.Thread(
            target=reads.client.post,
            args=("/api/v1/query",),
            kwargs={"json": QUESTION, "headers": {"authorization": f"Bearer nx_{number}"}},
        )
        for number in range(2 * read_handler.THREADS)
    ]
    for thread in unknown:
        thread.start()

    assert ask(reads, outputs=["Card.length"]).json() == {"Card.length": [4, 7]}

    reads.proxy.flow()
    for thread in unknown:
        thread.join()


@pytest.mark.slow
def test_a_commit_that_was_tampered_with_does_not_replace_the_one_that_serves(
    reads: Reads,
) -> None:
    assert ask(reads).json() == ANSWER
    reads.proxy.hang()
    new = serve(reads.house, definitions([Owners], []))
    write(reads.house, "UPDATE deploy_commit SET signature = NULL WHERE commit_id = :new", new=new)
    reads.proxy.flow()
    began = time.monotonic()
    wait_until(lambda: time.monotonic() - began > 3.0)

    assert ask(reads).json() == ANSWER
    assert float(ask(reads).headers["x-narthex-snapshot-age"]) >= 3.0
    assert (reads.services.snapshots.age_s or 9.0) < 3.0


def test_reads_are_refused_when_the_definitions_are_too_old(reads: Reads) -> None:
    reads.services.snapshots.greatest_age_s = 0.5
    reads.proxy.hang()
    wait_until(lambda: ask(reads).status_code == 503)

    assert "`reads_greatest_age_s`" in ask(reads).json()["err_msg"]


def test_readers_see_a_new_commit_soon_after_its_promotion(reads: Reads) -> None:
    assert ask(reads, outputs=["Card.length"]).json() == {"Card.length": [4, 7]}
    before = json.loads(ask(reads).headers["x-narthex-read"])["commit_id"]

    after = serve(reads.house, definitions([Owners], []))

    wait_until(lambda: ask(reads).status_code == 400)
    assert after != before
    assert "feature `Card.city` is not known" in ask(reads).json()["err_msg"]


def test_a_new_commit_is_announced_and_not_polled_for(
    reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "BRANCHES_S", 3600.0)
    time.sleep(1.1)  # the pause that began before has ended

    serve(reads.house, definitions([Owners], []))

    wait_until(lambda: ask(reads).status_code == 400)


@pytest.mark.slow
def test_assets_of_a_manifest_are_read_once(reads: Reads) -> None:
    manifests, snapshots = reads.services.ledger.manifests, reads.services.snapshots
    before = manifests.get(snapshots.serving("main").manifest_id)
    serve(reads.house, definitions([Owners], [Card, AddedCard]))
    snapshots.forget()
    after = manifests.get(snapshots.serving("main").manifest_id)

    assert after.manifest_id != before.manifest_id
    assert set(after.bindings) >= set(before.bindings)
    assert all(after.bindings[path] is asset for path, asset in before.bindings.items())


@pytest.mark.slow
def test_a_commit_is_loaded_without_a_scan_of_all_objects(
    reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    scanned: list[int] = []
    loading: list[int] = []
    load = SnapshotCache._load  # noqa: SLF001 - the load alone is observed

    def note(phase: str, info: dict[str, int]) -> None:
        if loading and phase == "start":
            scanned.append(info["generation"])

    def loaded(cache: SnapshotCache, *given: Any) -> Any:
        loading.append(1)
        try:
            return load(cache, *given)
        finally:
            loading.pop()

    monkeypatch.setattr(SnapshotCache, "_load", loaded)
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    gc.set_threshold(10, 2, 2)
    gc.callbacks.append(note)
    try:
        serve(reads.house, definitions([Owners], [Card, AddedCard]))
        wait_until(lambda: reads.client.post("/api/v1/query", json=ADDED).status_code == 200)
    finally:
        gc.callbacks.remove(note)
        gc.set_threshold(*before)

    assert scanned == []
    assert gc.isenabled()
    assert gc.get_freeze_count() > frozen


def test_an_explained_answer_has_the_offsets_that_it_was_read_at(reads: Reads) -> None:
    explained = ask(reads, explain=True).json()

    assert explained["answers"] == ANSWER
    assert explained["read"]["offsets"] == {"Owners": {"t": {"0": 7}}}
    assert explained["features"] == {
        "Card.city": {
            "sources": ["Owners.city"],
            "event_time": ["2026-01-02T03:00:00.000000Z", None],
            "age_s": [3600.0, None],
            "default": [False, True],
        }
    }
    assert "offsets" not in json.loads(ask(reads).headers["x-narthex-read"])


def test_a_process_is_healthy_before_any_commit(tmp_path: Path, ledger_dsn: str) -> None:
    settings = settings_at(tmp_path, dsn=ledger_dsn, kafka=NOBODY)
    with house_at(settings, adapters=in_memory()):
        services = connect(settings)
        client = PlainClient(ReadPages(services))
        assert client.get("/healthz").status_code == 503

        services.snapshots.refresh()

        assert client.get("/healthz").status_code == 200
        services.close()
        client.close()


def test_a_query_of_too_many_values_is_refused_with_the_limit(reads: Reads) -> None:
    limited = attrs.evolve(
        reads.services, settings=attrs.evolve(reads.services.settings, reads_greatest_values=3)
    )
    handler = ReadHandler(limited, otherwise=ReadPages(limited), refused=RefusedCalls())
    client = PlainClient(handler, headers={"authorization": f"Bearer {TOKEN}"})

    answer = client.post(
        "/api/v1/query", json=QUESTION | {"data": {"Card.card": ["a", "b", "c", "d"]}}
    )

    handler.close()
    assert answer.status_code == 413
    assert "asks for 4 values" in answer.json()["err_msg"]
    assert answer.json()["detail"] == {"greatest_rows": 3}


@every(
    ("body", "said"),
    [
        (b"{", "truncated"),
        (b'{"inputs":["a"],"outputs":[],"data":{"a":["\xff"]}}', "not UTF-8"),
        (b'{"inputs":["a"],"outputs":[],"data":' + b"[" * 4000, "Expected `object`"),
        (b'{"inputs":["a"],"outputs":[],"data":{"a":' + b"[" * 4000, "nests too deep"),
        (b'{"inputs":[],"outputs":[]}', "missing required field `data`"),
        (b'{"inputs":[],"outputs":[],"data":{},"sampling_rate":2}', "<= 1.0"),
    ],
)
def test_a_body_that_is_not_a_query_is_refused(reads: Reads, body: bytes, said: str) -> None:
    answer = reads.client.post("/api/v1/query", content=body)

    assert answer.status_code == 400
    assert said in answer.json()["err_msg"]


def test_wrong_values_are_named_by_row_and_column(reads: Reads) -> None:
    answer = ask(reads, data={"Card.card": ["a", 5, None]})

    assert answer.status_code == 400
    assert answer.json()["err_msg"].count("`Card.card`") == 2


def test_a_request_that_no_thread_can_take_soon_is_refused_with_a_time_to_retry(
    reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_handler, "MOST_WAITING", 0)
    monkeypatch.setattr(read_handler, "CODE_THREADS_EACH", 0)
    handler = ReadHandler(
        reads.services, otherwise=ReadPages(reads.services), refused=RefusedCalls()
    )
    client = PlainClient(handler, headers={"authorization": f"Bearer {TOKEN}"})

    answer = client.post("/api/v1/query", json=QUESTION | {"outputs": ["Card.length"]})

    handler.close()
    client.close()

    assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")


def test_of_requests_that_come_together_the_late_ones_are_refused(
    reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_handler, "LATEST_S", 0.0)
    handler = ReadHandler(
        reads.services, otherwise=ReadPages(reads.services), refused=RefusedCalls()
    )

    async def statuses(count: int) -> list[int]:
        return await asyncio.gather(*(status_of(handler, QUESTION) for _ in range(count)))

    async def scenario() -> tuple[list[int], list[int]]:
        return await statuses(4), await statuses(1)

    together, alone = asyncio.run(scenario())

    handler.close()
    assert (together, alone) == ([200, 429, 429, 429], [200])


async def status_of(handler: ReadHandler, question: dict[str, Any]) -> int:
    """Post a query to a handler on the running event loop; return the status of its answer."""
    sent: list[MutableMapping[str, Any]] = []
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/api/v1/query",
        "query_string": b"",
        "headers": [(b"authorization", f"Bearer {TOKEN}".encode())],
        "client": ("127.0.0.1", 1),
    }

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": json.dumps(question).encode(), "more_body": False}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    await handler(scope, receive, send)
    status: int = sent[0]["status"]
    return status


@pytest.mark.slow
def test_slow_code_of_a_branch_keeps_no_other_read_waiting(reads: Reads) -> None:
    slow_question = QUESTION | {"outputs": ["Card.slow_length"]}
    large = QUESTION | {"data": {"Card.card": ["a"] * (read_handler.INLINE_VALUES + 1)}}
    ask(reads, outputs=["Card.slow_length"])  # its worker is started

    async def scenario() -> tuple[int, int, list[int]]:
        slow = [
            asyncio.ensure_future(status_of(reads.handler, slow_question))
            for _ in range(2 * read_handler.THREADS)
        ]
        await asyncio.sleep(0)
        status = await status_of(reads.handler, large)
        return status, sum(not each.done() for each in slow), await asyncio.gather(*slow)

    status, running, slow = asyncio.run(scenario())

    assert status == 200
    assert running > read_handler.THREADS
    assert slow == [200] * 2 * read_handler.THREADS


def test_a_request_whose_deadline_has_passed_is_not_answered(reads: Reads) -> None:
    answer = reads.client.post(
        "/api/v1/query",
        json=QUESTION | {"outputs": ["Card.length"]},
        headers={"x-narthex-timeout-ms": "0"},
    )

    assert answer.status_code == 504


def test_a_process_that_reads_has_no_other_route(reads: Reads) -> None:
    assert reads.client.get("/api/v1/commits").status_code == 404
    assert reads.client.post("/api/v1/query", headers={"authorization": ""}).status_code == 401
    assert reads.client.get("/api/v1/metrics", headers={"authorization": ""}).status_code == 401


def test_all_documented_reads_are_answered_before_the_router(reads: Reads) -> None:
    documented = {
        route.path
        for route in make_routes().routes
        if isinstance(route, APIRoute) and route.endpoint.__module__.endswith("reads.routes")
    }

    assert documented == {"/api/v1/query", "/api/v1/dataset/{name}/lookup"}
    for path in documented:
        answer = reads.client.post(path.replace("{name}", "None"), content=b"{}")
        assert answer.status_code == 400


def test_a_read_process_stores_when_it_read_even_if_the_ledger_was_away(reads: Reads) -> None:
    house, services = reads.house, reads.services
    UsageSampling(house.services).sample()
    branch = house.ledger.branches.get(house.services.tenant, "main")

    def known() -> dict[str, bool]:
        found = house.ledger.last_reads.of_branch(branch.branch_id)
        return {name: read.read_at is not None for (_, name), read in found.items()}

    assert not any(known().values())
    assert ask(reads).status_code == 200
    UsageSampling(house.services).sample()  # another process knows nothing of it
    assert not any(known().values())
    away = Ledger(str(sa.make_url("postgresql+psycopg2://u:p@127.0.0.1:1/nowhere")))
    with pytest.raises(LedgerError):
        store_reads(away, services.tenant, services.meters.reads)
    assert not any(known().values())
    loop = reads_loop(services.ledger, services.tenant, services.meters.reads)
    loop.start()
    loop.stop()
    read = {name for name, is_read in known().items() if is_read}
    assert read == {"", "Owners", "Card.city"}
    assert known().keys() - read == {"Card.card", "Card.length", "Card.slow_length"}
