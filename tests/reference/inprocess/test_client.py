"""The client of unit tests: what it takes, what it gives, and what it refuses."""

from contextvars import Context
from datetime import UTC, datetime, timedelta

import pandas as pd
import pytest

from narthex.connectors import Webhook, source
from narthex.datasets import Count, Dataset, Sum, dataset, field, index, pipeline
from narthex.dtypes import Continuous, between
from narthex.errors import (
    ArgumentsUnfit,
    DefinitionErrors,
    EntityMissing,
    LookupImpossible,
    Refused,
    UserCodeError,
    VersionNotRaised,
)
from narthex.expr import col
from narthex.featuresets import extractor, feature, featureset
from narthex.lib import inputs, outputs
from narthex_reference.inprocess import MockClient, log, mock

__owner__ = "shop@narthex.dev"
webhook = Webhook(name="shop")
NOON = datetime(2024, 3, 1, 12, tzinfo=UTC)


@source(webhook.endpoint("orders"), disorder="1d", cdc="append")
@dataset
class Orders:
    user: int
    amount: float
    at: datetime


@source(webhook.endpoint("users"), disorder="1d", cdc="upsert")
@dataset(index=True)
class Users:
    user: int = field(key=True, erase_key=True)
    country: str
    age: between(int, 0, 150)  # type: ignore[valid-type]
    at: datetime


@dataset(index=True)
class Spend:
    user: int = field(key=True)
    total: float
    orders: int
    at: datetime

    @pipeline
    @inputs(Orders)
    def spend(cls, orders: Dataset) -> Dataset:
        return (
            orders.filter(lambda df: df["amount"] > 0)
            .groupby("user")
            .aggregate(
                total=Sum(of="amount", window=Continuous("1d")),
                orders=Count(window=Continuous("forever")),
            )
        )


@featureset
class Buyer:
    user: int
    total: float = feature(Spend.total, default=0.0)
    double: float = feature(col("total") * 2)
    country: str = feature(Users.country, default="?")
    orders: int

    @extractor(deps=[Spend])
    @inputs("user")
    @outputs("orders")
    def count(cls, ts: pd.Series, user: pd.Series) -> pd.Series:
        found, _ = Spend.lookup(ts, user=user, fields=["orders"])
        return found["orders"].fillna(0).rename("orders")


def orders(*rows: tuple[int, float, datetime]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["user", "amount", "at"])


def users(*rows: tuple[int, str, int, datetime]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["user", "country", "age", "at"])


@pytest.fixture
def client() -> MockClient:
    """Return a client at noon, with the shop committed."""
    made = MockClient()
    made.clock.set(NOON)
    made.commit("the shop", datasets=[Orders, Users, Spend], featuresets=[Buyer])
    return made


def spend_of(client: MockClient, *of: int) -> list[object]:
    found, _ = client.lookup(Spend, keys=pd.DataFrame({"user": list(of)}))
    return [None if value is pd.NA else value for value in found["total"]]


def test_rows_count_at_once(client: MockClient) -> None:
    answer = client.log("shop", "orders", orders((1, 2.5, NOON), (1, 1.5, NOON)))

    assert answer is not None
    assert (answer.status_code, answer["status_code"], answer["accepted"]) == (200, 200, 2)
    assert spend_of(client, 1) == [4.0]


def test_a_lookup_returns_all_fields_and_marks_found_rows(client: MockClient) -> None:
    client.log("shop", "users", users((1, "fr", 30, NOON)))

    rows, found = client.lookup("Users", keys=pd.DataFrame({"user": [1, 2]}))

    assert list(rows.columns) == ["user", "country", "age", "at"]
    assert rows["country"].tolist() == ["fr", pd.NA]
    assert rows["user"].tolist() == [1, 2]
    assert found.tolist() == [True, False]


def test_exactly_one_field_is_a_series(client: MockClient) -> None:
    client.log("shop", "users", users((1, "fr", 30, NOON)))

    countries, _ = client.lookup(Users, keys=pd.DataFrame({"user": [1]}), fields=["country"])

    assert countries.tolist() == ["fr"]


