"""Unit tests accept values of every type, rows of every kind, and author code."""

import sys
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal as PythonDecimal

import pandas as pd
import pyarrow as pa
import pytest
from typing_extensions import override

from narthex._ir.code import UserCode
from narthex._ir.facts import Fact, RowId, Version
from narthex._ir.schema import Column
from narthex._runtime.workers.lookups import Find
from narthex._sdk.commit_definitions import definitions
from narthex._testing.in_process import InProcessCalls
from narthex.connectors import Webhook, eval, source  # noqa: A004 (Fennel's name)
from narthex.datasets import (
    Average,
    Count,
    Dataset,
    ExpDecaySum,
    Max,
    dataset,
    field,
    pipeline,
)
from narthex.dtypes import Continuous, Decimal, Session, Tumbling, Window, struct
from narthex.errors import LookupImpossible, Refused, UserCodeError
from narthex.expr import col
from narthex.featuresets import extractor, feature, featureset
from narthex.lib import inputs, outputs, secrets
from narthex_reference.inprocess import InProcessEngine, MockClient

__owner__ = "shop@narthex.dev"
webhook = Webhook(name="shop")
NOON = datetime(2024, 3, 1, 12, tzinfo=UTC)
LIMIT = 10


@struct
class Size:
    width: int
    made: datetime


@source(webhook.endpoint("things"), disorder="1d", cdc="upsert")
@dataset(index=True)
class Things:
    id: int = field(key=True)
    size: Size
    price: Decimal[2]  # type: ignore[type-arg]
    day: date
    raw: bytes
    names: list[str]
    at: datetime


@source(webhook.endpoint("clicks"), disorder="1d", cdc="append")
@dataset
class Clicks:
    user: int
    page: int
    at: datetime


@dataset(index=True)
class Small:
    user: int = field(key=True)
    mean: float
    top: int
    clicks: int
    at: datetime

    @pipeline
    @inputs(Clicks)
    def small(cls, clicks: Dataset) -> Dataset:
        return (
            clicks.filter(lambda df: df["page"] < LIMIT)
            .groupby("user")
            .aggregate(
                mean=Average(of="page", window=Continuous("forever"), default=-1.0),
                top=Max(of="page", window=Continuous("forever"), default=0),
                clicks=Count(window=Continuous("forever")),
            )
        )


def clicks(*rows: tuple[int, int]) -> pd.DataFrame:
    times = [NOON + timedelta(seconds=number) for number in range(len(rows))]
    return pd.DataFrame(rows, columns=["user", "page"]).assign(at=times)


@pytest.fixture
def client() -> MockClient:
    made = MockClient()
    made.clock.set(NOON + timedelta(days=1))
    return made


def test_values_come_back_as_themselves(client: MockClient) -> None:
    client.commit("things", datasets=[Things])
    client.log(
        "shop",
        "things",
        pd.DataFrame(
            {
                "id": [1],
                "size": [Size(width=2, made=NOON)],
                "price": [PythonDecimal("1.50")],
                "day": [date(2024, 3, 1)],
                "raw": [b"\x00\xff"],
                "names": [["a", "b"]],
                "at": [NOON],
            }
        ),
    )

    row = client.lookup(Things, keys=pd.DataFrame({"id": [1]}))[0].iloc[0]

    assert (row["size"].width, row["size"].made) == (2, NOON)
    assert row["size"] == {"width": 2, "made": NOON}
    assert (row["price"], row["day"]) == (PythonDecimal("1.50"), date(2024, 3, 1))
    assert (row["raw"], row["names"], row["at"]) == (b"\x00\xff", ["a", "b"], NOON)


def test_a_window_is_a_key_that_can_be_looked_up(client: MockClient) -> None:
    @dataset(index=True)
    class PerHour:
        user: int = field(key=True)
        window: Window = field(key=True)
        clicks: int
        at: datetime

        @pipeline
        @inputs(Clicks)
        def per_hour(cls, clicks: Dataset) -> Dataset:
            return clicks.groupby("user", window=Tumbling("1h")).aggregate(clicks=Count())

    client.commit("per hour", datasets=[Clicks, PerHour])
    client.log("shop", "clicks", clicks((1, 1), (1, 2)))
    span = {"begin": NOON, "end": NOON + timedelta(hours=1)}

    rows, _ = client.lookup(PerHour, keys=pd.DataFrame({"user": [1], "window": [span]}))
    same, found = PerHour.lookup(
        pd.Series([client.clock.now()]), user=pd.Series([1]), window=pd.Series([span])
    )

    assert rows["clicks"].tolist() == same["clicks"].tolist() == [2]  # type: ignore[index]
    assert rows["window"][0].begin == NOON
    assert found.tolist() == [True]  # type: ignore[attr-defined]


