"""The stored form of a commit's payload: the definitions of the branch, in our own protobuf."""

from narthex._formats.wire import CommitPayload, decode_commit


def read_bundle(content: bytes) -> CommitPayload:
    """Parse a stored bundle."""
    return decode_commit(content)
