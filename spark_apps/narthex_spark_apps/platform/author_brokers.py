"""Topics of authors: the addresses of their brokers, and the credentials for them.

Neither librdkafka nor the JVM's client lets us choose the address to connect to, and both follow
the metadata of the cluster. So the operator must name the cluster, its bootstrap servers are
resolved and checked, and the brokers in its metadata are checked before a job starts. Brokers that
a cluster advertises later are not checked: naming a cluster means trusting it.
"""

from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from narthex._analysis.policy import require_grant
from narthex._connectors import Destination, kafka_targets, parse_host
from narthex._ir import KafkaTopic, SecretRef
from narthex.errors import ConnectionDenied
from narthex.settings import Settings
from narthex_spark_apps.platform.author_places import require_place
from narthex_spark_apps.platform.author_secrets import AuthorSecrets
from narthex_spark_apps.platform.outgoing_connections import pinned
from narthex_stores import Broker, TransientError, platform_broker

METADATA_S: Final = 10.0


def broker_of(topic: KafkaTopic, settings: Settings) -> Broker:
    """Return the broker of a topic, with the secrets for authentication.

    Raises:
        ForbiddenPlaceError: Sources and sinks may not use this topic.
        SecretMissing: A secret is missing.
        SecretWithheld: A broker is not allowed to receive a secret.
        ConnectionDenied: The policy does not name the cluster, or denies one of its brokers.
        StoreError: The cluster does not answer.
    """
    require_place(topic)
    if not topic.bootstrap_servers:
        return platform_broker(settings)
    secrets = AuthorSecrets.of(settings)
    targets = kafka_targets(topic)
    broker = Broker(
        bootstrap=",".join(map(str, targets)),
        protocol=topic.security_protocol,
        mechanism=topic.sasl_mechanism,
        username="" if topic.username is None else secrets.reveal(topic.username, targets),
        password="" if topic.password is None else secrets.reveal(topic.password, targets),
        ca_file=settings.ca_file,
    )
    _require_allowed(topic, secrets, targets)
    _require_allowed(topic, secrets, _advertised(broker, topic.topic))
    return broker


def _require_allowed(
    topic: KafkaTopic, secrets: AuthorSecrets, targets: tuple[Destination, ...]
) -> None:
    policy, egress = secrets.policy(), secrets.egress()
    names = [one.name for one in (topic.username, topic.password) if isinstance(one, SecretRef)]
    for target in targets:
        for name in names:
            require_grant(policy, name, (target,))
        addresses = pinned(target, egress)
        is_named = bool(names) or egress.names(target)
        if not is_named and not all(
            egress.names(Destination(address, target.port)) for address in addresses
        ):
            raise ConnectionDenied(
                f"`{target}` is a broker of a cluster that the policy does not list",
                hint="ask the operator to list it in `[egress] allow`",
            )


def _advertised(broker: Broker, topic: str) -> tuple[Destination, ...]:
    """Return the brokers that a cluster advertises to its clients."""
    client = AdminClient(broker.config() | {"log_level": 0})
    try:
        brokers = client.list_topics(topic, timeout=METADATA_S).brokers.values()
    except KafkaException as error:
        raise TransientError(f"`{broker.bootstrap}`: {error.args[0].str()}") from None
    return tuple(Destination(parse_host(one.host), one.port) for one in brokers)
