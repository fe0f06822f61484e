"""Training sets keep the answers of offline queries under names, as they were, until deleted."""

import contextlib
import datetime as dt
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import pandas as pd
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from narthex._base import Json
from narthex._ir.assets import AssetKind
from narthex._runtime.workers import WorkerPool
from narthex._server_calls.transport import Body, Parameters
from narthex.client import Client, Response
from narthex.errors import Refused
from narthex_ledger import Ledger
from narthex_server.deploy.offline_files import UNQUEUED, delete_expired, delete_unnamed
from narthex_server.security.route_rights import Right
from narthex_spark_apps.offline.offline_request import parse_query
from narthex_spark_apps.offline.queries import answer_query
from narthex_stores import HistoryAdapter
from tests.server.calling import TestClient
from tests.server.conftest import NOBODY, House, house_at, in_memory, settings_at
from tests.server.driving import serve
from tests.server.security.test_visibility import tagged_shop

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

SPINE = pd.DataFrame(
    {
        "Buyer.user": ["ann", "bob", "ann"],
        "Buyer.orders_1h": [1, 3, 5],
        "timestamp": pd.to_datetime(["2026-01-01", "2026-01-02", "2026-01-03"], utc=True),
        "label": [True, False, True],
        "weight": [0.5, None, 2.0],
    }
)
FEATURES = ["Buyer.is_busy", "Buyer.country"]


@attrs.define
class HouseCaller:
    """Calls a server of this process for a client."""

    http: TestClient
    branch: str = "main"

    def read(self, path: str, parameters: Parameters | None = None) -> Response:
        return self._call("GET", path, params=dict(parameters or {}))

    def send(
        self,
        path: str,
        body: Body = None,
        *,
        parameters: Parameters | None = None,
        key: str = "",  # noqa: ARG002
        verb: str = "POST",
    ) -> Response:
        content = {} if verb == "DELETE" else {"json": body or {}}
        return self._call(verb, path, params=dict(parameters or {}), **content)

    def close(self) -> None:
        """Do nothing: several clients share a connection."""

    def _call(self, verb: str, path: str, **more: Any) -> Response:
        headers = {"x-narthex-branch": self.branch}
        answer = self.http.request(verb, f"/api/v1/{path}", headers=headers, **more)
        if not answer.is_success:
            raise Refused(answer.json()["err_msg"], status_code=answer.status_code)
        return Response(
            status_code=answer.status_code, headers=dict(answer.headers), body=answer.json()
        )


def answer_next(house: House) -> bool:
    """Answer the next offline query as a driver does; its lookups need no Spark job."""
    taken = house.ledger.offline_queries.claim("engine-1")
    if taken is None:
        return False
    settings = house.services.settings
    query = parse_query(
        taken.request, settings, request_id=str(taken.request_id), epoch=int(taken.epoch)
    )

    def no_session() -> Any:
        raise AssertionError("it needs no Spark job")

    def report(progress: dict[str, Json]) -> None:
        house.ledger.offline_queries.report(taken.request_id, taken.epoch, progress=progress)

    try:
        with WorkerPool(size=1) as workers:
            result = answer_query(no_session, query, workers=workers, progress=report)
    except Exception as error:
        house.ledger.offline_queries.fail(taken.request_id, taken.epoch, error=repr(error))
        raise
    told: Json = {"rows": result.rows, "offsets": result.offsets}
    house.ledger.offline_queries.finish(taken.request_id, taken.epoch, result=told)
    return True


@contextmanager
def answered(house: House) -> Iterator[None]:
    """Answer offline queries, as a driver does."""
    stop = threading.Event()

    def answer() -> None:
        while not stop.wait(0.02):
            answer_next(house)

    answering = threading.Thread(target=answer)
    answering.start()
    yield
    stop.set()
    answering.join()


@attrs.frozen(kw_only=True)
class Shop:
    """A shop with a client of everything, and one of a token that may not see personal data."""

    house: House
    client: Client
    ada: Client


