"""Signed bundles: who can write the database, and has not the key, brings in no definitions."""

import hashlib
from pathlib import Path
from typing import Final, Self

import attrs
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from narthex_ledger.errors import NotSigned
from narthex_ledger.key_files import load_key

MARK: Final = b"nxs1"
KEY_ID_BYTES: Final = 8
SIGNATURE_BYTES: Final = 64
_HEAD: Final = len(MARK) + KEY_ID_BYTES + SIGNATURE_BYTES


@attrs.frozen
class Signer:
    """Signs bundles with Ed25519, and opens those that it has signed.

    The same content gives the same bytes, so that a bundle is stored once.
    """

    key: Ed25519PrivateKey = attrs.field(repr=False)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read the key of an installation, or make it."""
        return cls(Ed25519PrivateKey.from_private_bytes(load_key(path)))

    @property
    def key_id(self) -> bytes:
        """Name the key by a hash of its public half."""
        public = self.key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        return hashlib.sha256(public).digest()[:KEY_ID_BYTES]

    def sign(self, content: bytes) -> bytes:
        """Give the content behind its signature."""
        return MARK + self.key_id + self.key.sign(content) + content

    def open(self, signed: bytes) -> bytes:
        """Give what was signed; nothing at all needs no signature.

        Raises:
            NotSigned: It is not signed, or by another key, or was changed.
        """
        if not signed:
            return signed
        if not signed.startswith(MARK):
            raise NotSigned("a bundle of the ledger is not signed")
        if signed[len(MARK) : len(MARK) + KEY_ID_BYTES] != self.key_id:
            raise NotSigned("a bundle of the ledger is signed by another key")
        signature, content = signed[_HEAD - SIGNATURE_BYTES : _HEAD], signed[_HEAD:]
        try:
            self.key.public_key().verify(signature, content)
        except InvalidSignature:
            raise NotSigned("a bundle of the ledger is not what was signed") from None
        return content
