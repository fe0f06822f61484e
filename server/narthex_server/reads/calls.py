"""The bodies of read requests, decoded and checked in one step."""

from typing import Annotated, Any, Final, TypeVar

import msgspec

from narthex._formats import GREATEST_POSITIONS_LENGTH
from narthex_server.errors import InvalidRequest

Instant = str | int


class QueryCall(msgspec.Struct, frozen=True, gc=False):
    """The wanted features, and the given inputs; columns have equal length.

    Attributes:
        data: The inputs: columns by name, or a list of rows.
        as_of: The instant; by default, now.
        log: Whether the answer is logged, for training and for proofs.
        workflow: The caller's name for this use; it is logged with the answer.
        sampling_rate: The share of answers that is logged.
        explain: Whether the answer is an object of the columns, `answers`, of the log offsets of
            each dataset that were read, `read`, and of the origin of each feature, `features`.
        after: The text that `/log` returned: the query waits until its indexes contain those rows.
    """

    inputs: list[str]
    outputs: list[str]
    data: dict[str, list[Any]] | list[dict[str, Any]]
    as_of: Instant | None = None
    log: bool = False
    workflow: Annotated[str, msgspec.Meta(max_length=200)] | None = None
    sampling_rate: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)] | None = None
    explain: bool = False
    after: Annotated[str, msgspec.Meta(max_length=GREATEST_POSITIONS_LENGTH)] | None = None


class LookupCall(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """Rows of a dataset by key.

    Attributes:
        keys: A key each, by the names of the key columns.
        fields: The wanted columns; by default, all.
        timestamps: The instant of each key; by default, now.
    """

    keys: list[dict[str, Any]]
    fields: list[str] = []
    timestamps: list[Instant] | None = None


_Call = TypeVar("_Call", QueryCall, LookupCall)
_QUERY: Final = msgspec.json.Decoder(QueryCall)
_LOOKUP: Final = msgspec.json.Decoder(LookupCall)


def decode_query(body: bytes) -> QueryCall:
    """Decode the body of a query.

    Raises:
        InvalidRequest: It is not one.
    """
    return _decode(_QUERY, body)


def decode_lookup(body: bytes) -> LookupCall:
    """Decode the body of a lookup.

    Raises:
        InvalidRequest: It is not one.
    """
    return _decode(_LOOKUP, body)


def _decode(decoder: msgspec.json.Decoder[_Call], body: bytes) -> _Call:
    try:
        return decoder.decode(body)
    except UnicodeDecodeError:
        raise InvalidRequest("the JSON is not UTF-8 text") from None
    except RecursionError:
        raise InvalidRequest("the JSON nests too deep") from None
    except msgspec.DecodeError as error:
        raise InvalidRequest(f"body: {error}") from None
