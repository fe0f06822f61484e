"""An author points each kind of connector at a server of his own: it hears no secret."""

import base64
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import attrs
import pytest

from narthex._connectors import egress
from narthex._connectors.egress import Destination, EgressRules
from narthex._connectors.http import HttpPath
from narthex._connectors.mongo import MongoDatabase
from narthex._connectors.redshift import RedshiftDatabase
from narthex._ir.connections import (
    Connector,
    Encoding,
    KafkaTopic,
    RegistryFormat,
    SecretRef,
    SqlDatabase,
    Table,
)
from narthex._ir.entities import Cdc
from narthex.errors import ConnectionDenied, NarthexError, PolicyInvalid, SecretWithheld
from narthex.settings import Settings
from narthex_spark_apps.jobs.start import input_broker, polling_source
from narthex_spark_apps.platform import author_brokers
from narthex_spark_apps.platform.author_secrets import AuthorSecrets
from narthex_spark_apps.platform.outgoing_connections import open_socket
from narthex_spark_apps.sinks.http import Address, HttpSink
from narthex_spark_apps.sinks.sink_job import open_sink
from narthex_spark_apps.sinks.sink_stage import SinkFailedError
from narthex_spark_apps.sources.row_rendering import RawRowPosition
from narthex_spark_apps.sources.tables import mongodb
from narthex_spark_apps.sources.topics.schema_registry import RegistryError
from narthex_stores import LogProducer, LogReader, StoreError
from tests.mounted_secrets import grant, mount
from tests.security.listener import (
    Listener,
    Talk,
    listening,
    of_http,
    of_mongo,
    of_mysql,
    of_postgres,
    of_silence,
    redirecting_to,
    without_end,
)
from tests.spark_apps import spark_jobs
from tests.spark_apps.sinks.sink_world import Written, sink_asset, spec_of

pytestmark = pytest.mark.slow

WORD: Final = "hunter2-of-production"
USER, PASSWORD = SecretRef("db/user"), SecretRef("db/password")
RECORD = b"\x00\x00\x00\x00\x07rest"


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Return an installation without services, with the secrets of production's database."""
    made = Settings(
        home=tmp_path,
        install_id="testtest",
        ledger_dsn="",
        kafka="127.0.0.1:1",
        server_url="",
        token="",
        index_dir=tmp_path / "index",
        history_dir=str(tmp_path / "history"),
        checkpoint_dir=tmp_path / "checkpoints",
        files_root=tmp_path / "files",
        jars_dir=tmp_path,
        secrets_dir=str(tmp_path / "secrets"),
    )
    mount(made.secrets_dir, {USER.name: "app", PASSWORD.name: WORD})
    # The servers here are none of their kind; a client need not wait long to see that.
    monkeypatch.setattr(mongodb, "CONNECT_S", 1)
    monkeypatch.setattr(author_brokers, "METADATA_S", 1)
    return made


Uses = Callable[[str, int, Settings], object]
"""Runs a connector that names a server, so far that it would have sent its secret."""


def read_table(database: Any, settings: Settings) -> None:
    table = Table(database=database, table="orders", cursor="changed")
    job = _source(table, settings)
    source = polling_source(job.asset, settings)
    assert source is not None
    with LogProducer(settings.kafka) as producer:
        source.read(producer)


def use_postgres(host: str, port: int, settings: Settings) -> None:
    read_table(_sql("postgres", host, port), settings)


def use_mysql(host: str, port: int, settings: Settings) -> None:
    read_table(_sql("mysql", host, port), settings)


def use_redshift(host: str, port: int, settings: Settings) -> None:
    database = RedshiftDatabase(
        name="r",
        host=host,
        port=port,
        db_name="d",
        schema="public",
        username=USER,
        password=PASSWORD,
    )
    read_table(database, settings)


def use_mongo(host: str, port: int, settings: Settings) -> None:
    at = f"mongodb://{host}:{port}/?directConnection=true"
    database = MongoDatabase(name="m", host=at, db_name="d", username=USER, password=PASSWORD)
    read_table(database, settings)