@pytest.fixture(scope="module")
def whole_shop(tmp_path_factory: pytest.TempPathFactory, module_ledger_dsn: str) -> Iterator[Shop]:
    settings = settings_at(tmp_path_factory.mktemp("shop"), dsn=module_ledger_dsn, kafka=NOBODY)
    histories = HistoryAdapter(history_dir=settings.history_dir)
    adapters = {**in_memory(), AssetKind.HISTORY: histories}
    with house_at(settings, adapters=adapters) as house:
        serve(house, tagged_shop())
        ledger = house.ledger
        ledger.tokens.put("nx_ada", name="ada", scopes=tuple(Right), tags=("money",))
        ledger.tokens.put("nx_reader", name="rea", scopes=("reader",))
        ada = TestClient(house.client.app, headers={"authorization": "Bearer nx_ada"})
        yield Shop(
            house=house,
            client=Client("", caller=HouseCaller(house.client), pause_s=0.05),
            ada=Client("", caller=HouseCaller(ada), pause_s=0.05),
        )


@pytest.fixture
def shop(whole_shop: Shop) -> Iterator[Shop]:
    """The shop, while a driver answers its queries; it has no training sets."""
    with answered(whole_shop.house):
        yield whole_shop
    for one in whole_shop.client.training_sets(limit=100):
        whole_shop.client.delete_training_set(str(one["name"]))


def files_of(shop: Shop) -> list[Path]:
    return list(shop.house.services.settings.training_sets_dir.glob("*"))


def later(shop: Shop, days: int) -> Ledger:
    dsn = shop.house.services.settings.ledger_dsn
    return Ledger(dsn, clock_shift=dt.timedelta(days=days))


def test_a_training_set_has_its_spine_its_features_and_their_statistics(shop: Shop) -> None:
    told: list[str] = []

    made = shop.client.training_set("fraud", SPINE, FEATURES, tell=told.append)

    assert list(made.frame.columns) == [*SPINE.columns, *FEATURES]
    pd.testing.assert_frame_equal(
        made.frame[["label", "weight", "timestamp"]], SPINE[["label", "weight", "timestamp"]]
    )
    assert made.frame["Buyer.is_busy"].tolist() == [False, True, True]
    assert made.frame["Buyer.country"].isna().all()
    assert made.features == tuple(FEATURES)
    assert (
        made.commit_id == shop.house.client.get("/api/v1/commits").json()["commits"][0]["commit_id"]
    )
    assert isinstance(made.offsets, dict)
    assert list(made.offsets) == ["Users"]
    assert made.statistics["Buyer.is_busy"]["top"] == [[True, 2], [False, 1]]
    assert made.statistics["Buyer.country"]["nulls"] == 3
    assert told[-1].endswith(": done")


def test_an_offline_query_has_the_frame_of_a_training_set(shop: Shop) -> None:
    made = shop.client.training_set("fraud", SPINE, FEATURES)
    inputs = ["Buyer.user", "Buyer.orders_1h"]

    asked = shop.client.query_offline(inputs, FEATURES, "timestamp", SPINE)
    fetched = shop.client.offline_answers(asked.attrs["request_id"])

    pd.testing.assert_frame_equal(asked, made.frame)
    pd.testing.assert_frame_equal(asked, fetched)


def test_the_same_call_returns_the_stored_set_without_a_query(shop: Shop) -> None:
    made = shop.client.training_set("fraud", SPINE, FEATURES)
    queries = len(shop.client.offline_queries(limit=100))

    again = shop.client.training_set("fraud", SPINE[SPINE.columns[::-1]], FEATURES)
    loaded = shop.client.training_set("fraud")

    assert len(shop.client.offline_queries(limit=100)) == queries
    assert again.data_sha256 == loaded.data_sha256 == made.data_sha256
    pd.testing.assert_frame_equal(loaded.frame, made.frame)
    assert loaded.created_at == made.created_at


@pytest.mark.parametrize(
    ("spine", "features"),
    [
        (SPINE.assign(label=[True, True, True]), FEATURES),
        (SPINE.iloc[:2], FEATURES),
        (SPINE, FEATURES[:1]),
        (SPINE, FEATURES[::-1]),
    ],
)
def test_other_content_under_the_same_name_is_refused(
    shop: Shop, spine: pd.DataFrame, features: list[str]
) -> None:
    made = shop.client.training_set("fraud", SPINE, FEATURES)

    with pytest.raises(Refused, match="`fraud` exists with another spine, other features"):
        shop.client.training_set("fraud", spine, features)

    assert shop.client.training_set("fraud").data_sha256 == made.data_sha256


