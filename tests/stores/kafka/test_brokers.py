"""Transient refusals of a cluster are distinguished from permanent ones."""

from pathlib import Path

import attrs
import pytest
from confluent_kafka import KafkaError

from narthex.settings import NotInstalledError, Settings
from narthex_stores import PermanentError, TransientError
from narthex_stores.kafka.brokers import platform_broker, store_error

PLAIN = {"bootstrap.servers": "k:9092"}
LOGIN = {"sasl.mechanism": "PLAIN", "sasl.username": "us", "sasl.password": "hidden"}


@pytest.mark.parametrize(
    ("user", "tls", "config"),
    [
        ("", "", PLAIN),
        ("", "on", PLAIN | {"security.protocol": "SSL", "ssl.ca.location": "/ca.pem"}),
        ("us", "", PLAIN | LOGIN | {"security.protocol": "SASL_PLAINTEXT"}),
        (
            "us",
            "on",
            PLAIN | LOGIN | {"security.protocol": "SASL_SSL", "ssl.ca.location": "/ca.pem"},
        ),
    ],
)
def test_the_platform_signs_in_as_its_settings_say(
    tmp_path: Path, user: str, tls: str, config: dict[str, str]
) -> None:
    settings = Settings(
        home=tmp_path,
        install_id="abcdefgh",
        ledger_dsn="",
        kafka="k:9092",
        kafka_user=user,
        kafka_password="hidden" if user else "",
        kafka_tls=tls,
        server_url="",
        token="",
        index_dir=tmp_path,
        history_dir=str(tmp_path),
        checkpoint_dir=tmp_path,
        files_root=tmp_path,
        jars_dir=tmp_path,
        ca_file="/ca.pem",
    )

    broker = platform_broker(settings)

    assert broker.config() == config
    assert "hidden" not in repr(settings) + repr(broker)
    assert settings.without_secrets().kafka_password == ""


def test_a_value_other_than_on_is_not_read_as_off() -> None:
    with pytest.raises(NotInstalledError, match="NARTHEX_KAFKA_TLS"):
        attrs.fields(Settings).kafka_tls.validator(None, attrs.fields(Settings).kafka_tls, "true")


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError._TRANSPORT,  # noqa: SLF001 (so the client names its own errors)
    ],
)
def test_a_partition_or_a_group_without_a_leader_is_retried(code: int) -> None:
    assert isinstance(store_error("ends of `t`", KafkaError(code)), TransientError)


def test_a_topic_that_may_not_be_read_stays_so() -> None:
    refused = store_error("ends of `t`", KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))

    assert isinstance(refused, PermanentError)