def use_kafka(host: str, port: int, settings: Settings) -> None:
    topic = KafkaTopic(
        name="k",
        bootstrap_servers=f"{host}:{port}",
        topic="orders",
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        username=USER,
        password=PASSWORD,
    )
    _read_topic(topic, settings)


def use_open_kafka(host: str, port: int, settings: Settings) -> None:
    _read_topic(KafkaTopic(name="k", bootstrap_servers=f"{host}:{port}", topic="t"), settings)


def _read_topic(topic: KafkaTopic, settings: Settings) -> None:
    with LogReader(input_broker(_source(topic, settings).asset, settings)) as reader:
        reader.end_offsets([topic.topic], timeout_s=2)


def use_registry(host: str, port: int, settings: Settings) -> None:
    kept = RegistryFormat(
        encoding=Encoding.AVRO,
        registry="confluent",
        url=f"http://{host}:{port}",
        username=USER,
        password=PASSWORD,
    )
    topic = KafkaTopic(name="k", bootstrap_servers="", topic="t", format=kept)
    reader = _source(topic, settings).format(settings).open()
    reader.rows(RECORD, place=RawRowPosition(), now_us=0)


def use_http_sink(host: str, port: int, settings: Settings) -> None:
    path = HttpPath(
        name="h",
        host=f"http://{host}:{port}",
        healthz="/ok",
        endpoint="/rows",
        headers=(("Authorization", PASSWORD),),
    )
    spec = spec_of(path, cdc=Cdc.DEBEZIUM)
    HttpSink(Address.of(path, settings), spec=spec).write([], mark=1)


def use_postgres_sink(host: str, port: int, settings: Settings) -> None:
    spec = spec_of(Table(database=_sql("postgres", host, port), table="t"), how="incremental")
    stage = open_sink(sink_asset(spec, "t"), settings, written=Written(), epoch=1)
    assert stage is not None
    stage.target.write([], mark=1)  # type: ignore[attr-defined]


def _sql(kind: str, host: str, port: int) -> SqlDatabase:
    return SqlDatabase(
        kind=kind, name="d", host=host, port=port, db_name="d", username=USER, password=PASSWORD
    )


def _source(connector: Connector, settings: Settings) -> Any:
    needs = (
        spark_jobs.topic_need("output", "orders"),
        spark_jobs.topic_need("quarantine", "refused"),
        spark_jobs.checkpoint_need(settings.home / "checkpoint"),
    )
    return spark_jobs.source_job(connector, needs=needs)


