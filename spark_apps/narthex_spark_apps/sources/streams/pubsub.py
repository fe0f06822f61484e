"""Pub/Sub sources: one subscription for each job, whose messages are acknowledged once durable.

The position of a message is (publish time, message id), which a repeated delivery does not change.
A message is acknowledged once its facts are durable in the log. The first read creates the
subscription, which starts with the messages that the topic retains. Google deletes a subscription
that was not read for 31 days, and messages that were not read for 7.
"""

import contextlib
import datetime as dt
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from google.api_core.exceptions import AlreadyExists, DeadlineExceeded, GoogleAPIError
from google.auth.exceptions import GoogleAuthError
from google.cloud.pubsub_v1 import SubscriberClient
from google.cloud.pubsub_v1.types import ReceivedMessage
from typing_extensions import override

from narthex._base import SECOND_US, atomic_write, to_micros
from narthex._connectors import GOOGLE
from narthex._connectors.pubsub import PubSubTopic
from narthex.settings import Settings
from narthex_spark_apps.platform.author_secrets import AuthorSecrets
from narthex_spark_apps.sources.polling_source import PollingSource
from narthex_spark_apps.sources.row_appender import no_rows
from narthex_spark_apps.sources.row_rendering import Arrived, RawRowPosition
from narthex_spark_apps.sources.source_job import SourceJob
from narthex_spark_apps.sources.topics.records import TopicReader
from narthex_stores import LogProducer

MESSAGES: Final = 1_000
WAIT_S: Final = 5.0
"""How long to wait for a message; after that the subscription counts as read to its end."""

CALL_S: Final = 30.0
ACKNOWLEDGE_S: Final = 120
"""Google's deadline for acknowledging a message, after which it is delivered again."""

_ID_DIGITS: Final = 20


class SubscriptionError(OSError):
    """A topic cannot be read: Google does not answer, refuses, or has no such topic."""


class PubSubSource(PollingSource):
    """The topic of one source job, with a subscription that has the job's name."""

    default_every_us = SECOND_US // 10

    def __init__(self, job: SourceJob, *, settings: Settings, memory: Path) -> None:
        """Record in the file `memory` that there is a subscription.

        Raises:
            SecretMissing: The key of the service account is missing.
            SubscriptionError: The secret is not a service account key.
        """
        connector = job.spec.source.connector
        if not isinstance(connector, PubSubTopic):
            raise TypeError("the spec is not a Pub/Sub source")
        super().__init__(job, memory=memory)
        self._topic = f"projects/{connector.project_id}/topics/{connector.topic}"
        self._subscription = (
            f"projects/{connector.project_id}/subscriptions/{job.asset.physical_name}"
        )
        self._reader: TopicReader = job.format(settings).open()
        key = AuthorSecrets.of(settings).reveal(connector.service_account_key, (GOOGLE,))
        try:
            self._client = SubscriberClient.from_service_account_info(json.loads(key))
        except ValueError:
            # The error of an invalid key is replaced, because it could contain the key.
            raise SubscriptionError(
                f"`{job.spec.source_id}`: the service account key is not valid"
            ) from None

    @override
    def read(
        self, producer: LogProducer, *, stopped: Callable[[], bool] = lambda: False
    ) -> dict[str, int]:
        """Read until no message arrives for a while.

        Raises:
            SubscriptionError: The topic cannot be read.
            StoreError: A record could not be appended; its messages will be delivered again.
        """
        counts = no_rows()
        try:
            self._subscribe()
            while not stopped():
                messages = self._pull()
                if not messages:
                    break
                self._appender.append(self._rows(messages), producer, counts)
                self._client.acknowledge(
                    subscription=self._subscription,
                    ack_ids=[message.ack_id for message in messages],
                    timeout=CALL_S,
                )
        except (GoogleAPIError, GoogleAuthError) as error:
            raise SubscriptionError(f"`{self._job.spec.source_id}`: {error}") from None
        return counts

    @override
    def close(self) -> None:
        super().close()
        self._client.close()

    def _subscribe(self) -> None:
        """Create a missing subscription, which starts with the topic's retained messages."""
        if self._memory.is_file():
            return
        # An earlier run of this job may have created it and then crashed.
        with contextlib.suppress(AlreadyExists):
            self._client.create_subscription(
                request={
                    "name": self._subscription,
                    "topic": self._topic,
                    "ack_deadline_seconds": ACKNOWLEDGE_S,
                },
                timeout=CALL_S,
            )
        begin = dt.datetime.fromtimestamp(0, dt.UTC)
        self._client.seek(
            request={"subscription": self._subscription, "time": begin}, timeout=CALL_S
        )
        atomic_write(self._memory, json.dumps({"subscription": self._subscription}))

    def _pull(self) -> Sequence[ReceivedMessage]:
        try:
            response = self._client.pull(
                subscription=self._subscription, max_messages=MESSAGES, timeout=WAIT_S, retry=None
            )
        except DeadlineExceeded:
            return ()
        return tuple(response.received_messages)

    def _rows(self, messages: Sequence[ReceivedMessage]) -> list[Arrived]:
        return [
            row
            for message in (received.message for received in messages)
            for row in self._reader.rows(
                message.data,
                place=place_of(message.publish_time, message.message_id),
                # The topic's publish timestamp: a second delivery has the same one.
                now_us=to_micros(message.publish_time),
            )
        ]


def place_of(published: dt.datetime, message_id: str) -> RawRowPosition:
    """Return the position of a message in its topic."""
    rest = message_id.rjust(_ID_DIGITS, "0").encode()
    return RawRowPosition(offset=to_micros(published), rest=rest)
