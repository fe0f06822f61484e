"""A commit's payload as it is stored: the definitions of the whole branch, in our own protobuf."""

from narthex.wire import CommitPayload, decode_commit, encode_commit


def read_bundle(content: bytes) -> CommitPayload:
    """Read a stored bundle."""
    return decode_commit(content)


def write_bundle(payload: CommitPayload) -> bytes:
    """Render a bundle for storage, content-addressed: equal definitions give equal bytes."""
    return encode_commit(payload)
