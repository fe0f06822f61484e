"""Sinks declare the target of a computed dataset's rows, in the form of each target."""

from datetime import UTC, datetime
from typing import Any

import pytest

from narthex._analysis.graph import check
from narthex._ir.entities import Cdc, KafkaTopic
from narthex._sdk.commit_definitions import definitions
from narthex._sdk.datasets.datasets import dataset_entity
from narthex.connectors import (
    HTTP,
    S3,
    Avro,
    Files,
    Kafka,
    Kinesis,
    MySQL,
    Postgres,
    Secret,
    SnapshotData,
    Snowflake,
    Webhook,
    sink,
    source,
)
from narthex.datasets import Dataset, dataset, field, pipeline
from narthex.errors import DefinitionErrors, SinkInvalid
from narthex.lib import inputs, meta
from tests.cases import every

KAFKA = Kafka("bus", "b:9092").topic("out")
HTTP_PATH = HTTP("h", "h:80", "/ok").path("/rows")
BUCKET = S3("s").bucket("b", prefix="out", format="delta")
SNOWFLAKE = Snowflake("s", "acc", "db", Secret("u"), Secret("p"), "wh", "public", "writer")
TABLE = SNOWFLAKE.table("out")
SINCE, UNTIL = datetime(2020, 1, 1, tzinfo=UTC), datetime(2021, 1, 1, tzinfo=UTC)


@meta(owner="a@b.co")
@source(Webhook("w").endpoint("e"), disorder="1h", cdc="append")
@dataset
class Orders:
    uid: int
    amount: float
    at: datetime


def _spend() -> Dataset:
    @meta(owner="a@b.co")
    @dataset
    class Spend:
        uid: int = field(key=True)
        amount: float
        at: datetime

        @pipeline
        @inputs(Orders)
        def latest(cls, orders: Any) -> Any:  # noqa: N805
            return orders.groupby("uid").latest()

    return Spend


@pytest.mark.parametrize(
    ("conn", "options"),
    [
        (KAFKA, {"cdc": "debezium"}),
        (KAFKA, {"cdc": "debezium", "how": "incremental"}),
        (HTTP_PATH, {"cdc": "debezium"}),
        (BUCKET, {"how": "incremental", "every": "1h"}),
        (TABLE, {"how": "incremental", "every": "1h", "since": SINCE, "until": UNTIL}),
        (TABLE, {"how": "incremental", "renames": {"amount": "total"}}),
    ],
)
def test_a_sink_that_its_target_takes_is_sound(conn: Any, options: dict[str, Any]) -> None:
    made = sink(conn, **options)(_spend())

    assert check(definitions([Orders, made], [])) == ()
    assert len(dataset_entity(made).sinks) == 1


def test_every_parameter_of_a_sink_is_recorded() -> None:
    made = sink(TABLE, how="incremental", every="1h", renames={"amount": "total"}, since=SINCE)
    (found,) = dataset_entity(made(_spend())).sinks

    assert (found.target, found.how, found.every_us) == (TABLE, "incremental", 3_600_000_000)
    assert (found.renames, found.since_us) == ((("amount", "total"),), 1_577_836_800_000_000)
    assert found.origin.file.endswith("test_declare_sinks.py")


def test_sinks_stack_and_a_commit_takes_those_of_its_env() -> None:
    made = sink(KAFKA, cdc="debezium", env="prod")(_spend())
    sink(HTTP_PATH, cdc="debezium", env="~prod")(made)

    def targets(env: str | None) -> list[type]:
        return [type(one.target) for one in dataset_entity(made, env).sinks]

    assert len(targets(None)) == 2
    assert targets("prod") == [KafkaTopic]
    assert dataset_entity(made, "prod").sinks[0].cdc is Cdc.DEBEZIUM


