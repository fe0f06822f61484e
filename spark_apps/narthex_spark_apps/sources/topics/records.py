"""Records of a topic, validated and rendered by `row_parser`: the bounded run of a source.

Runs in Spark's Python workers; the live run, `source_stage`, reads the same rows from records.
"""

import base64
import contextlib
import json
from collections.abc import Iterable, Iterator, Sequence

import attrs
import msgspec
import pyarrow as pa

from narthex._base import GREATEST_DEPTH, Json, is_deeper
from narthex._ir import RegistryFormat
from narthex_spark_apps.platform.author_secrets import AuthorSecrets
from narthex_spark_apps.platform.record_batches import record_batch
from narthex_spark_apps.sources.row_rendering import (
    Arrived,
    PayloadKind,
    RawRowPosition,
    RowRenderer,
    json_object,
)
from narthex_spark_apps.sources.topics.schema_registry import SchemaRegistry
from narthex_spark_apps.sources.topics.typed_records import RecordDecoder, UnreadableRecordError


class _IngestCall(msgspec.Struct):
    """The call of a client, as the server writes it to an ingest topic."""

    rows: list[msgspec.Raw]


_CALL = msgspec.json.Decoder(_IngestCall)
INPUT = ("partition", "offset", "now", "value")


@attrs.frozen(kw_only=True)
class TopicRun:
    """The parameters of a topic source that a worker needs.

    Attributes:
        spec: The source job's spec, as plain JSON text.
    """

    spec: str
    output: str
    quarantine: str
    format: "TopicFormat"

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the records of the rows in batches with the columns `INPUT`."""
        renderer = RowRenderer.of(
            self.spec, source_id="", output=self.output, quarantine=self.quarantine
        )
        reader = self.format.open()
        try:
            for batch in batches:
                columns = (batch.column(name).to_pylist() for name in INPUT)
                arrived = [
                    one
                    for partition, offset, now_us, value in zip(*columns, strict=True)
                    for one in reader.rows(
                        value,
                        place=RawRowPosition(partition=partition, offset=offset),
                        now_us=now_us,
                    )
                ]
                rendered = [record for made in renderer.render(arrived) for record in made]
                if rendered:
                    yield record_batch(rendered)
        finally:
            renderer.close()


@attrs.frozen(kw_only=True)
class TopicFormat:
    """The format of a topic's records; may be sent to workers: it contains no secret.

    Attributes:
        calls: Whether a record is a call with many rows, as the server writes them.
        envelopes: Whether rows are Debezium envelopes: the record without a value after a delete
            envelope adds no information.
        secrets: Finds the secrets for the registry.
        registry: The format whose schema is in a registry; None is JSON.
        ca_file: The certificates that verify the registry; empty: those that the machine trusts.
    """

    calls: bool
    envelopes: bool
    secrets: AuthorSecrets
    registry: RegistryFormat | None = None
    ca_file: str = ""

    def open(self) -> "TopicReader":
        """Return a reader of the format.

        Raises:
            SecretMissing: A secret for the registry is missing.
        """
        if self.registry is None:
            return TopicReader(format=self, decoder=None)
        registry = SchemaRegistry.of(self.registry, self.secrets, ca_file=self.ca_file)
        return TopicReader(format=self, decoder=RecordDecoder(registry))


@attrs.frozen(kw_only=True)
class TopicReader:
    """Reads the raw rows in records of a topic."""

    format: TopicFormat
    decoder: RecordDecoder | None

    def rows(self, value: bytes | None, *, place: RawRowPosition, now_us: int) -> list[Arrived]:
        """Return the rows of one record at a position; each has its own ordinal.

        An unreadable record yields one row with its text.

        Raises:
            RegistryError: The registry of its schema does not answer.
        """
        if value is None and self.format.envelopes:
            return []
        arrived = [
            Arrived(
                place=attrs.evolve(place, ordinal=ordinal) if ordinal else place,
                row=row,
                now_us=now_us,
            )
            for ordinal, row in enumerate(self._rows_in(value or b""))
        ]
        if self.decoder is None:
            return arrived
        return [self._decoded(self.decoder, value or b"", one) for one in arrived]

    def _rows_in(self, value: bytes) -> Sequence[dict[str, Json] | bytes | str]:
        if self.decoder is not None:
            return (base64.b64encode(value).decode(),)
        return _rows_of(value) if self.format.calls else (value,)

    @staticmethod
    def _decoded(decoder: RecordDecoder, value: bytes, arrived: Arrived) -> Arrived:
        try:
            return attrs.evolve(arrived, row=decoder.row(value))
        except UnreadableRecordError as error:
            return attrs.evolve(arrived, unreadable=str(error), kind=PayloadKind.BASE64)


def _rows_of(value: bytes) -> Sequence[dict[str, Json] | bytes | str]:
    """Return the rows of a call; those of an ordinary one are not parsed yet."""
    if not is_deeper(value, GREATEST_DEPTH):
        with contextlib.suppress(msgspec.MsgspecError):
            return [bytes(row) for row in _CALL.decode(value).rows]
    decoded = json_object(value)
    rows = decoded.get("rows") if isinstance(decoded, dict) else None
    if not isinstance(rows, list):
        # A value that the server never writes yields one row that is refused, not none.
        return [value.decode(errors="replace")]
    return [row if isinstance(row, dict) else json.dumps(row) for row in rows]
