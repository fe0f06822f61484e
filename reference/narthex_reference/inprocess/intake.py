"""Validate the pushed rows of a call together, and convert them to facts."""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import attrs

from narthex._analysis import source_id
from narthex._base import Json
from narthex._formats import key_encoder, keyed_row_id
from narthex._ir import (
    Cdc,
    Dataset,
    Fact,
    RowId,
    Schema,
    Source,
    Version,
    WebhookEndpoint,
    position,
)
from narthex._runtime.ingest import ParsedRow, RejectedRow, RekeyedRow, RowOutcome, RowParser
from narthex._runtime.workers import CodeCalls

DIRECT_WEBHOOK: Final = "_internal_narthex_webhook"
"""The webhook by which tests put rows directly into a dataset."""

ParsedRows: TypeAlias = Sequence[RowOutcome]


@attrs.frozen(kw_only=True, eq=False)
class EndpointCall:
    """The rows of one call of an endpoint.

    Attributes:
        offset: The number of the call of the endpoint.
        received_us: When it arrived, in microseconds; the `now()` of its rows.
    """

    endpoint: WebhookEndpoint
    offset: int
    received_us: int
    rows: Sequence[Mapping[str, Json]]


def direct_endpoint(dataset: str) -> WebhookEndpoint:
    """Return the endpoint by which tests put rows directly into a dataset."""
    return WebhookEndpoint(webhook=DIRECT_WEBHOOK, endpoint=f"_internal_{dataset}_endpoint")


def direct_source(dataset: Dataset) -> Source:
    """Return the source by which tests put rows directly into a dataset."""
    return Source(
        connector=direct_endpoint(dataset.name),
        disorder_us=0,
        cdc=Cdc.UPSERT if dataset.schema.keys else Cdc.APPEND,
    )


@attrs.frozen(kw_only=True, eq=False)
class Feed:
    """A dataset that an endpoint feeds, with its source."""

    dataset: Dataset
    source: Source
    endpoint: WebhookEndpoint
    row_parser: RowParser

    @classmethod
    def of(cls, dataset: Dataset, source: Source) -> "Feed":
        """Prepare the intake of a source that is an endpoint.

        Raises:
            TypeError: The source is something else.
        """
        if not isinstance(source.connector, WebhookEndpoint):
            raise TypeError("rows are pushed to endpoints only")
        return cls(
            dataset=dataset,
            source=source,
            endpoint=source.connector,
            row_parser=RowParser.of(source, dataset.schema, dataset.enforced),
        )

    def judge(self, call: EndpointCall, calls: CodeCalls) -> ParsedRows:
        """Validate each row of a call.

        Raises:
            UserCodeError: Code of an author that the source runs failed.
        """
        now_us = [call.received_us] * len(call.rows)
        return self.row_parser.parse_rows(call.rows, now_us=now_us, runner=calls)


def problems_of(feed: Feed, parsed: ParsedRows) -> list[str]:
    """Return the errors of rows that do not fit the dataset."""
    return [
        f"row {number}, {feed.dataset.name}: {problem}"
        for number, admission in enumerate(parsed)
        if isinstance(admission, RejectedRow)
        for problem in admission.problems
    ]


def facts_of_rows(feed: Feed, call: EndpointCall, parsed: ParsedRows) -> list[Fact]:
    """Return the facts of a call's valid rows."""
    identity, made = source_id(feed.source), _Facts(feed.dataset.schema)
    facts: list[Fact] = []
    for ordinal, admission in enumerate(parsed):
        place = position(identity, 0, call.offset, ordinal)
        match admission:
            case ParsedRow():
                facts.append(made.fact(admission, place))
            case RekeyedRow(ended=ended, admitted=admitted):
                facts += [made.fact(ended, place), made.fact(admitted, place)]
            case _:
                pass
    return facts


class _Facts:
    """Creates facts from valid rows; data common to all rows of a schema is computed once."""

    def __init__(self, schema: Schema) -> None:
        self.timestamp = schema.timestamp
        self.keys = [column.name for column in schema.keys]
        self.values = [column.name for column in schema.values]
        self.encode = key_encoder(schema.keys) if schema.keys else None

    def fact(self, admitted: ParsedRow, place: bytes) -> Fact:
        cells = admitted.cells
        event_time = cells[self.timestamp]
        if not isinstance(event_time, int):
            raise TypeError("the event time must be an integer of microseconds")
        key = tuple([cells[name] for name in self.keys])
        return Fact(
            row_id=(
                RowId(place) if self.encode is None else keyed_row_id(self.encode(key), event_time)
            ),
            version=Version(place),
            event_time=event_time,
            key=key,
            values=tuple([cells[name] for name in self.values]),
            alive=admitted.alive,
        )
