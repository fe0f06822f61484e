"""Commits on the wire: protobuf, lossless."""

from narthex._formats.wire.payload import CommitPayload, decode_commit, encode_commit

__all__ = ["CommitPayload", "decode_commit", "encode_commit"]