def test_a_training_set_outlives_the_files_of_its_query(shop: Shop) -> None:
    made = shop.client.training_set("fraud", SPINE, FEATURES)
    settings, ledger = shop.house.services.settings, later(shop, 8)
    now = dt.datetime.now(dt.UTC) + dt.timedelta(days=8)

    assert delete_expired(settings.offline_dir, ledger, now=now) > 0
    assert delete_unnamed(settings.training_sets_dir, ledger, now=now) == 0
    ledger.close()

    request_id = shop.client.training_sets()[0]["request_id"]
    with pytest.raises(Refused, match="deleted a week after its end"):
        shop.client.offline_answers(str(request_id))
    pd.testing.assert_frame_equal(shop.client.training_set("fraud").frame, made.frame)
    assert shop.client.training_set("fraud", SPINE, FEATURES).data_sha256 == made.data_sha256


def test_a_file_without_a_set_is_deleted_a_day_later(shop: Shop) -> None:
    shop.client.training_set("fraud", SPINE, FEATURES)
    directory = shop.house.services.settings.training_sets_dir
    left = directory / "00000000-0000-8000-8000-00000000000a.parquet"
    left.write_bytes(b"rows")
    now = dt.datetime.now(dt.UTC)

    assert delete_unnamed(directory, shop.house.ledger, now=now) == 0
    assert delete_unnamed(directory, shop.house.ledger, now=now + UNQUEUED * 2) == 1

    assert not left.exists()
    assert len(files_of(shop)) == 1


def test_neither_a_changed_row_nor_a_changed_file_passes_for_the_set(shop: Shop) -> None:
    shop.client.training_set("fraud", SPINE, FEATURES)
    shop.client.training_set("other", SPINE, FEATURES)
    engine = sa.create_engine(shop.house.services.settings.ledger_dsn, poolclass=sa.pool.NullPool)
    with pytest.raises(sa.exc.IntegrityError, match="never changed"), engine.begin() as connection:
        connection.exec_driver_sql("UPDATE training_set SET rows = 4")
    file = max(files_of(shop), key=lambda file: file.stat().st_mtime_ns)
    pq.write_table(pq.read_table(file).slice(1), file)
    with pytest.raises(Refused, match="is missing, or was changed"):
        shop.client.training_set("other")
    shop.client.delete_training_set("other")

    swap = "UPDATE training_set SET name = 'other'"
    with engine.begin() as connection:
        trigger = "ALTER TABLE training_set {} TRIGGER training_set_immutable"
        for statement in (trigger.format("DISABLE"), swap, trigger.format("ENABLE")):
            connection.exec_driver_sql(statement)
    with pytest.raises(Refused, match="`other` of the ledger differs from the signed content"):
        shop.client.training_set("other")
    with engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM training_set")
    for left in files_of(shop):
        left.unlink()


def test_training_sets_are_listed_in_pages_and_deleted_by_name(shop: Shop) -> None:
    names = [f"set-{number}" for number in range(5)]
    for name in names:
        shop.client.training_set(name, SPINE, FEATURES)

    first = shop.client.training_sets(limit=2)
    second = shop.client.training_sets(limit=2, before=str(first[-1]["name"]))
    last = shop.client.training_sets(limit=2, before=str(second[-1]["name"]))

    assert [one["name"] for page in (first, second, last) for one in page] == names[::-1]
    assert [one["rows"] for one in first] == [3, 3]
    shop.client.delete_training_set("set-3")
    assert [one["name"] for one in shop.client.training_sets(limit=2)] == ["set-4", "set-2"]
    assert len(files_of(shop)) == 4
    with pytest.raises(Refused, match="there is no training set `set-3`"):
        shop.client.training_set("set-3")
    other = shop.client.training_set("set-3", SPINE.iloc[:1], FEATURES)
    assert len(other.frame) == 1