def test_a_lookup_as_of_an_instant_reads_the_rows_of_that_instant(client: MockClient) -> None:
    later = NOON + timedelta(hours=1)
    client.log("shop", "users", users((1, "fr", 30, NOON), (1, "de", 30, later)))
    instants = [NOON - timedelta(microseconds=1), NOON, later]

    countries, found = client.lookup(
        Users, keys=pd.DataFrame({"user": [1, 1, 1]}), fields=["country"], timestamps=instants
    )

    assert countries.tolist() == [pd.NA, "fr", "de"]
    assert found.tolist() == [False, True, True]


def test_a_row_of_the_future_is_invisible_until_then(client: MockClient) -> None:
    client.log("shop", "users", users((1, "fr", 30, NOON + timedelta(hours=1))))
    key = pd.DataFrame({"user": [1]})

    _, before = client.lookup(Users, keys=key)
    client.clock.advance("1h")
    _, after = client.lookup(Users, keys=key)

    assert (before.tolist(), after.tolist()) == ([False], [True])


def test_sleeping_lets_windows_pass_and_takes_no_time(client: MockClient) -> None:
    client.log("shop", "orders", orders((1, 2.5, NOON)))

    client.sleep(24 * 3600)
    at_the_end = spend_of(client, 1)
    client.sleep(0.000001)

    assert at_the_end == [2.5]
    assert spend_of(client, 1) == [0.0]


def test_features_come_from_look_ups_expressions_and_code(client: MockClient) -> None:
    client.log("shop", "orders", orders((1, 2.5, NOON)))
    client.log("shop", "users", users((1, "fr", 30, NOON)))

    answers = client.query(
        inputs=[Buyer.user], outputs=[Buyer], input_dataframe=pd.DataFrame({"Buyer.user": [1, 2]})
    )

    assert answers.to_dict("list") == {
        "Buyer.user": [1, 2],
        "Buyer.total": [2.5, 0.0],
        "Buyer.double": [5.0, 0.0],
        "Buyer.country": ["fr", "?"],
        "Buyer.orders": [1, 0],
    }
    assert client.last_read is not None
    assert client.last_read.as_of_us == int(NOON.timestamp() * 1_000_000)


def test_an_explained_query_has_the_origin_of_each_feature(client: MockClient) -> None:
    client.log("shop", "users", users((1, "fr", 30, NOON - timedelta(minutes=1))))

    client.query([Buyer.user], [Buyer.country], pd.DataFrame({"Buyer.user": [1, 2]}), explain=True)

    assert client.last_read is not None
    assert client.last_read.features["Buyer.country"] == {
        "sources": ["Users.country"],
        "event_time": ["2024-03-01T11:59:00.000000Z", None],
        "age_s": [60.0, None],
        "default": [False, True],
    }


def test_a_query_after_a_call_contains_its_rows(client: MockClient) -> None:
    pushed = client.log("shop", "users", users((1, "fr", 30, NOON)))
    assert pushed is not None

    answers = client.query(
        [Buyer.user],
        [Buyer.country],
        pd.DataFrame({"Buyer.user": [1]}),
        after=str(pushed["after"]),
    )

    assert answers["Buyer.country"].tolist() == ["fr"]
    with pytest.raises(Refused, match="not a text that `log` returned"):
        client.query([Buyer.user], [Buyer.country], pd.DataFrame({"Buyer.user": [1]}), after="x")


SPINE = pd.DataFrame({"Buyer.user": [1, 2], "timestamp": [NOON, NOON], "is_fraud": [True, False]})


