"""Sources of Pub/Sub: a subscription of the job's own, and no message acknowledged too early.

A message stands at (the instant of its publishing, its id), which it keeps when it is delivered
again. It is acknowledged when its facts stand in the log. The subscription is made with the first
reading, and begins with what the topic retains; Google forgets it when nobody has read it for
31 days, and messages that were not read for 7.
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

from narthex._analysis.policy import GOOGLE
from narthex._base import SECOND_US, to_micros
from narthex._ir import PubSubTopic
from narthex.settings import Settings
from narthex_spark_apps.platform.author_secrets import AuthorSecrets
from narthex_spark_apps.sources.polling_source import PollingSource, no_rows
from narthex_spark_apps.sources.source_job import SourceJob
from narthex_spark_apps.sources.topics.records import TopicReader
from narthex_spark_apps.sources.validated_rows import Arrived, RawRowPosition
from narthex_spark_apps.storage.atomic_write import replace
from narthex_stores import LogProducer

MESSAGES: Final = 1_000
WAIT_S: Final = 5.0
"""How long a message is waited for; without one the subscription is taken to be at its end."""

CALL_S: Final = 30.0
ACKNOWLEDGE_S: Final = 120
"""Within what time Google wants a message acknowledged, before it delivers it again."""

_ID_DIGITS: Final = 20


class SubscriptionError(OSError):
    """A topic cannot be read: Google does not answer, refuses, or has no such topic."""


class PubSubSource(PollingSource):
    """The topic of one source job, by a subscription that is named as the job is."""

    default_every_us = SECOND_US // 10

    def __init__(self, job: SourceJob, *, settings: Settings, memory: Path) -> None:
        """Remember in the file `memory` that there is a subscription.

        Raises:
            SecretMissing: The key of the service account is not there.
            SubscriptionError: It is no such key.
        """
        connector = job.spec.source.connector
        if not isinstance(connector, PubSubTopic):
            raise TypeError("only a source of Pub/Sub has messages")
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
            # What is wrong with a key is not said in words that have the key in them.
            raise SubscriptionError(
                f"`{job.spec.source_id}`: the service account's key is not what Google gave"
            ) from None

    @override
    def read(
        self, producer: LogProducer, *, stopped: Callable[[], bool] = lambda: False
    ) -> dict[str, int]:
        """Read until no message comes for a while.

        Raises:
            SubscriptionError: The topic cannot be read.
            StoreError: Something could not be appended; its messages will be delivered again.
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
        """See that there is a subscription, which begins with what the topic retains."""
        if self._memory.is_file():
            return
        # An earlier life of this job may have made it, and come no further.
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
        replace(self._memory, json.dumps({"subscription": self._subscription}))

    def _pull(self) -> Sequence[ReceivedMessage]:
        try:
            said = self._client.pull(
                subscription=self._subscription, max_messages=MESSAGES, timeout=WAIT_S, retry=None
            )
        except DeadlineExceeded:
            return ()
        return tuple(said.received_messages)

    def _rows(self, messages: Sequence[ReceivedMessage]) -> list[Arrived]:
        return [
            row
            for message in (received.message for received in messages)
            for row in self._reader.rows(
                message.data,
                place=place_of(message.publish_time, message.message_id),
                # The instant that the topic gave it: a second delivery has the same.
                now_us=to_micros(message.publish_time),
            )
        ]


def place_of(published: dt.datetime, message_id: str) -> RawRowPosition:
    """Return the position of a message in its topic."""
    rest = message_id.rjust(_ID_DIGITS, "0").encode()
    return RawRowPosition(offset=to_micros(published), rest=rest)