def test_offline_queries_are_listed_in_pages(shop: Shop) -> None:
    asked = [
        shop.client.start_offline_query(["Buyer.orders_1h"], FEATURES[:1], "timestamp", SPINE)
        for _ in range(5)
    ]

    first = shop.client.offline_queries(limit=2)
    second = shop.client.offline_queries(limit=2, before=str(first[-1]["request_id"]))

    listed = [str(one["request_id"]) for page in (first, second) for one in page]
    assert listed == asked[:0:-1]
    for request_id in asked:
        shop.client.offline_answers(request_id)
    done = shop.client.offline_queries(limit=1)[0]
    assert (done["status"], done["share"], done["rows"]) == ("done", 1.0, 3)
    assert done == shop.client.track_offline_query(asked[-1])


def test_hidden_features_hide_a_training_set(shop: Shop) -> None:
    shop.client.training_set("whole", SPINE, FEATURES)
    seen = shop.ada.training_set("part", SPINE[["Buyer.orders_1h", "timestamp"]], FEATURES[:1])

    assert [one["name"] for one in shop.ada.training_sets()] == ["part"]
    assert [one["name"] for one in shop.client.training_sets()] == ["part", "whole"]
    assert seen.frame["Buyer.is_busy"].tolist() == [False, True, True]
    with pytest.raises(Refused, match="there is no training set `whole`"):
        shop.ada.training_set("whole")
    with pytest.raises(Refused, match="there is no training set `whole`"):
        shop.ada.delete_training_set("whole")
    with pytest.raises(Refused, match="there is no training set `whole`"):
        shop.ada.training_sets(before="whole")
    with pytest.raises(Refused, match=r"unknown feature `Buyer\.country`"):
        shop.ada.training_set("other", SPINE, FEATURES)


@pytest.mark.parametrize("name", ["whole", "free"])
def test_the_name_of_a_hidden_set_is_free(shop: Shop, name: str) -> None:
    whole = shop.client.training_set("whole", SPINE, FEATURES)
    part = SPINE[["Buyer.orders_1h", "timestamp"]]
    body = {
        "name": name,
        "inputs": ["Buyer.orders_1h"],
        "outputs": FEATURES[:1],
        "timestamp_column": "timestamp",
        "data": {
            "Buyer.orders_1h": [1, 3, 5],
            "timestamp": [f"2026-01-0{day}T00:00:00Z" for day in (1, 2, 3)],
        },
    }
    headers = {"authorization": "Bearer nx_ada"}
    asked = TestClient(shop.house.client.app, headers=headers).post(
        "/api/v1/training_sets", json=body
    )

    made = shop.ada.training_set(name, part, FEATURES[:1])
    again = shop.ada.training_set(name, part, FEATURES[:1])

    assert (asked.status_code, asked.json()["status"]) == (200, "queued")
    assert made.data_sha256 == again.data_sha256 == shop.ada.training_set(name).data_sha256
    assert [one["name"] for one in shop.ada.training_sets()] == [name]
    assert shop.client.training_set("whole").data_sha256 == whole.data_sha256
    with pytest.raises(Refused, match=f"`{name}` exists with another spine"):
        shop.ada.training_set(name, part.iloc[:2], FEATURES[:1])

    shop.ada.delete_training_set(name)
    assert shop.ada.training_sets() == []
    assert shop.client.training_set("whole").data_sha256 == whole.data_sha256


def test_sets_of_one_name_are_used_and_deleted_in_their_order(shop: Shop) -> None:
    whole = shop.client.training_set("whole", SPINE, FEATURES)
    part = shop.ada.training_set("whole", SPINE[["Buyer.orders_1h", "timestamp"]], FEATURES[:1])

    pages = [
        [one["data_sha256"] for one in shop.client.training_sets(limit=100)],
        shop.client.training_sets(before="whole"),
    ]
    assert pages == [[part.data_sha256, whole.data_sha256], []]

    shop.client.delete_training_set("whole")
    assert shop.client.training_set("whole").data_sha256 == part.data_sha256