def test_a_training_set_keeps_the_answers_and_their_statistics(client: MockClient) -> None:
    client.log("shop", "users", users((1, "fr", 30, NOON)))
    made = client.training_set("cards", SPINE, [Buyer.country, Buyer.total])
    client.log("shop", "users", users((2, "de", 30, NOON)))

    again = client.training_set("cards", SPINE, [Buyer.country, Buyer.total])
    loaded = client.training_set("cards")

    for one in (made, again, loaded):
        assert one.frame["Buyer.country"].tolist() == ["fr", "?"]
        assert one.frame["is_fraud"].tolist() == [True, False]
        assert one.features == ("Buyer.country", "Buyer.total")
        assert one.data_sha256 == made.data_sha256
        assert one.statistics["Buyer.country"]["defaults"] == 1
        assert one.statistics["Buyer.total"]["mean"] == 0.0
    assert [one["name"] for one in client.training_sets()] == ["cards"]


def test_another_training_set_under_the_name_of_one_is_refused(client: MockClient) -> None:
    client.training_set("cards", SPINE, [Buyer.country])

    with pytest.raises(Refused, match="`cards` exists with another spine"):
        client.training_set("cards", SPINE, [Buyer.total])

    client.delete_training_set("cards")
    assert client.training_sets() == []
    with pytest.raises(Refused, match="there is no training set `cards`"):
        client.training_set("cards")
    assert client.training_set("cards", SPINE, [Buyer.total]).features == ("Buyer.total",)


def test_training_sets_are_listed_from_the_newest_on(client: MockClient) -> None:
    for name in ("first", "second", "third"):
        client.training_set(name, SPINE, [Buyer.country])

    assert [one["name"] for one in client.training_sets(limit=2)] == ["third", "second"]
    assert [one["name"] for one in client.training_sets(before="second")] == ["first"]
    client.checkout("other", init=True)
    assert client.training_sets() == []


def test_an_offline_query_gives_a_frame_as_of_each_rows_instant(client: MockClient) -> None:
    client.log("shop", "orders", orders((1, 2.5, NOON), (1, 1.0, NOON + timedelta(hours=1))))
    asked = pd.DataFrame({"Buyer.user": [1, 1], "ts": [NOON, NOON + timedelta(hours=2)]})

    answers = client.query_offline(
        inputs=["Buyer.user"], outputs=["Buyer.total"], timestamp_column="ts", input_dataframe=asked
    )

    assert answers["Buyer.total"].tolist() == [2.5, 3.5]
    assert answers["ts"].tolist() == asked["ts"].tolist()


def test_an_offline_query_returns_the_rows_with_the_features_beside_them(
    client: MockClient,
) -> None:
    asked = pd.DataFrame(
        {"label": [1, 0], "who": [1, 2], "ts": ["2024-01-01", "2024-01-02"], "w": [0.5, None]}
    )

    frame = client.query_offline(
        ["Buyer.user"],
        ["Buyer.user", "Buyer.total", "Buyer.orders"],
        "ts",
        asked,
        feature_to_column_map={"Buyer.user": "who"},
    )
    again = client.offline_answers(str(frame.attrs["request_id"]))

    assert {name: str(of) for name, of in frame.dtypes.items()} == {
        "label": "int64",
        "Buyer.user": "Int64",
        "ts": "datetime64[ns, UTC]",
        "w": "float64",
        "Buyer.total": "Float64",
        "Buyer.orders": "Int64",
    }
    pd.testing.assert_frame_equal(frame, again)
    assert [one["request_id"] for one in client.offline_queries()] == [frame.attrs["request_id"]]
    with pytest.raises(Refused, match="there is no offline query 7"):
        client.track_offline_query("7")
    with pytest.raises(ArgumentsUnfit, match="row 1, `ts`"):
        client.query_offline(["Buyer.user"], ["Buyer.total"], "ts", asked.assign(ts=["x", None]))


def test_a_dataset_answers_look_ups_in_the_tests_own_code(client: MockClient) -> None:
    client.log("shop", "users", users((1, "fr", 30, NOON)))

    rows, found = Users.lookup(
        pd.Series([NOON, NOON]), user=pd.Series([1, 2]), fields=["country", "at"]
    )

    assert rows["country"].tolist() == ["fr", pd.NA]  # type: ignore[index]
    assert found.tolist() == [True, False]  # type: ignore[attr-defined]


