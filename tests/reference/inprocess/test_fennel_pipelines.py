"""Pipelines of Fennel's authors in unit tests: errors of their code, dtypes, and windows."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd
import pytest

from narthex.compat.aggregates import Distinct
from narthex.compat.connectors import Kafka, Redshift, source
from narthex.compat.declaring import dataset, extractor, featureset, index
from narthex.compat.errors import FennelError
from narthex.compat.steps import pipeline
from narthex.compat.testing import MockClient
from narthex.connectors import Webhook, ref
from narthex.datasets import Count, field
from narthex.dtypes import Decimal, Tumbling, Window, between
from narthex.expr import col
from narthex.featuresets import feature
from narthex.lib import inputs, outputs

__owner__ = "a@b.co"

webhook = Webhook(name="w")
NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)


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
    size: Decimal[2]
    at: datetime


def clicks(*minutes: int) -> pd.DataFrame:
    at = [NOON + timedelta(minutes=minute) for minute in minutes]
    return pd.DataFrame({"uid": "a", "score": 1.5, "at": at})


def test_code_that_fails_on_a_row_fails_the_call_that_logs_it() -> None:
    @dataset
    class Doubled:
        uid: str
        score: float
        twice: int
        at: datetime

        @pipeline
        @inputs(Clicks)
        def p(cls: Any, rows: Any) -> Any:  # noqa: N805
            return rows.assign("twice", int, lambda df: df["score"] * 2.5)

    client = MockClient()
    client.commit(message="m", datasets=[Clicks, Doubled])

    with pytest.raises(FennelError, match="pipeline `p` in dataset `Doubled`: Error in assign"):
        client.log("w", "clicks", clicks(0))


def test_transform_of_keyed_rows_gets_the_hidden_column() -> None:
    @dataset(index=True)
    class Seen:
        uid: str = field(key=True)
        size: Decimal[2]
        at: datetime

        @pipeline
        @inputs(People)
        def p(cls: Any, people: Any) -> Any:  # noqa: N805
            def check(df: pd.DataFrame) -> pd.DataFrame:
                assert sorted(df.columns) == ["__fennel_delete_timestamp__", "at", "size", "uid"]
                return df

            return people.transform(check)

    client = MockClient()
    client.commit(message="m", datasets=[People, Seen])
    client.log("w", "people", pd.DataFrame({"uid": ["a"], "size": [1], "at": [NOON]}))

    rows, found = client.lookup(Seen, keys=pd.DataFrame({"uid": ["a"]}))

    assert found.tolist() == [True]
    assert str(rows["size"].dtype) == "decimal128(28, 2)[pyarrow]"


@pytest.mark.parametrize("emit", [{}, {"emit": "eager"}, {"emit": "final"}])
def test_a_span_appears_when_it_has_ended(emit: dict[str, str]) -> None:
    @dataset(index=True)
    class Hourly:
        uid: str = field(key=True)
        window: Window = field(key=True)
        n: int
        at: datetime

        @pipeline
        @inputs(Clicks)
        def p(cls: Any, rows: Any) -> Any:  # noqa: N805
            return rows.groupby("uid", window=Tumbling("1h")).aggregate(n=Count(), **emit)

    client = MockClient()
    client.commit(message="m", datasets=[Clicks, Hourly])
    client.log("w", "clicks", clicks(0, 30, 90))
    span = {"begin": NOON, "end": NOON + timedelta(hours=1)}
    keys = pd.DataFrame({"uid": ["a"] * 2, "window": [span] * 2})
    instants = pd.Series([NOON + timedelta(minutes=minute) for minute in (59, 60)])

    rows, found = client.lookup(Hourly, keys=keys, timestamps=instants)

    assert found.tolist() == [False, True]
    assert rows["n"].tolist() == [pd.NA, 2]
    assert rows["at"][1] == NOON + timedelta(hours=1)


def test_rows_and_answers_have_the_dtypes_of_fennels_test_client() -> None:
    @featureset
    class Sizes:
        uid: str
        size: Decimal[2] = feature(People.size, default=0)
        code: int
        loud: str = feature(col("uid").str.upper())

        @extractor
        @inputs("uid")
        @outputs("code")
        def of(cls: Any, ts: pd.Series, uid: pd.Series) -> pd.Series:  # noqa: N805, ARG002
            return pd.Series([len(one) for one in uid], name="code")

    client = MockClient()
    client.commit(message="m", datasets=[Clicks, People], featuresets=[Sizes])
    client.log("w", "clicks", clicks(0))
    client.log("w", "people", pd.DataFrame({"uid": ["a"], "size": [1], "at": [NOON]}))

    rows = client.get_dataset_df("Clicks")
    answers = client.query(
        inputs=[Sizes.uid], outputs=[Sizes], input_dataframe=pd.DataFrame({"Sizes.uid": ["a"]})
    )

    assert [str(dtype) for dtype in rows.dtypes] == [
        "string[pyarrow]",
        "double[pyarrow]",
        "timestamp[ns, tz=UTC][pyarrow]",
    ]
    assert {name: str(dtype) for name, dtype in answers.dtypes.items()} == {
        "Sizes.uid": "object",
        "Sizes.size": "decimal128(28, 2)[pyarrow]",
        "Sizes.code": "int64",
        "Sizes.loud": "string[pyarrow]",
    }


@dataset(index=True)
class Tagged:
    uid: str = field(key=True)
    tags: list[str]
    depth: list[list[int]]
    by: dict[str, list[int]]
    at: datetime


def test_code_gets_lists_at_every_depth() -> None:
    @dataset
    class Kinds:
        uid: str
        kinds: list[str]
        at: datetime

        @pipeline
        @inputs(Tagged)
        def p(cls: Any, tagged: Any) -> Any:  # noqa: N805
            def kinds(df: pd.DataFrame) -> pd.Series:
                columns = [df["tags"], df["depth"], df["depth"].str[0], df["by"].str["x"]]
                rows = zip(*columns, strict=True)
                return pd.Series([[type(one).__name__ for one in row] for row in rows])

            rows = tagged.changelog(insert="is_new")
            return rows.assign("kinds", list[str], kinds).select("uid", "kinds")

    client = MockClient()
    client.commit(
        message="m",
        datasets=[source(webhook.endpoint("t"), disorder="1d", cdc="upsert")(Tagged), Kinds],
    )
    row = {"uid": "a", "tags": ["x"], "depth": [[1], []], "by": {"x": [1]}, "at": NOON}
    client.log("w", "t", pd.DataFrame([row]))

    assert client.get_dataset_df("Kinds")["kinds"].tolist() == [["list"] * 4]


def test_a_refused_row_is_named_by_the_field_that_a_raw_column_fills() -> None:
    @source(webhook.endpoint("s"), disorder="1d", cdc="append", preproc={"age": ref("years")})
    @dataset
    class Aged:
        age: between(int, 0, 100)  # type: ignore[valid-type]
        at: datetime

    client = MockClient()
    client.commit(message="m", datasets=[Aged])

    with pytest.raises(FennelError, match=r"insertion to `Aged` .*Value 123 is out of bounds"):
        client.log("w", "s", pd.DataFrame({"years": [123], "at": [NOON]}))


def test_mistakes_in_arguments_are_of_the_classes_that_fennel_raises() -> None:
    with pytest.raises(ValueError, match="security_protocol"):
        Kafka(
            name="k", bootstrap_servers="h", security_protocol="NOPE", sasl_mechanism="PLAIN"
        ).topic("t")
    with pytest.raises(AttributeError, match="s3_access_role_arn"):
        Redshift(name="r", db_name="d", host="h", schema="s").table("t", cursor="c")
    with pytest.raises(ValueError, match="missing a required argument"):
        Redshift()
    with pytest.raises(AttributeError, match="idleness parameter should not be passed"):
        source(webhook.endpoint("x"), disorder="1d", cdc="append", idleness="1h")
    with pytest.raises(ValueError, match="secondary"):
        index(type="secondary")(People)
    with pytest.raises(ValueError, match="Distinct requires unordered=True"):
        Distinct(of="uid", unordered=False)
    with pytest.raises(KeyError, match="Dataset: Nope not found"):
        MockClient().lookup("Nope", keys=pd.DataFrame({"k": ["a"]}))
    with pytest.raises(ValueError, match="has no key `uid`"):
        People.lookup(pd.Series([NOON]))
