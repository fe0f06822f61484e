"""The content of a commit, and its bytes."""

import attrs
from google.protobuf.message import DecodeError

from narthex._formats.wire import commit_pb2
from narthex._formats.wire.values import ValueWriter, pick, read_values
from narthex._ir.entities import Dataset, Definitions, Featureset
from narthex.errors import RecordNotUnderstood


@attrs.frozen(kw_only=True)
class CommitPayload:
    """A commit as its author requests it.

    Attributes:
        env: The selected env, empty for none; the definitions are already selected by it.
        preview: Only plan.
        incremental: Add to the branch's definitions instead of replacing them.
        backfill: Fill new assets with history.
        idempotency_key: Requests with the same key are the same commit.
    """

    message: str
    definitions: Definitions
    env: str = ""
    preview: bool = False
    incremental: bool = False
    backfill: bool = True
    idempotency_key: str = ""
    client_version: str = ""


def encode_commit(request: CommitPayload) -> bytes:
    """Encode a commit; the same request always yields the same bytes.

    Raises:
        RecordNotUnderstood: It contains a value that cannot be encoded.
    """
    writer = ValueWriter()
    datasets = [writer.write(dataset) for dataset in request.definitions.datasets]
    featuresets = [writer.write(featureset) for featureset in request.definitions.featuresets]
    return commit_pb2.CommitRequest(
        message=request.message,
        env=request.env,
        values=writer.messages,
        datasets=datasets,
        featuresets=featuresets,
        options=commit_pb2.Options(
            preview=request.preview,
            incremental=request.incremental,
            backfill=request.backfill,
            idempotency_key=request.idempotency_key,
        ),
        client_version=request.client_version,
    ).SerializeToString(deterministic=True)


def decode_commit(body: bytes) -> CommitPayload:
    """Decode a commit.

    Raises:
        RecordNotUnderstood: The bytes are not a commit, or one of another version.
    """
    parsed = commit_pb2.CommitRequest()
    try:
        parsed.ParseFromString(body)
    except DecodeError as error:
        raise RecordNotUnderstood(f"the body is not a commit: {error}") from None
    if not parsed.HasField("options"):
        # The options follow all definitions, and protobuf messages have no end marker.
        raise RecordNotUnderstood(
            "the commit was cut: its options are missing", hint="send the commit again"
        )
    values = read_values(parsed.values)
    return CommitPayload(
        message=parsed.message,
        definitions=Definitions(
            datasets=tuple(_dataset(pick(values, at)) for at in parsed.datasets),
            featuresets=tuple(_featureset(pick(values, at)) for at in parsed.featuresets),
        ),
        env=parsed.env,
        preview=parsed.options.preview,
        incremental=parsed.options.incremental,
        backfill=parsed.options.backfill,
        idempotency_key=parsed.options.idempotency_key,
        client_version=parsed.client_version,
    )


def _dataset(value: object) -> Dataset:
    if not isinstance(value, Dataset):
        raise RecordNotUnderstood(f"a `{type(value).__name__}` was sent in place of a dataset")
    return value


def _featureset(value: object) -> Featureset:
    if not isinstance(value, Featureset):
        raise RecordNotUnderstood(f"a `{type(value).__name__}` was sent in place of a featureset")
    return value
