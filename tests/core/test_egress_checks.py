"""A commit is refused hosts and secrets without a rule; the error has the line and the rule."""

import textwrap
from datetime import datetime
from typing import Any

import pytest

from narthex._analysis.graph import check
from narthex._analysis.policy.egress_checks import egress_errors, missing_rules, require_grant
from narthex._analysis.policy.policy import Policy
from narthex._connectors.egress import Destination, EgressRules, resolve
from narthex._ir.entities import Definitions
from narthex._sdk.commit_definitions import definitions
from narthex.connectors import (
    HTTP,
    S3,
    Avro,
    BigQuery,
    Files,
    Kafka,
    Kinesis,
    Mongo,
    MySQL,
    Postgres,
    PubSub,
    Redshift,
    Secret,
    Snowflake,
    Webhook,
    sink,
    source,
)
from narthex.datasets import Dataset, dataset, field, pipeline
from narthex.errors import (
    ConnectionDenied,
    ConnectorInvalid,
    DefinitionError,
    EgressDenied,
    PolicyInvalid,
    SecretNotGranted,
    SecretWithheld,
)
from narthex.featuresets import extractor, feature, featureset
from narthex.lib import inputs, meta, outputs, secrets

USER, WORD = Secret("db/user"), Secret("db/word")
NOTHING = Policy()


def policy(text: str) -> Policy:
    return Policy.parse(textwrap.dedent(text))


def granting(*hosts: str, name: str = "db/*", branch: str = "main", allow: str = "") -> Policy:
    listed = ", ".join(f'"{host}"' for host in hosts)
    return policy(
        f'[[secrets]]\nname = "{name}"\nbranches = ["{branch}"]\nhosts = [{listed}]\n'
        f"[egress]\nallow = [{allow}]"
    )


def users() -> Dataset:
    @meta(owner="a@b.co")
    @dataset
    class Users:
        uid: int = field(key=True)
        name: str
        at: datetime

    return Users


def sourced(conn: Any) -> Definitions:
    return definitions([source(conn, disorder="1h", cdc="upsert")(users())], [])


def sunk(conn: Any, **options: Any) -> Definitions:
    made = source(Webhook("w").endpoint("users"), disorder="1h", cdc="upsert")(users())

    @meta(owner="a@b.co")
    @sink(conn, **options)
    @dataset
    class Copy:
        uid: int = field(key=True)
        name: str
        at: datetime

        @pipeline
        @inputs(made)
        def copy(cls, users: Any) -> Any:  # noqa: N805
            return users

    return definitions([made, Copy], [])


def found(
    made: Definitions, granted: Policy = NOTHING, *, branch: str = "main", url: str = ""
) -> list[DefinitionError]:
    assert check(made) == ()
    errors = egress_errors(made, granted, branch=branch, endpoint_url=url)
    assert all(error.hint for error in errors)
    assert all(error.origin.file.endswith("test_egress_checks.py") for error in errors)
    return [*errors]