def test_a_key_never_seen_has_the_defaults_of_its_aggregates(client: MockClient) -> None:
    client.commit("small", datasets=[Clicks, Small])

    rows, found = client.lookup(Small, keys=pd.DataFrame({"user": [1]}))
    same, _ = Small.lookup(pd.Series([NOON]), user=pd.Series([1]))

    assert found.tolist() == [False]
    assert (rows["mean"][0], rows["top"][0], rows["clicks"][0]) == (-1.0, 0, pd.NA)
    assert same["mean"].tolist() == [-1.0]  # type: ignore[index]


@pytest.mark.parametrize("number", [63, 64, 65])
def test_expressions_give_the_same_by_row_and_by_column(client: MockClient, number: int) -> None:
    @dataset
    class Halves:
        user: int
        half: float
        at: datetime

        @pipeline
        @inputs(Clicks)
        def halves(cls, clicks: Dataset) -> Dataset:
            return (
                clicks.filter(col("page") % 2 == 0)
                .assign(half=(col("page") / 2).astype(float))
                .drop("page")
            )

    client.commit("halves", datasets=[Clicks, Halves])
    client.log("shop", "clicks", clicks(*((1, page) for page in range(number))))

    assert client.get_dataset_df("Halves")["half"].tolist() == [
        page / 2 for page in range(0, number, 2)
    ]