def test_of_sets_stored_at_the_same_moment_a_caller_sees_one(shop: Shop) -> None:
    made: list[str] = []
    spines = [SPINE, SPINE.iloc[:2], SPINE.iloc[:1]]

    def make(spine: pd.DataFrame) -> None:
        with contextlib.suppress(Refused):
            made.append(shop.client.training_set("raced", spine, FEATURES).data_sha256)

    threads = [threading.Thread(target=make, args=(spine,)) for spine in spines]
    for one in threads:
        one.start()
    for one in threads:
        one.join(timeout=60.0)

    assert [one["data_sha256"] for one in shop.client.training_sets()] == made


def test_a_reader_makes_a_training_set_and_does_not_delete_it(shop: Shop) -> None:
    http = TestClient(shop.house.client.app, headers={"authorization": "Bearer nx_reader"})
    reader = Client("", caller=HouseCaller(http), pause_s=0.05)

    reader.training_set("mine", SPINE, FEATURES)

    with pytest.raises(Refused) as refused:
        reader.delete_training_set("mine")
    assert refused.value.status_code == 403


def test_a_set_of_another_branch_is_not_there(shop: Shop) -> None:
    shop.client.training_set("fraud", SPINE, FEATURES)
    other = Client("", caller=HouseCaller(shop.house.client, "main2"), pause_s=0.05)
    other.clone_branch("main2", "main")

    assert other.training_sets() == []
    assert other.offline_queries() == []
    with pytest.raises(Refused, match="there is no training set `fraud`"):
        other.training_set("fraud")


def test_a_wrong_spine_is_refused_with_all_its_problems(shop: Shop) -> None:
    call = {
        "name": "fraud",
        "inputs": ["Buyer.user", "Buyer.orders_1h"],
        "outputs": FEATURES,
        "timestamp_column": "timestamp",
        "data": {"Buyer.orders_1h": [1, "many", None], "timestamp": ["2026-01-01", "x", None]},
    }

    answers = [
        shop.house.client.post(f"/api/v1/{path}", json=call)
        for path in ("training_sets", "query_offline")
    ]

    for answer in answers:
        assert answer.status_code == 400
        lines = answer.json()["err_msg"].splitlines()
        assert lines[0] == "the spine has 5 problems"
        assert lines[1].startswith("there is no column `Buyer.user`")
        assert [line.split(":")[0] for line in lines[2:]] == [
            "row 1, `Buyer.orders_1h`",
            "row 2, `Buyer.orders_1h`",
            "row 1, `timestamp`",
            "row 2, `timestamp`",
        ]


def test_a_call_during_the_query_waits_for_the_same_query(whole_shop: Shop) -> None:
    call = {
        "name": "waiting",
        "inputs": ["Buyer.orders_1h"],
        "outputs": FEATURES[:1],
        "timestamp_column": "timestamp",
        "data": {"Buyer.orders_1h": [1], "timestamp": ["2026-01-01"]},
    }
    http = whole_shop.house.client

    first, again = (http.post("/api/v1/training_sets", json=call).json() for _ in range(2))
    too_early = http.post("/api/v1/training_sets/waiting", json={"request_id": first["request_id"]})
    wrong_name = http.post("/api/v1/training_sets/other", json={"request_id": first["request_id"]})
    queued = whole_shop.client.track_offline_query(first["request_id"])
    while answer_next(whole_shop.house):
        pass
    after = http.post("/api/v1/training_sets", json=call).json()
    stored = [
        http.post("/api/v1/training_sets/waiting", json={"request_id": first["request_id"]}).json()
        for _ in range(2)
    ]

    assert first == again == after
    assert (queued["status"], queued["share"], queued["rows"]) == ("queued", 0.0, 1)
    assert (too_early.status_code, wrong_name.status_code) == (409, 409)
    assert stored[0] == stored[1]
    assert stored[0]["rows"] == 1
    assert http.post("/api/v1/training_sets", json=call).json()["status"] == "stored"
    whole_shop.client.delete_training_set("waiting")
    anew = http.post("/api/v1/training_sets", json=call).json()
    assert (anew["status"], anew["request_id"] == first["request_id"]) == ("queued", False)
    whole_shop.client.cancel_offline_query(anew["request_id"])
    other = http.post("/api/v1/training_sets", json=call).json()["request_id"]
    assert other not in {first["request_id"], anew["request_id"]}
    whole_shop.client.cancel_offline_query(other)