def test_a_dataset_answers_nothing_once_its_client_is_gone() -> None:
    made = MockClient()
    made.commit("users", datasets=[Users])
    del made

    with pytest.raises(LookupImpossible):
        Users.lookup(pd.Series([NOON]), user=pd.Series([1]))


def test_a_call_is_accepted_whole_or_not_at_all(client: MockClient) -> None:
    rows = users((1, "fr", 30, NOON), (2, "de", 151, NOON), (3, "it", -1, NOON))

    with pytest.raises(Refused) as refused:
        client.log("shop", "users", rows)

    assert refused.value.status_code == 400
    assert "row 1, Users: `age`" in refused.value.message
    assert "row 2, Users: `age`" in refused.value.message
    assert client.get_dataset_df("Users").empty


def test_rows_for_an_unknown_endpoint_are_refused(client: MockClient) -> None:
    with pytest.raises(Refused, match="shop/nothing"):
        client.log("shop", "nothing", orders((1, 1.0, NOON)))


def test_rows_can_be_put_straight_into_a_dataset(client: MockClient) -> None:
    answer = log(Users, users((1, "fr", 30, NOON)))

    _, found = client.lookup(Users, keys=pd.DataFrame({"user": [1]}))
    assert answer.status_code == 200
    assert found.tolist() == [True]


def test_rows_logged_into_a_derived_dataset_join_its_pipelines_rows(
    client: MockClient,
) -> None:
    client.log("shop", "orders", orders((1, 2.5, NOON)))
    log(Spend, pd.DataFrame({"user": [2], "total": [9.0], "orders": [1], "at": [NOON]}))

    assert spend_of(client, 1, 2) == [2.5, 9.0]


def test_a_preview_changes_nothing(client: MockClient) -> None:
    client.log("shop", "orders", orders((1, 2.5, NOON)))

    answer = client.commit("look", datasets=[Orders], preview=True)

    assert "- dataset `Spend` v1" in answer["summary"]  # type: ignore[operator]
    assert spend_of(client, 1) == [2.5]
    assert len(client.get_datasets()) == 3


def test_identical_definitions_keep_their_rows(client: MockClient) -> None:
    client.log("shop", "orders", orders((1, 2.5, NOON)))

    client.commit("again", datasets=[Orders, Users, Spend], featuresets=[Buyer])
    client.commit("again", datasets=[Users], incremental=True)

    assert spend_of(client, 1) == [2.5]
    assert len(client.get_datasets()) == 3


def _other_users(version: int) -> Dataset:
    @source(webhook.endpoint("users"), disorder="1d", cdc="upsert")
    @dataset(index=True, version=version)
    class Users:
        user: int = field(key=True)
        country: str
        at: datetime

    return Users


def test_a_changed_definition_needs_another_version(client: MockClient) -> None:
    with pytest.raises(DefinitionErrors) as refused:
        client.commit("changed", datasets=[_other_users(1)], incremental=True)

    assert isinstance(refused.value.exceptions_flat()[0], VersionNotRaised)
    assert "age" in client.get_dataset_df("Users").columns


def test_a_higher_version_is_filled_from_the_rows_that_came_before(client: MockClient) -> None:
    client.log("shop", "users", users((1, "fr", 30, NOON)))

    client.commit("changed", datasets=[_other_users(2)], incremental=True)

    rows = client.get_dataset_df("Users")
    assert list(rows.columns) == ["user", "country", "at"]
    assert rows["country"].tolist() == ["fr"]


def test_a_commit_removes_omitted_entities(client: MockClient) -> None:
    client.commit("users only", datasets=[Users])

    with pytest.raises(EntityMissing, match="Orders"):
        client.inspect("Orders")
    with pytest.raises(Refused, match="shop/orders"):
        client.log("shop", "orders", orders((1, 2.5, NOON)))


def test_a_missing_input_of_a_pipeline_is_refused(client: MockClient) -> None:
    with pytest.raises(DefinitionErrors):
        client.commit("no orders", datasets=[Spend])