REGISTRY = Avro("confluent", "https://registry.example.com/api", USER, WORD)
SOURCES = {
    "postgres": (
        Postgres("p", "db.example.com", "d", USER, WORD).table("t", "c"),
        ["db.example.com:5432"],
    ),
    "mysql": (
        MySQL("p", "db.example.com", "d", USER, WORD).table("t", "c"),
        ["db.example.com:3306"],
    ),
    "redshift": (
        Redshift(
            name="r",
            db_name="d",
            host="c.eu-west-1.redshift.amazonaws.com",
            schema="s",
            username=USER,
            password=WORD,
        ).table("t", "c"),
        ["c.eu-west-1.redshift.amazonaws.com:5439"],
    ),
    "snowflake": (
        Snowflake("s", "xy1.eu-west-1", "d", USER, WORD, "w", "s", "r").table("t", "c"),
        ["xy1.eu-west-1.snowflakecomputing.com:443"],
    ),
    "mongo": (
        Mongo("m", "a.example.com,b.example.com:2", "d", USER, WORD).collection("t", "c"),
        ["a.example.com:27017", "b.example.com:2"],
    ),
    "atlas": (
        Mongo("m", "c.x.mongodb.net", "d", USER, WORD).collection("t", "c"),
        ["c.x.mongodb.net:27017"],
    ),
    "bigquery": (BigQuery("b", "p", "d", WORD).table("t", "c"), ["googleapis.com:443"]),
    "pubsub": (PubSub("b", "p", WORD).topic("t"), ["googleapis.com:443"]),
    "kafka": (
        Kafka("k", "a.example.com:1,b.example.com", "SASL_SSL", "PLAIN", USER, WORD).topic("t"),
        ["a.example.com:1", "b.example.com:9092"],
    ),
    "registry": (Kafka("k", "").topic("t", format=REGISTRY), ["registry.example.com:443"]),
    "kinesis": (
        Kinesis("k", "r").stream("arn:aws:kinesis:eu-west-1:1:stream/s", "latest", REGISTRY),
        ["registry.example.com:443"],
    ),
    "s3": (S3("s", USER, WORD).bucket("b", prefix="x"), ["amazonaws.com:443"]),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_a_secret_needs_a_rule_for_the_branch_and_every_host(kind: str) -> None:
    conn, hosts = SOURCES[kind]
    made = sourced(conn)

    refused = [error for error in found(made) if isinstance(error, SecretNotGranted)]
    (*_, last) = refused
    assert "`db/word`" in last.message
    assert all(f"`{host}`" in last.message for host in hosts)
    assert "`main`" in last.message

    rule = policy(last.hint.partition("\n")[2])
    assert [(one.name, one.branches, [*one.hosts]) for one in rule.secrets] == [
        ("db/word", ("main",), hosts)
    ]
    assert found(made, granting(*hosts)) == []
    assert found(made, granting(*hosts), branch="dev")
    for missing in hosts:
        assert found(made, granting(*(host for host in hosts if host != missing)))


def test_a_store_of_the_platform_is_the_host_that_keys_are_bound_to() -> None:
    made = sourced(SOURCES["s3"][0])

    assert found(made, granting("store.internal:9000"), url="http://store.internal:9000") == []
    assert found(made, granting("amazonaws.com:443"), url="http://store.internal:9000")
    assert found(sourced(S3("s").bucket("b", prefix="x"))) == []
    assert found(sourced(Files("f").path("users.csv"))) == []
    assert found(sourced(Webhook("w").endpoint("users"))) == []


@pytest.mark.parametrize(
    "conn",
    [
        Postgres("p", "127.0.0.1", "d", USER, WORD).table("t", "c"),
        MySQL("p", "10.0.0.1", "d", USER, WORD).table("t", "c"),
        Kafka("k", "localhost:9092", "SASL_SSL", "PLAIN", USER, WORD).topic("t"),
        Kafka("k", "").topic("t", format=Avro("confluent", "http://169.254.169.254/latest")),
        Mongo("m", "[::1]:27017", "d", USER, WORD).collection("t", "c"),
    ],
)
def test_a_host_that_is_not_public_is_denied(conn: Any) -> None:
    made = sourced(conn)

    (denied,) = found(made, granting("*"))

    assert type(denied) is EgressDenied
    assert denied.code == "NX508"
    allow = policy(denied.hint.partition("\n")[2]).egress.allow
    assert found(made, granting("*", allow=", ".join(f'"{one}"' for one in allow))) == []


@pytest.mark.parametrize(
    "conn",
    [
        Postgres("p", "2130706433", "d", USER, WORD).table("t", "c"),
        Postgres("p", "/var/run/postgresql", "d", USER, WORD).table("t", "c"),
        Postgres("p", "a,b", "d", USER, WORD).table("t", "c"),
        Postgres("p", "h", "d", USER, WORD, jdbc_params="service=x").table("t", "c"),
        Postgres("p", "h", "d", USER, WORD, jdbc_params="options=-c x").table("t", "c"),
        MySQL("p", "h", "d", USER, WORD, jdbc_params="useSSL=true&sslMode=REQUIRED").table(
            "t", "c"
        ),
        Snowflake("s", "evil.com/", "d", USER, WORD, "w", "s", "r").table("t", "c"),
        Kafka("k", "SSL://a:9092").topic("t"),
        Kafka("k", "").topic("t", format=Avro("confluent", "file:///etc/passwd")),
        Mongo("m", "mongodb://h/?tlsCAFile=/etc/passwd", "d", USER, WORD).collection("t", "c"),
        Kinesis("k", "r").stream("arn:aws:kinesis:evil.com/:1:stream/s", "latest"),
    ],
)
def test_invalid_addresses_and_unknown_options_are_reported(conn: Any) -> None:
    (error,) = found(sourced(conn), granting("*"))

    assert type(error) is ConnectorInvalid


def test_a_cluster_is_reached_only_if_it_is_named() -> None:
    made = sourced(Kafka("k", "bus.example.com:9092").topic("t"))

    (denied,) = found(made)

    assert isinstance(denied, EgressDenied)
    assert "a cluster that the policy does not list" in denied.message
    assert found(made, policy('[egress]\nallow = ["bus.example.com:9092"]')) == []
    assert found(sourced(Kafka("k", "").topic("t"))) == []


def test_secrets_of_sinks_are_bound_too() -> None:
    path = HTTP("h", "https://rows.example.com", "/ok").path("rows", headers={"X-Api-Key": WORD})
    made = sunk(path, cdc="debezium")

    (refused,) = found(made)

    assert isinstance(refused, SecretNotGranted)
    assert refused.code == "NX509"
    assert "a sink of `Copy` sends the secret `db/word` to `rows.example.com:443`" in (
        refused.message
    )
    assert found(made, granting("rows.example.com")) == []


def test_a_host_that_is_a_secret_needs_a_rule_for_the_branch() -> None:
    made = sunk(HTTP("h", WORD, "/ok").path("rows"), cdc="debezium")

    (refused,) = found(made)

    assert isinstance(refused, SecretNotGranted)
    assert found(made, granting("rows.example.com")) == []
    assert found(made, granting("rows.example.com", branch="dev"))


@pytest.mark.parametrize(
    ("healthz", "endpoint"), [("http://b/", "rows"), ("/ok", "//b/rows"), ("/ok#x", "rows")]
)
def test_the_paths_of_a_sink_are_paths(healthz: str, endpoint: str) -> None:
    made = sunk(HTTP("h", "https://a.example.com", healthz).path(endpoint), cdc="debezium")

    (error,) = found(made)

    assert type(error) is ConnectorInvalid


def test_code_reads_the_secrets_that_a_rule_names_for_code() -> None:
    events = source(Webhook("w").endpoint("users"), disorder="1h", cdc="upsert")(users())

    @meta(owner="a@b.co")
    @featureset
    class F:
        name: str
        token: str = feature()
        other: str = feature()

        @extractor
        @inputs("name")
        @outputs("token")
        def tokens(cls, ts: Any, name: Any) -> Any:  # noqa: ARG002, N805
            return name + secrets.get("db/word")

        @extractor
        @inputs("name")
        @outputs("other")
        def others(cls, ts: Any, name: Any) -> Any:  # noqa: ARG002, N805
            return name.apply(secrets.get)

    made = definitions([events], [F])
    code = '[[secrets]]\nname = "db/word"\nbranches = ["main"]\n'

    assert [error.message.partition(",")[0] for error in found(made)] == [
        "extractor `tokens` reads the secret `db/word`",
        "extractor `others` reads secrets whose names are not literals",
    ]
    assert len(found(made, policy(code))) == 2
    assert len(found(made, policy(code + "code = true"))) == 1
    assert len(found(made, policy(code + "code = true"), branch="dev")) == 2


def test_an_entry_that_cannot_be_read_refuses_every_commit() -> None:
    made = sourced(Webhook("w").endpoint("users"))

    for text in (
        '[egress]\nallow = ["0x7f.1"]',
        '[[secrets]]\nname = "a"\nbranches = ["*"]\nhosts = ["127.1"]',
    ):
        with pytest.raises(PolicyInvalid):
            egress_errors(made, policy(text), branch="main")


def test_a_job_reports_the_missing_rule() -> None:
    with pytest.raises(SecretWithheld) as withheld:
        require_grant(granting("a:1"), "db/word", (Destination("a", 1), Destination("b", 1)))
    with pytest.raises(ConnectionDenied) as denied:
        resolve(Destination("127.0.0.1", 1), EgressRules())

    assert (withheld.value.code, denied.value.code) == ("NX975", "NX974")
    assert "`db/word` go to `b:1`" in withheld.value.message
    assert missing_rules(granting("a:1"), "db/word") == ""
    assert 'name = "other"' in missing_rules(granting("a:1"), "other")
