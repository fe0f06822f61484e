"""A commit's payload as it is stored: the definitions of the whole branch, in our own protobuf."""

from narthex._formats.wire import CommitPayload, decode_commit


def read_bundle(content: bytes) -> CommitPayload:
    """Read a stored bundle."""
    return decode_commit(content)
