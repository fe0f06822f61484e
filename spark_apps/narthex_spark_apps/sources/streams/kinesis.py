"""Kinesis sources: each shard is read from its position to its end, parents first.

The position of a record is (shard, sequence number), which never changes, so reading a record again
yields the same facts. The read position of a shard is stored after its facts are durable.
"""

import datetime as dt
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import attrs
from botocore.exceptions import BotoCoreError, ClientError
from typing_extensions import override

from narthex._base import SECOND_US, Json, atomic_write, from_micros, to_micros
from narthex._connectors.kinesis import KinesisStream
from narthex.settings import Settings
from narthex_spark_apps.platform.aws_clients import client_of, region_of
from narthex_spark_apps.sources.polling_source import PollingSource
from narthex_spark_apps.sources.row_appender import no_rows
from narthex_spark_apps.sources.row_rendering import Arrived, RawRowPosition
from narthex_spark_apps.sources.source_job import SourceJob
from narthex_spark_apps.sources.topics.records import TopicReader
from narthex_stores import LogProducer

RECORDS: Final = 2_000
Received: TypeAlias = Mapping[str, Any]  # type: ignore[explicit-any]
"""A record as Kinesis returns it."""

_REST_BYTES: Final = 16


class StreamError(OSError):
    """A stream cannot be read: AWS does not answer, refuses, or has no such stream."""


@attrs.frozen(kw_only=True)
class StreamPosition:
    """The read position in a stream.

    Attributes:
        start: Where to start reading new shards: an instant in microseconds, or None for the oldest
            record.
        after: The last sequence number that was read of each shard.
        over: Closed shards that were read to their end.
    """

    start: int | None
    after: Mapping[str, str] = attrs.field(factory=dict)
    over: frozenset[str] = frozenset()

    def read(self, shard: str, sequence: str) -> "StreamPosition":
        """Return the position after a shard was read up to a record."""
        return attrs.evolve(self, after={**self.after, shard: sequence})

    def ended(self, shard: str) -> "StreamPosition":
        """Return the position after a shard was read to its end."""
        return attrs.evolve(self, over=self.over | {shard})

    def within(self, shards: Sequence[str]) -> "StreamPosition":
        """Drop the shards that the stream no longer has."""
        after = {shard: self.after[shard] for shard in shards if shard in self.after}
        return attrs.evolve(self, after=after, over=self.over & frozenset(shards))

    def plain(self) -> Json:
        """Return the JSON form for a checkpoint."""
        over: list[Json] = [*sorted(self.over)]
        return {"start": self.start, "after": dict(self.after), "over": over}


class KinesisSource(PollingSource):
    """The stream of one source job, and its read position."""

    default_every_us = SECOND_US  # a shard answers five times a second

    def __init__(self, job: SourceJob, *, settings: Settings, memory: Path) -> None:
        """Keep the read position in the file `memory`.

        Raises:
            SecretMissing: A secret that is required to read its records is missing.
        """
        connector = job.spec.source.connector
        if not isinstance(connector, KinesisStream):
            raise TypeError("the spec is not a Kinesis source")
        super().__init__(job, memory=memory)
        self._stream = connector
        self._reader: TopicReader = job.format(settings).open()
        self._client = client_of(
            "kinesis", role_arn=connector.role_arn, region=region_of(connector.stream_arn)
        )

    @override
    def read(
        self, producer: LogProducer, *, stopped: Callable[[], bool] = lambda: False
    ) -> dict[str, int]:
        """Read each shard to its current end.

        Raises:
            StreamError: The stream cannot be read.
            RegistryError: The registry of its schema does not answer.
            StoreError: A record could not be appended.
        """
        counts = no_rows()
        try:
            shards = self._shards()
            reach = self._reach().within(shards)
            for shard in shards:
                for records, reached in self._batches(shard, reach):
                    reach = reached
                    self._appender.append(self._rows(shard, records), producer, counts)
                    atomic_write(self._memory, json.dumps(reach.plain()))
                    if stopped():
                        return counts
        except (BotoCoreError, ClientError) as error:
            raise StreamError(f"`{self._job.spec.source_id}`: {error}") from None
        return counts

    @override
    def close(self) -> None:
        super().close()
        self._client.close()

    def _shards(self) -> list[str]:
        """Return the names of the shards, parents before their children."""
        found: list[str] = []
        arguments: dict[str, str] = {"StreamARN": self._stream.stream_arn}
        while arguments:
            response = self._client.list_shards(**arguments)
            found += [str(shard["ShardId"]) for shard in response["Shards"]]
            arguments = {"NextToken": response["NextToken"]} if response.get("NextToken") else {}
        return sorted(found, key=number_of)

    def _batches(
        self, shard: str, reach: StreamPosition
    ) -> Iterator[tuple[Sequence[Received], StreamPosition]]:
        """Yield batches of a shard's records up to its end, with the position after each."""
        if shard in reach.over:
            return
        iterator = self._iterator(shard, reach)
        while iterator is not None:
            response = self._client.get_records(
                StreamARN=self._stream.stream_arn, ShardIterator=iterator, Limit=RECORDS
            )
            records, iterator = response["Records"], response.get("NextShardIterator")
            if records:
                reach = reach.read(shard, records[-1]["SequenceNumber"])
            if iterator is None:
                reach = reach.ended(shard)
            if records or iterator is None:
                yield records, reach
            if response.get("MillisBehindLatest") == 0:
                return

    def _iterator(self, shard: str, reach: StreamPosition) -> str | None:
        where: dict[str, object] = {"ShardIteratorType": "TRIM_HORIZON"}
        if shard in reach.after:
            where = {
                "ShardIteratorType": "AFTER_SEQUENCE_NUMBER",
                "StartingSequenceNumber": reach.after[shard],
            }
        elif reach.start is not None:
            where = {"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": from_micros(reach.start)}
        response = self._client.get_shard_iterator(
            StreamARN=self._stream.stream_arn, ShardId=shard, **where
        )
        return str(response["ShardIterator"])

    def _rows(
        self,
        shard: str,
        records: Sequence[Received],
    ) -> list[Arrived]:
        return [
            row
            for record in records
            for row in self._reader.rows(
                record["Data"],
                place=place_of(shard, record["SequenceNumber"]),
                # The stream's arrival timestamp: a second read gets the same one.
                now_us=to_micros(record["ApproximateArrivalTimestamp"]),
            )
        ]

    def _reach(self) -> StreamPosition:
        """Return the read position; the meaning of `latest` is fixed before the first read."""
        if not self._memory.is_file():
            atomic_write(
                self._memory, json.dumps(StreamPosition(start=_begin(self._stream.start)).plain())
            )
        stored = json.loads(self._memory.read_text())
        return StreamPosition(
            start=stored["start"], after=stored["after"], over=frozenset(stored["over"])
        )


def _begin(start: str | int) -> int | None:
    match start:
        case "latest":
            return to_micros(dt.datetime.now(dt.UTC))
        case int():
            return start
        case _:
            return None


def number_of(shard: str) -> int:
    """Return the number of a shard, which is greater than those of its parents."""
    return int(shard.rsplit("-", 1)[-1])


def place_of(shard: str, sequence: str) -> RawRowPosition:
    """Return the position of a record in its stream."""
    number = int(sequence)
    return RawRowPosition(
        partition=number_of(shard),
        offset=number >> (8 * _REST_BYTES),
        rest=(number % (1 << 8 * _REST_BYTES)).to_bytes(_REST_BYTES, "big"),
    )
