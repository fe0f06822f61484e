"""The client of unit tests adapts to code that was written for Fennel."""

from datetime import UTC, datetime, timedelta
from typing import Any, Optional

import pandas as pd
import pytest

from narthex.compat.connectors import S3, OmittedArgument, Postgres
from narthex.compat.declaring import dataset, featureset
from narthex.compat.errors import FennelError
from narthex.compat.testing import InternalTestClient, MockClient, log, mock
from narthex.connectors import Secret, Webhook, source
from narthex.datasets import Count, ExpDecaySum, field, pipeline
from narthex.dtypes import Continuous, Tumbling, between, oneof, regex
from narthex.errors import DefinitionErrors, FeatureInvalid
from narthex.featuresets import extractor, feature
from narthex.lib import inputs, outputs

__owner__ = "a@b.co"

webhook = Webhook(name="w")
DAY = datetime(2024, 1, 1, tzinfo=UTC)


@source(webhook.endpoint("clicks"), disorder="1d", cdc="append")
@dataset
class Clicks:
    uid: str
    score: float
    at: datetime


@source(webhook.endpoint("people"), disorder="1d", cdc="upsert")
@dataset(index=True)
class People:
    uid: str = field(key=True)
    age: between(int, 0, 100)  # type: ignore[valid-type]
    sex: oneof(str, ["f", "m"])  # type: ignore[valid-type]
    mail: regex(r"\w+@\w+")  # type: ignore[valid-type]
    tags: Optional[list[str | None]]  # noqa: UP045 (authors write it)
    at: datetime


@dataset(index=True)
class Counts:
    uid: str = field(key=True)
    today: int
    lately: int
    fading: float
    at: datetime

    @pipeline
    @inputs(Clicks)
    def count(cls: Any, clicks: Any) -> Any:  # noqa: N805
        return clicks.groupby("uid").aggregate(
            today=Count(window=Continuous("1d")),
            lately=Count(window=Continuous("forever")),
            fading=ExpDecaySum(of="score", half_life="1h", window=Continuous("forever")),
        )


@dataset(index=True)
class Daily:
    uid: str = field(key=True)
    clicks: int
    at: datetime

    @pipeline
    @inputs(Clicks)
    def count(cls: Any, clicks: Any) -> Any:  # noqa: N805
        return clicks.groupby("uid").aggregate(clicks=Count(window=Tumbling("1d")))


@pytest.fixture
def client() -> MockClient:
    made = MockClient()
    made.commit(message="first", datasets=[Clicks, People, Counts, Daily])
    return made


def person(**changes: object) -> pd.DataFrame:
    row = {"uid": 1, "age": 30, "sex": "f", "mail": "a@b", "tags": ["x", None], "at": DAY}
    return pd.DataFrame([row | changes])


def test_ints_are_converted_to_text_in_text_columns(client: MockClient) -> None:
    client.log("w", "people", person())

    rows, found = client.lookup(People, keys=pd.DataFrame({"uid": [1, 2]}))

    assert rows["uid"].tolist() == ["1", "2"]
    assert found.tolist() == [True, False]
    assert rows["tags"].tolist() == [["x", pd.NA], pd.NA]


def test_rows_that_go_straight_into_a_dataset_are_cast_too(client: MockClient) -> None:
    log(People, person(uid=7))

    assert client.inspect("People")["uid"].tolist() == ["7"]
    assert client.get_dataset_df("People")["uid"].tolist() == ["7"]


BROKEN = "Schema validation failed during data insertion to `People`"
TOO_OLD = (
    f"{BROKEN} [ValueError('Field `age` is of type between, but Value 123 is out of bounds for "
    "between type, bounds are [0, 100].')]"
)
UNKNOWN = (
    f'{BROKEN} [ValueError("Field `sex` is of type oneof, but Value x is not in options '
    "['f', 'm'].\"), ValueError('Field `mail` is of type regex[str], but Value nobody does not "
    "match regex \\\\w+@\\\\w+.')]"
)


@pytest.mark.parametrize(
    ("changes", "said"), [({"age": 123}, TOO_OLD), ({"sex": "x", "mail": "nobody"}, UNKNOWN)]
)
def test_rows_outside_of_restrictions_are_refused_in_fennels_words(
    client: MockClient, changes: dict[str, object], said: str
) -> None:
    with pytest.raises(FennelError) as raised:
        client.log("w", "people", person(**changes))

    assert str(raised.value) == said
    assert client.inspect("People").empty


def test_rows_of_another_type_are_refused_with_arrows_reason(client: MockClient) -> None:
    both = pd.concat([person(age="old"), person()])

    with pytest.raises(FennelError) as raised:
        client.log("w", "people", both)

    assert str(raised.value).startswith(f"{BROKEN}: Failed to cast data logged to column `age` of")
    assert str(raised.value).endswith("Expected bytes, got a 'int' object")


def test_an_empty_frame_is_accepted(client: MockClient) -> None:
    answer = client.log("w", "people", person().iloc[:0])

    assert answer is not None
    assert answer.status_code == 200


def test_a_row_of_exactly_a_day_ago_is_in_the_window_of_a_day(client: MockClient) -> None:
    now = datetime.now(UTC)
    rows = pd.DataFrame({"uid": "a", "score": 1.0, "at": [now, now - timedelta(days=1)]})
    client.log("w", "clicks", rows)

    counts, _ = client.lookup(Counts, keys=pd.DataFrame({"uid": ["a"]}))

    assert counts["today"].tolist() == [2]


def test_windows_that_tumble_move_on_by_rows_alone(client: MockClient) -> None:
    rows = pd.DataFrame(
        {"uid": ["a", "a", "b"], "score": 1.0, "at": [DAY, DAY, DAY + timedelta(1)]}
    )
    client.log("w", "clicks", rows)

    counts, _ = client.lookup(Daily, keys=pd.DataFrame({"uid": ["a"]}))

    assert counts["clicks"].tolist() == [2]


