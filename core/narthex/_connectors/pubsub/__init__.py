"""Google Pub/Sub topics, one row for each message."""

from typing import Final, Self

import attrs

from narthex._base.records import record
from narthex._connectors.addresses import GOOGLE
from narthex._connectors.kinds import (
    ConnectorKind,
    Input,
    Outlet,
    PolicyFacts,
    RemotePlace,
    SourceKind,
)
from narthex._connectors.named import host_of
from narthex._connectors.parts import Parts, Secret
from narthex._ir.connections import Connector, Credential

__all__ = ["KIND", "PubSub", "PubSubTopic"]


@record
@attrs.frozen(kw_only=True)
class PubSubTopic(Connector):
    """Rows in a Google Pub/Sub topic, as JSON objects."""

    name: str
    project_id: str
    topic: str
    service_account_key: Credential
    format: str = "json"


@attrs.frozen
class PubSub:
    """Topics of a Google Pub/Sub project."""

    name: str
    project_id: str
    service_account_key: Credential = attrs.field(repr=False)

    def topic(self, topic_id: str, format: str = "json") -> PubSubTopic:
        """Declare one topic of JSON objects.

        Raises:
            DefinitionErrors: The key is inline instead of a reference, or a part is missing.
        """
        parts = Parts("PubSub")
        made = PubSubTopic(
            name=parts.name(self.name),
            project_id=parts.text(self.project_id, "`project_id`"),
            topic=parts.text(topic_id, "`topic_id`"),
            service_account_key=parts.needed(self.service_account_key, "service_account_key"),
            format=parts.one_of(format, "format", ("json",)),
        )
        parts.report()
        return made

    @classmethod
    def get(cls, name: str) -> Self:
        """Name a connection of the platform, which `narthex connection set` stores.

        Raises:
            DefinitionErrors: It is not the name of a connection.
        """
        return cls(name, project_id=host_of(name), service_account_key=Secret("k"))


def _outlets(topic: PubSubTopic, endpoint_url: str) -> tuple[Outlet, ...]:
    del endpoint_url
    sent = (topic.service_account_key,)
    return (
        Outlet(what="`service_account_key`", targets=(GOOGLE,), credentials=sent, is_fixed=True),
    )


KIND: Final = ConnectorKind(
    name="pubsub",
    title="Pub/Sub",
    text="Topics of a Google Cloud project, as JSON objects. Each job has a subscription of its "
    "own, which starts with the messages that the topic retains.",
    record=PubSubTopic,
    declared_by=((PubSub, "topic"),),
    connection=("name", "project_id", "service_account_key"),
    example=("topic",),
    policy=PolicyFacts(
        text="Google's own endpoints, with the key of the service account.",
        outlets=_outlets,
        place=lambda topic: RemotePlace(kind="pubsub", name=f"{topic.project_id}/{topic.topic}"),
    ),
    source=SourceKind(
        identity=lambda topic: f"pubsub:{topic.project_id}/{topic.topic}",
        input=Input.POLLED,
        reason="parses and checks each row on arrival",
        reader="narthex_spark_apps.sources.streams.pubsub:PubSubSource",
    ),
    install="narthex[pubsub]",
)