@every(
    ("conn", "options", "says"),
    [
        (KAFKA, {}, "`cdc` got none; a sink into Kafka needs `debezium`"),
        (KAFKA, {"cdc": "append"}, "`cdc` got `append`"),
        (KAFKA, {"cdc": "debezium", "every": "1h"}, "it has no `every`"),
        (KAFKA, {"cdc": "debezium", "how": "recreate"}, "is `incremental`"),
        (KAFKA, {"cdc": "debezium", "renames": {"amount": "a"}}, "has no `renames`"),
        (KAFKA, {"cdc": "debezium", "since": SINCE}, "has no `since`"),
        (HTTP_PATH, {"cdc": "debezium", "every": "1h"}, "it has no `every`"),
        (
            Kafka("k", "b").topic("t", format=Avro("confluent", "https://r")),
            {"cdc": "debezium"},
            "writes `json` only",
        ),
        (BUCKET, {"how": "incremental", "cdc": "debezium"}, "has no `cdc`"),
        (BUCKET, {}, 'needs `how="incremental"`'),
        (BUCKET, {"how": SnapshotData("done", 3)}, 'needs `how="incremental"`'),
        (S3("s").bucket("b", prefix="x"), {"how": "incremental"}, 'needs `format="delta"`'),
        (
            S3("s", role_arn="arn:r").bucket("b", prefix="x", format="delta"),
            {"how": "incremental"},
            "the platform's own credentials",
        ),
        (Files("f").path("x", format="delta"), {"how": "incremental"}, "writes files to S3"),
        (TABLE, {}, 'needs `how="incremental"`'),
        (TABLE, {"how": "incremental", "cdc": "debezium"}, "has no `cdc`"),
        (SNOWFLAKE.table("t", cursor="c"), {"how": "incremental"}, "has no `cursor`"),
        (TABLE, {"how": "incremental", "renames": {"amuont": "a"}}, "did you mean `amount`?"),
        (TABLE, {"how": "incremental", "renames": {"amount": "uid"}}, "two fields the name `uid`"),
        (TABLE, {"how": "incremental", "since": UNTIL, "until": SINCE}, "is not before"),
        (TABLE, {"how": "sometimes"}, "`how` got `'sometimes'`"),
        (TABLE, {"how": "incremental", "every": "soon"}, "`every`"),
        (TABLE, {"how": "incremental", "since": "2020"}, "expected a datetime"),
        (TABLE, {"how": "incremental", "env": ""}, "is not a name"),
        (Webhook("w").endpoint("e"), {}, "found `Webhook`"),
        (Kinesis("k", "r").stream("a", "latest"), {}, "found `Kinesis`"),
        (SNOWFLAKE, {"how": "incremental"}, "has no `table`"),
        (5, {}, "expected a connector"),
    ],
)
def test_a_sink_that_its_target_does_not_take_is_refused(
    conn: Any, options: dict[str, Any], says: str
) -> None:
    with pytest.raises(DefinitionErrors) as raised:
        sink(conn, **options)(_spend())

    assert says in str(raised.value)
    assert len(raised.value.exceptions_flat()) == 1


def test_a_sink_into_another_database_is_refused() -> None:
    mysql = MySQL("p", "h", "d", Secret("u"), Secret("p")).table("t", "c")
    with pytest.raises(DefinitionErrors) as raised:
        sink(mysql, how="incremental")(_spend())

    said = [error.message for error in raised.value.exceptions_flat()]
    assert said == [
        "a sink writes to Kafka, S3, Postgres, Snowflake or HTTP; found `MySQL`",
    ]


def test_a_sink_into_postgres_names_a_table_and_no_cursor() -> None:
    table = Postgres("p", "h", "d", Secret("u"), Secret("p")).table("t")
    spend = _spend()

    sink(table, how="incremental", renames={"amount": "sum"}, every="5m")(spend)

    (made,) = dataset_entity(spend).sinks
    assert made.target == table


def test_a_sink_decorates_a_computed_dataset() -> None:
    with pytest.raises(SinkInvalid, match="above `@dataset`"):
        sink(KAFKA, cdc="debezium")(5)

    @meta(owner="a@b.co")
    @sink(KAFKA, cdc="debezium")
    @source(Webhook("w").endpoint("f"), disorder="1h", cdc="append")
    @dataset
    class Both:
        at: datetime

    (found,) = check(definitions([Both], []))
    assert found.message == "dataset `Both` has a source and a sink"
    assert found.origin.file.endswith("test_declare_sinks.py")