def test_a_sum_that_has_decayed_to_nearly_nothing_is_zero(client: MockClient) -> None:
    client.log("w", "clicks", pd.DataFrame({"uid": ["a"], "score": [5.0], "at": [DAY]}))
    keys = pd.DataFrame({"uid": ["a", "never"]})

    now, _ = client.lookup(Counts, keys=keys)
    then, _ = client.lookup(Counts, keys=keys, timestamps=[DAY + timedelta(hours=1)] * 2)

    assert now["fading"].tolist() == [0.0, pd.NA]
    assert then["fading"].tolist() == [2.5, pd.NA]


def test_branches_are_refused_in_fennels_words(client: MockClient) -> None:
    client.init_branch("b")

    for call, said in (
        (lambda: client.init_branch("b"), "Branch name: `b` already exists"),
        (lambda: client.clone_branch("b", "main"), "Branch `b` already exists"),
        (lambda: client.clone_branch("c", "gone"), "Branch `gone` does not exist"),
        (lambda: client.delete_branch("gone"), "Branch name: gone does not exist"),
        (lambda: client.delete_branch("main"), "Cannot delete the main branch."),
        (lambda: client.inspect("People"), "Dataset `People` not found"),
    ):
        with pytest.raises(FennelError) as raised:
            call()
        assert str(raised.value) == said
    client.checkout("nowhere")
    with pytest.raises(KeyError, match=r"Branch: `nowhere` not found.*\['main', 'b'\]"):
        client.inspect("People")


def test_a_secret_that_is_not_there_is_a_key_error(client: MockClient) -> None:
    client.add_secret("s", "1")

    assert client.get_secret("s") == "1"
    with pytest.raises(KeyError, match="Secret : `t` does not exist"):
        client.get_secret("t")


def test_missing_entities_are_reported_with_fennels_message() -> None:
    @featureset
    class Asked:
        uid: str
        count: int = feature(Counts.lately, default=0)

    client = MockClient()

    with pytest.raises(FennelError) as raised:
        client.commit(message="m", datasets=[Counts])
    assert str(raised.value) == (
        "Dataset `Clicks` is an input to the pipelines: `['Counts.count']` but is not synced. "
        "Please add it to the sync call."
    )
    with pytest.raises(FennelError, match=r"^Dataset `Counts` not found in sync call$"):
        client.commit(message="m", datasets=[Clicks], featuresets=[Asked])


def test_a_changed_dataset_of_the_same_version_has_fennels_message() -> None:
    def people(kind: type) -> Any:
        @source(webhook.endpoint("people"), disorder="1d", cdc="upsert")
        @dataset(index=True)
        class People:
            uid: str = field(key=True)
            age: kind  # type: ignore[valid-type]
            at: datetime

        return People

    client = MockClient()
    client.commit(message="m", datasets=[people(int)])

    with pytest.raises(ValueError, match=r"^Please update version of dataset: `People`$"):
        client.commit(message="m", datasets=[people(float)], incremental=True)


@featureset
class Doubled:
    uid: int
    twice: int

    @extractor
    @inputs("uid")
    @outputs("twice")
    def double(cls: Any, ts: Any, uid: Any) -> Any:  # noqa: N805, ARG002
        return pd.DataFrame({"twice": uid * 2, "more": uid})


def test_an_extractor_can_be_called_as_a_function() -> None:
    made = Doubled.double(Doubled.original_cls, None, pd.Series([1, 2]))  # type: ignore[operator]

    assert made.columns.tolist() == ["Doubled.twice", "more"]
    assert Doubled.all() == ["Doubled.uid", "Doubled.twice"]  # type: ignore[operator]


def test_mistakes_have_fennels_classes_and_our_error_as_cause() -> None:
    for kind in (ValueError, TypeError):
        with pytest.raises(kind) as raised:

            @featureset
            class Wrong:
                uid: int
                count: str = feature(Counts.lately, default=0)

        assert isinstance(raised.value.__cause__, DefinitionErrors)
        assert any(isinstance(one, FeatureInvalid) for one in raised.value.__cause__.exceptions)


def test_credentials_do_not_travel_and_unknown_arguments_are_left_out() -> None:
    with pytest.warns(OmittedArgument) as warned:
        made = S3(name="s", aws_access_key_id="AKIA", aws_secret_access_key="x", bucket="b")  # type: ignore[call-arg, arg-type]
    with pytest.warns(OmittedArgument, match=r"Secret\('p/password'\)"):
        Postgres("p", "host", "db", Secret("user"), "open sesame")  # type: ignore[arg-type]

    assert made.aws_access_key_id == Secret("s/aws_access_key_id")
    assert made.aws_secret_access_key == Secret("s/aws_secret_access_key")
    assert not [one for one in warned if "AKIA" in str(one.message)]
    assert any("takes no `bucket`" in str(one.message) for one in warned)


def test_a_test_that_needs_the_outside_world_is_not_run() -> None:
    @mock
    def test_s3_data_integration(client: MockClient) -> None:
        raise AssertionError(client)

    assert test_s3_data_integration() is None


def test_entities_of_an_env_can_be_counted() -> None:
    view = InternalTestClient()
    for entity in (Clicks, Counts, Doubled):
        view.add(entity)

    found = view._get_sync_request_proto(env="dev")  # noqa: SLF001 (Fennel's tests call it)

    assert [len(found.datasets), len(found.feature_sets), len(found.features)] == [2, 1, 2]
    assert [len(found.sources), len(found.pipelines), len(found.extractors)] == [1, 1, 1]