def test_the_newest_rows_are_inspected(client: MockClient) -> None:
    client.log("shop", "orders", orders(*((n, 1.0, NOON + timedelta(hours=n)) for n in range(9))))

    assert client.inspect("Orders", n=3)["user"].tolist() == [6, 7, 8]
    assert client.get_dataset_df("Orders")["user"].tolist() == list(range(9))


def test_a_keyed_datasets_frame_has_the_rows_of_every_instant(client: MockClient) -> None:
    client.log("shop", "orders", orders((1, 2.5, NOON)))

    frame = client.get_dataset_df("Spend")

    assert frame["total"].tolist() == [2.5, 0.0]
    assert frame["at"].tolist() == [NOON, NOON + timedelta(days=1, microseconds=1)]


def test_erased_keys_are_gone_and_stay_gone(client: MockClient) -> None:
    rows = users((1, "fr", 30, NOON), (2, "de", 30, NOON))
    client.log("shop", "users", rows)

    client.erase(Users, erase_keys=pd.DataFrame({"user": [1]}))
    client.log("shop", "users", rows)

    assert client.get_dataset_df("Users")["user"].tolist() == [2]
    with pytest.raises(ArgumentsUnfit, match="country"):
        client.erase(Users, erase_keys=pd.DataFrame({"country": ["fr"]}))
    with pytest.raises(Refused, match="country"):
        client.erase("Users", erase_keys=pd.DataFrame({"country": ["fr"]}))


def test_a_clone_has_rows_of_its_own(client: MockClient) -> None:
    client.log("shop", "users", users((1, "fr", 30, NOON)))

    client.clone_branch("copy", from_branch="main")
    log(Users, users((2, "de", 30, NOON)))

    assert client.branch() == client._branch == "copy"  # noqa: SLF001 (Fennel's name)
    assert client.get_dataset_df("Users")["user"].tolist() == [1, 2]
    client.checkout("main")
    assert sorted(client.get_dataset_df("Users")["user"]) == [1, 2]  # both have the endpoint


def test_an_empty_branch_has_nothing(client: MockClient) -> None:
    client.init_branch("empty")

    assert client.list_branches() == ["main", "empty"]
    assert client.get_datasets() == []
    assert client.get_featuresets() == []
    client.commit("users", datasets=[Users])
    client.log("shop", "users", users((1, "fr", 30, NOON)))
    assert client.get_dataset_df("Users")["user"].tolist() == [1]


def test_a_deleted_branch_is_left(client: MockClient) -> None:
    client.checkout("new", init=True)

    client.delete_branch("new")

    assert (client.branch(), client.list_branches()) == ("main", ["main"])


@pytest.mark.parametrize(
    "ask",
    [
        lambda client: client.init_branch("main"),
        lambda client: client.clone_branch("main", from_branch="main"),
        lambda client: client.clone_branch("new", from_branch="nowhere"),
        lambda client: client.delete_branch("nowhere"),
        lambda client: client.delete_branch("main"),
    ],
)
def test_branches_that_cannot_be_are_refused(client: MockClient, ask: object) -> None:
    with pytest.raises(Refused, match=r"main|nowhere"):
        ask(client)  # type: ignore[operator]

    assert client.list_branches() == ["main"]


def test_a_branch_that_is_not_there_answers_nothing(client: MockClient) -> None:
    client.checkout("nowhere")

    with pytest.raises(Refused, match="nowhere"):
        client.lookup(Users, keys=pd.DataFrame({"user": [1]}))


def test_a_bounded_source_ends_when_it_was_idle(client: MockClient) -> None:
    @source(webhook.endpoint("clicks"), disorder="1d", cdc="append", bounded=True, idleness="1h")
    @dataset
    class Clicks:
        user: int
        at: datetime

    client.commit("clicks", datasets=[Clicks])
    rows = pd.DataFrame({"user": [1], "at": [NOON]})

    for wait in ("1h", "1h", "61m", "0s"):
        client.clock.advance(wait)
        client.log("shop", "clicks", rows)

    assert len(client.get_dataset_df("Clicks")) == 2