KINDS: Final[dict[str, tuple[Uses, Talk]]] = {
    "postgres": (use_postgres, of_postgres),
    "redshift": (use_redshift, of_postgres),
    "mysql": (use_mysql, of_mysql),
    "mongo": (use_mongo, of_silence),
    "kafka": (use_kafka, of_silence),
    "kafka without a secret": (use_open_kafka, of_silence),
    "registry": (use_registry, of_http),
    "http sink": (use_http_sink, of_http),
    "postgres sink": (use_postgres_sink, of_postgres),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def attempt(use: Uses, host: str, port: int, settings: Settings) -> NarthexError | None:
    """Use a connector; ignore errors of its server, but not a refusal of the platform."""
    try:
        with suppress(OSError, StoreError, SinkFailedError):
            use(host, port, settings)
    except NarthexError as error:
        return error
    return None


def has_word(listener: Listener) -> bool:
    return any(
        text in listener.heard
        for text in (WORD.encode(), base64.b64encode(f"app:{WORD}".encode()).rstrip(b"="))
    )


def test_a_server_of_the_author_hears_no_secret_and_gets_no_connection(
    kind: str, settings: Settings
) -> None:
    use, talk = KINDS[kind]
    with listening(talk) as listener:
        refused = attempt(use, "127.0.0.1", listener.port, settings)

    assert not has_word(listener)
    assert listener.connections == 0
    assert isinstance(refused, ConnectionDenied | SecretWithheld)


@pytest.mark.parametrize("kind", [one for one in KINDS if one != "kafka without a secret"])
def test_a_secret_that_is_bound_to_another_host_is_withheld(kind: str, settings: Settings) -> None:
    use, talk = KINDS[kind]
    with listening(talk) as listener:
        grant(settings.home / "policy.toml", allow=[f"127.0.0.1:{listener.port}"])
        grant(
            settings.home / "policy.toml",
            "db.example.com:5432",
            f"127.0.0.1:{listener.port + 1}",
            secrets=[USER.name, PASSWORD.name],
            allow=[],
        )
        refused = attempt(use, "127.0.0.1", listener.port, settings)

    assert listener.connections == 0
    assert isinstance(refused, SecretWithheld)


NAME: Final = "db.example.test"


@pytest.fixture
def found_at(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Have every name resolve to what the list has first, which is then taken out."""
    addresses: list[str] = []

    def look_up(_host: str, _port: int) -> Sequence[str]:
        return (addresses.pop(0),)

    monkeypatch.setattr(egress, "system_look_up", look_up)
    return addresses


def test_a_name_that_resolves_to_this_machine_gets_no_connection(
    kind: str, settings: Settings, found_at: list[str]
) -> None:
    use, talk = KINDS[kind]
    with listening(talk) as listener:
        at = f"{NAME}:{listener.port}"
        grant(settings.home / "policy.toml", at, secrets=[USER.name, PASSWORD.name], allow=[])
        found_at += ["127.0.0.1"] * 9
        refused = attempt(use, NAME, listener.port, settings)

    assert listener.connections == 0
    assert isinstance(refused, ConnectionDenied)


PINNED: Final = [one for one in KINDS if "kafka" not in one]


@pytest.mark.parametrize("kind", PINNED)
def test_a_connection_goes_to_the_address_that_was_checked(
    kind: str, settings: Settings, found_at: list[str]
) -> None:
    use, talk = KINDS[kind]
    with listening(talk) as listener:
        at = f"{NAME}:{listener.port}"
        grant(settings.home / "policy.toml", at, secrets=[USER.name, PASSWORD.name], allow=[])
        grant(settings.home / "policy.toml", f"127.0.0.1:{listener.port}")
        # No resolver of this machine resolves the name: a driver that used one would fail. A driver
        # that uses ours again is sent elsewhere.
        found_at += ["127.0.0.1"] * (2 if kind == "mongo" else 1) + ["127.0.0.2"] * 9
        attempt(use, NAME, listener.port, settings)

    assert listener.connections == 1 or kind == "mongo"
    assert listener.connections >= 1
    assert has_word(listener) or kind == "mongo"


@pytest.mark.parametrize("kind", KINDS)
def test_a_granted_server_gets_the_secret(kind: str, settings: Settings) -> None:
    use, talk = KINDS[kind]
    with listening(talk) as listener:
        at = f"127.0.0.1:{listener.port}"
        grant(settings.home / "policy.toml", at, secrets=[USER.name, PASSWORD.name])
        refused = attempt(use, "127.0.0.1", listener.port, settings)

    assert refused is None
    assert listener.connections >= 1
    # Clients of Kafka and of MongoDB hear first who they speak to, and this server is neither.
    assert has_word(listener) or kind in {"kafka", "kafka without a secret", "mongo"}


@pytest.mark.parametrize("kind", ["registry", "http sink"])
def test_a_redirect_is_not_followed(kind: str, settings: Settings) -> None:
    use, _ = KINDS[kind]
    with listening(of_http) as thief, listening(redirecting_to(thief.port)) as granted:
        at = f"127.0.0.1:{granted.port}"
        grant(settings.home / "policy.toml", at, secrets=[USER.name, PASSWORD.name])
        grant(settings.home / "policy.toml", f"127.0.0.1:{thief.port}")
        with pytest.raises((RegistryError, SinkFailedError), match="302"):
            use("127.0.0.1", granted.port, settings)

    assert thief.connections == 0
    assert has_word(granted)


def test_an_answer_without_an_end_is_not_read_to_its_end(settings: Settings) -> None:
    with listening(without_end) as listener:
        at = f"127.0.0.1:{listener.port}"
        grant(settings.home / "policy.toml", at, secrets=[USER.name, PASSWORD.name])
        with pytest.raises(RegistryError, match="more than 8388608 bytes"):
            use_registry("127.0.0.1", listener.port, settings)


@pytest.mark.parametrize("scheme", ["http", "gopher"])
def test_a_host_that_is_a_secret_is_bound_as_others_are(settings: Settings, scheme: str) -> None:
    with listening(of_http) as listener:
        url = f"{scheme}://127.0.0.1:{listener.port}"
        mount(settings.secrets_dir, {"sink/host": url})
        grant(settings.home / "policy.toml", f"127.0.0.1:{listener.port}", secrets=["other"])
        path = HttpPath(name="h", host=SecretRef("sink/host"), healthz="/ok", endpoint="/rows")
        with pytest.raises(SecretWithheld) as refused:
            HttpSink(Address.of(path, settings), spec=spec_of(path, cdc=Cdc.DEBEZIUM))

    assert listener.connections == 0
    assert scheme == "http" or url not in str(refused.value)


@pytest.mark.parametrize("is_granted", [True, False])
def test_a_deployment_of_mongodb_names_members_that_are_checked_too(
    settings: Settings, *, is_granted: bool
) -> None:
    named: list[str] = []
    with (
        listening(of_silence) as thief,
        listening(of_mongo(lambda: tuple(named))) as primary,
    ):
        named += [f"127.0.0.1:{primary.port}", f"127.0.0.1:{thief.port}"]
        grant(settings.home / "policy.toml", named[0], secrets=[USER.name, PASSWORD.name])
        if is_granted:
            grant(settings.home / "policy.toml", named[1], secrets=[USER.name, PASSWORD.name])
        else:
            grant(settings.home / "policy.toml", named[1])
        database = MongoDatabase(
            name="m", host=named[0], db_name="d", username=USER, password=PASSWORD
        )
        with suppress(OSError):
            read_table(database, settings)

    assert primary.connections > 0
    assert bool(thief.connections) is is_granted


@pytest.mark.parametrize("kind", ["postgres", "mysql"])
def test_the_name_of_a_database_leads_nowhere_else(kind: str, settings: Settings) -> None:
    talk = KINDS[kind][1]
    with listening(talk) as thief, listening(talk) as granted:
        at = f"127.0.0.1:{granted.port}"
        grant(settings.home / "policy.toml", at, secrets=[USER.name, PASSWORD.name])
        for name in (
            f"host=127.0.0.1 hostaddr=127.0.0.1 port={thief.port}",
            f"postgresql://127.0.0.1:{thief.port}/d",
            "d' service='x",
        ):
            database = attrs.evolve(_sql(kind, "127.0.0.1", granted.port), db_name=name)
            with suppress(OSError):
                read_table(database, settings)

    assert granted.connections == 3
    assert thief.connections == 0


def test_a_policy_that_cannot_be_read_grants_nothing(kind: str, settings: Settings) -> None:
    use, talk = KINDS[kind]
    (settings.home / "policy.toml").write_text("[egress]\nallow = ['*'")
    with listening(talk) as listener:
        refused = attempt(use, "127.0.0.1", listener.port, settings)

    assert listener.connections == 0
    assert isinstance(refused, PolicyInvalid)


def test_a_socket_is_opened_to_an_allowed_address_only(found_at: list[str]) -> None:
    found_at += ["10.0.0.1"]
    with pytest.raises(ConnectionDenied):
        open_socket(Destination(NAME, 1), EgressRules(), timeout_s=1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        found_at += ["127.0.0.1"]
        port = server.getsockname()[1]
        with open_socket(
            Destination(NAME, port), EgressRules.of(["127.0.0.1"]), timeout_s=5
        ) as opened:
            assert opened.getpeername() == ("127.0.0.1", port)


def test_a_secret_without_a_known_host_is_not_sent(settings: Settings) -> None:
    grant(settings.home / "policy.toml", "*", secrets=[PASSWORD.name])

    with pytest.raises(SecretWithheld):
        AuthorSecrets.of(settings).reveal(PASSWORD, ())