def test_code_runs_from_the_text_that_would_travel(
    client: MockClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.commit("small", datasets=[Clicks, Small])
    monkeypatch.setattr(sys.modules[__name__], "LIMIT", 1000)

    client.log("shop", "clicks", clicks((1, 9), (1, 10)))

    rows, _ = client.lookup(Small, keys=pd.DataFrame({"user": [1]}))
    assert rows["clicks"].tolist() == [1]


def test_a_source_runs_code_of_its_author(client: MockClient) -> None:
    @source(
        webhook.endpoint("clicks"),
        disorder="1d",
        cdc="append",
        preproc={"twice": eval(lambda df: df["page"] * 2, schema={"page": int})},
        where=eval(lambda df: df["page"] > 1, schema={"page": int}),
    )
    @dataset
    class Doubled:
        user: int
        twice: int
        at: datetime

    client.commit("doubled", datasets=[Doubled])
    client.log("shop", "clicks", clicks((1, 1), (1, 2)))

    assert client.get_dataset_df("Doubled")["twice"].tolist() == [4]


def test_an_envelope_of_debezium_ends_a_row(client: MockClient) -> None:
    @source(webhook.endpoint("changes"), disorder="1d", cdc="debezium")
    @dataset(index=True)
    class Users:
        user: int = field(key=True)
        page: int
        at: datetime

    client.commit("users", datasets=[Users])
    row = {"user": 1, "page": 2, "at": NOON.isoformat()}
    ends = NOON + timedelta(hours=1)
    client.log(
        "shop",
        "changes",
        pd.DataFrame(
            {
                "op": ["c", "d"],
                "before": [None, row],
                "after": [row, None],
                "ts_ms": [int(NOON.timestamp() * 1000), int(ends.timestamp() * 1000)],
            }
        ),
    )

    _, found = client.lookup(
        Users,
        keys=pd.DataFrame({"user": [1, 1]}),
        timestamps=[ends - timedelta(microseconds=1), ends],
    )
    assert found.tolist() == [True, False]


def test_code_reads_the_secrets_of_the_client(client: MockClient) -> None:
    @featureset
    class Signed:
        user: int
        by: str

        @extractor
        @inputs("user")
        @outputs("by")
        def sign(cls, ts: pd.Series, user: pd.Series) -> pd.Series:
            return user.map(lambda _: secrets.get("key")).astype("string").rename("by")

    client.commit("signed", featuresets=[Signed])
    client.add_secret("key", "ours")

    answers = client.query(
        inputs=[Signed.user],
        outputs=[Signed.by],
        input_dataframe=pd.DataFrame({"Signed.user": [1]}),
    )

    assert answers["Signed.by"].tolist() == ["ours"]


def test_code_that_looks_up_amiss_fails_like_in_a_worker(client: MockClient) -> None:
    @featureset
    class Wrong:
        user: int
        clicks: int

        @extractor(deps=[Small])
        @inputs("user")
        @outputs("clicks")
        def count(cls, ts: pd.Series, user: pd.Series) -> pd.Series:
            found, _ = Small.lookup(ts, id=user, fields=["clicks"])
            return found["clicks"].fillna(0).rename("clicks")

    client.commit("wrong", datasets=[Clicks, Small], featuresets=[Wrong])

    with pytest.raises(UserCodeError, match=r"LookupError: a lookup of `Small` names \['id'\]"):
        client.query(
            inputs=[Wrong.user],
            outputs=[Wrong.clicks],
            input_dataframe=pd.DataFrame({"Wrong.user": [1]}),
        )


def test_lists_that_explode_together_have_one_length(client: MockClient) -> None:
    @source(webhook.endpoint("lists"), disorder="1d", cdc="append")
    @dataset
    class Lists:
        a: list[int]
        b: list[int]
        at: datetime

    @dataset
    class Exploded:
        a: int | None
        b: int | None
        at: datetime

        @pipeline
        @inputs(Lists)
        def exploded(cls, lists: Dataset) -> Dataset:
            return lists.explode("a", "b")

    client.commit("lists", datasets=[Lists, Exploded])
    client.log("shop", "lists", pd.DataFrame({"a": [[1, 2]], "b": [[1]], "at": [NOON]}))

    with pytest.raises(UserCodeError, match="different lengths"):
        client.get_dataset_df("Exploded")


def test_a_feature_of_a_dataset_without_the_right_index_is_refused(client: MockClient) -> None:
    @source(webhook.endpoint("users"), disorder="1d", cdc="upsert")
    @dataset(online=True)
    class Users:
        user: int = field(key=True)
        page: int
        at: datetime

    @featureset
    class Seen:
        user: int
        page: int = feature(Users.page, default=0)

    client.commit("seen", datasets=[Users], featuresets=[Seen])
    asked = pd.DataFrame({"Seen.user": [1], "ts": [NOON]})

    assert client.query([Seen.user], [Seen.page], asked)["Seen.page"].tolist() == [0]
    with pytest.raises(LookupImpossible, match="offline"):
        client.query_offline([Seen.user], [Seen.page], "ts", asked)


class CountingCalls(InProcessCalls):
    """Calls code, and counts the calls."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    @override
    def call(
        self,
        code: UserCode,
        kind: str,
        table: pa.Table,
        outputs: Sequence[Column],
        *,
        title: str,
        find: Find | None = None,
    ) -> pa.Table:
        self.calls += 1
        return super().call(code, kind, table, outputs, title=title, find=find)


def test_a_dataset_is_computed_on_demand_and_once() -> None:
    calls = CountingCalls()
    engine = InProcessEngine(definitions([Clicks, Small, Things], []), calls=calls)
    fact = Fact(row_id=RowId(b"1"), version=Version(b"1"), event_time=5, key=(), values=(1, 2))

    engine.append("Clicks", [fact])
    unasked = calls.calls
    answers = [engine.lookup("Small", [(1,)], [5]) for _ in range(3)]
    asked = calls.calls
    engine.append("Things", [])
    engine.lookup("Small", [(1,)], [5])
    untouched = calls.calls
    engine.append("Clicks", [])
    engine.lookup("Small", [(1,)], [5])

    assert (unasked, asked, untouched, calls.calls) == (0, 1, 1, 2)
    assert answers[0] == answers[2]


def test_rows_of_an_endpoint_that_was_left_out_are_gone(client: MockClient) -> None:
    client.commit("small", datasets=[Clicks, Small])
    client.log("shop", "clicks", clicks((1, 1)))

    client.commit("things", datasets=[Things])
    with pytest.raises(Refused):
        client.log("shop", "clicks", clicks((1, 1)))
    client.commit("small", datasets=[Clicks, Small])

    assert client.get_dataset_df("Clicks").empty


def test_a_dataset_may_order_its_keys_otherwise_than_its_pipeline(client: MockClient) -> None:
    @dataset(index=True)
    class Sessions:
        window: Window = field(key=True)
        page: int = field(key=True)
        user: int = field(key=True)
        clicks: int
        at: datetime

        @pipeline
        @inputs(Clicks)
        def sessions(cls, clicks: Dataset) -> Dataset:
            return clicks.groupby("user", "page", window=Session("1m")).aggregate(clicks=Count())

    client.commit("sessions", datasets=[Clicks, Sessions])
    client.log("shop", "clicks", clicks((7, 1), (7, 1)))
    begins, grows = NOON, NOON + timedelta(seconds=1)
    short = {"begin": begins, "end": begins + timedelta(microseconds=1)}
    whole = {"begin": begins, "end": grows + timedelta(microseconds=1)}
    keys = pd.DataFrame({"window": [short, short, whole], "page": [1] * 3, "user": [7] * 3})

    rows, found = client.lookup(Sessions, keys=keys, timestamps=[begins, grows, grows])

    assert found.tolist() == [True, False, True]
    assert rows["clicks"].tolist() == [1, pd.NA, 2]


def test_a_decaying_sum_in_a_span_decays_until_the_query(client: MockClient) -> None:
    @dataset(index=True)
    class Decaying:
        user: int = field(key=True)
        window: Window = field(key=True)
        pages: float
        at: datetime

        @pipeline
        @inputs(Clicks)
        def decaying(cls, clicks: Dataset) -> Dataset:
            return clicks.groupby("user", window=Tumbling("1h")).aggregate(
                pages=ExpDecaySum(of="page", half_life="1h")
            )

    client.commit("decaying", datasets=[Clicks, Decaying])
    client.log("shop", "clicks", clicks((7, 8)))
    span = {"begin": NOON, "end": NOON + timedelta(hours=1)}
    keys = pd.DataFrame({"user": [7, 7], "window": [span, span]})

    rows, _ = client.lookup(Decaying, keys=keys, timestamps=[NOON, NOON + timedelta(hours=2)])

    assert rows["pages"].tolist() == [8.0, 2.0]