def test_an_index_answers_only_the_questions_that_it_is_for(client: MockClient) -> None:
    @index(offline=None)
    @source(webhook.endpoint("now"), disorder="1d", cdc="upsert")
    @dataset
    class Now:
        user: int = field(key=True)
        at: datetime

    client.commit("now", datasets=[Now])
    key = pd.DataFrame({"user": [1]})

    _, found = client.lookup(Now, keys=key)
    assert found.tolist() == [False]
    with pytest.raises(LookupImpossible, match="offline"):
        client.lookup(Now, keys=key, timestamps=[NOON])


def test_failing_code_is_reported_with_its_line(client: MockClient) -> None:
    @dataset
    class Broken:
        user: int
        amount: float
        at: datetime

        @pipeline
        @inputs(Orders)
        def broken(cls, orders: Dataset) -> Dataset:
            return orders.filter(lambda df: df["nothing"] > 0)

    client.commit("broken", datasets=[Orders, Broken])
    client.log("shop", "orders", orders((1, 2.5, NOON)))

    with pytest.raises(UserCodeError, match=r"`filter` of `Broken\.broken`.*nothing") as failed:
        client.get_dataset_df("Broken")

    assert __file__.endswith(failed.value.origin.file)


def test_invalid_queries_are_refused(client: MockClient) -> None:
    with pytest.raises(ArgumentsUnfit, match=r"Buyer\.user"):
        client.query(
            inputs=["Buyer.user"], outputs=["Buyer.total"], input_dataframe=pd.DataFrame({"a": [1]})
        )
    with pytest.raises(EntityMissing):
        client.lookup("Nothing", keys=pd.DataFrame({"user": [1]}))
    with pytest.raises(Refused, match="names"):
        client.lookup("Users", keys=pd.DataFrame({"id": [1]}))
    with pytest.raises(Refused, match="height"):
        client.lookup("Users", keys=pd.DataFrame({"user": [1]}), fields=["height"])


def test_secrets_are_stored_by_name(client: MockClient) -> None:
    client.add_secret("key", "first")
    client.update_secret("key", "second")

    assert client.get_secret("key") == "second"
    client.delete_secret("key")
    for ask in (client.get_secret, client.delete_secret):
        with pytest.raises(Refused, match="key"):
            ask("key")
    with pytest.raises(Refused, match="key"):
        client.update_secret("key", "third")


@mock
def test_a_decorated_test_has_a_client_of_its_own(client: MockClient) -> None:
    client.commit("users", datasets=[Users])
    log(Users, users((1, "fr", 30, NOON)))

    assert client.get_dataset_df("Users")["user"].tolist() == [1]
    assert not client.is_integration_client()


@pytest.mark.parametrize("number", [1, 2])
@mock
def test_a_decorated_test_still_has_its_parameters(client: MockClient, number: int) -> None:
    assert client.get_datasets() == []
    assert number in {1, 2}


def test_the_client_of_a_decorated_test_is_not_seen_outside_of_it() -> None:
    @mock
    def inside(client: MockClient) -> MockClient:
        client.commit("users", datasets=[Users])
        return client

    kept = inside()

    assert kept is not None
    with pytest.raises((LookupImpossible, EntityMissing)):
        Users.lookup(pd.Series([NOON]), user=pd.Series([1]))


@dataset(index=True)
class Visits:
    user: int = field(key=True, erase_key=True)
    orders: int
    at: datetime

    @pipeline
    @inputs(Orders)
    def visits(cls, orders: Dataset) -> Dataset:
        return orders.groupby("user").aggregate(orders=Count(window=Continuous("forever")))


def test_a_derived_dataset_can_be_erased_too_and_its_source_stays(client: MockClient) -> None:
    client.commit("visits", datasets=[Visits], incremental=True)
    client.log("shop", "orders", orders((1, 2.5, NOON), (2, 2.5, NOON)))

    client.erase(Visits, erase_keys=pd.DataFrame({"user": [1]}))

    _, found = client.lookup(Visits, keys=pd.DataFrame({"user": [1, 2]}))
    assert found.tolist() == [False, True]
    assert client.get_dataset_df("Visits")["user"].tolist() == [2]
    assert len(client.get_dataset_df("Orders")) == 2


def test_erased_rows_stay_erased_in_clones_and_after_commits(client: MockClient) -> None:
    client.log("shop", "users", users((1, "fr", 30, NOON)))
    client.erase(Users, erase_keys=pd.DataFrame({"user": [1]}))

    client.commit("again", datasets=[Orders, Users, Spend], featuresets=[Buyer])
    client.clone_branch("copy", from_branch="main")

    assert client.get_dataset_df("Users").empty
    with pytest.raises(Refused, match="row 0"):
        client.erase("Users", erase_keys=pd.DataFrame({"user": ["nobody"]}))


def test_an_offline_query_completes_in_the_call(client: MockClient) -> None:
    asked = pd.DataFrame({"Buyer.user": [1], "ts": [NOON]})
    client.query_offline(["Buyer.user"], ["Buyer.total"], "ts", asked)

    assert client.track_offline_query("0")["status"] == "done"
    assert client.offline_answers("0")["Buyer.total"].tolist() == [0.0]
    assert client.cancel_offline_query("0")["status"] == "done"


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda client: client.read("jobs"), "jobs"),
        (
            lambda client: client.lookup(
                Users, keys=pd.DataFrame({"user": [1]}), timestamps=[NOON, NOON]
            ),
            "length",
        ),
        (lambda client: client.lookup(Users, keys=pd.DataFrame({"user": ["x"]})), "row 0"),
        (
            lambda client: client.query(
                ["Buyer.user"], ["Buyer.total"], pd.DataFrame({"Buyer.user": ["x"]})
            ),
            "row 0",
        ),
        (
            lambda client: client.query(
                ["Buyer.user"],
                ["Buyer.total"],
                pd.DataFrame({"Buyer.user": [1]}),
                as_of="yesterday",
            ),
            "instant",
        ),
    ],
)
def test_a_question_without_sense_is_refused(client: MockClient, ask: object, said: str) -> None:
    with pytest.raises(Refused, match=said):
        ask(client)  # type: ignore[operator]


def test_a_null_key_finds_nothing(client: MockClient) -> None:
    client.log("shop", "orders", orders((1, 2.5, NOON)))

    _, found = Spend.lookup(pd.Series([NOON] * 2), user=pd.Series([1, None], dtype="Int64"))

    assert found.tolist() == [True, False]  # type: ignore[attr-defined]


def test_rows_need_a_client_to_go_to() -> None:
    with pytest.raises(ArgumentsUnfit, match="no client"):
        Context().run(log, Users, users((1, "fr", 30, NOON)))


def test_the_clock_resumes_after_a_pause(client: MockClient) -> None:
    with client.clock.standing_at(NOON - timedelta(days=1)):
        then = client.clock.now()

    assert (then, client.clock.now()) == (NOON - timedelta(days=1), NOON)
    client.clock.set("2024-03-02T00:00:00Z")
    assert client.clock.now() == datetime(2024, 3, 2, tzinfo=UTC)


def test_rows_logged_into_a_dataset_replace_its_pipelines_rows(client: MockClient) -> None:
    @dataset(index=True)
    class Last:
        user: int = field(key=True)
        amount: float
        at: datetime

        @pipeline
        @inputs(Orders)
        def last(cls, orders: Dataset) -> Dataset:
            return orders.groupby("user").latest()

    client.commit("last", datasets=[Last], incremental=True)
    client.log("shop", "orders", orders((1, 2.5, NOON), (2, 1.0, NOON)))
    log(Last, pd.DataFrame({"user": [1], "amount": [9.0], "at": [NOON]}))

    frame = client.get_dataset_df("Last")
    assert dict(zip(frame["user"], frame["amount"], strict=True)) == {1: 9.0, 2: 1.0}
