"""Sealed values of the ledger, such as secrets: each has its own key.

A key outside the database seals these keys.

Both use AES-256-GCM. A value is sealed with its tenant, name and version, so that no row can
replace another.
"""

import hmac
import secrets
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Final, Self

import attrs
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from narthex._base import Json
from narthex_ledger.ledger import Ledger
from narthex_ledger.model.access_views import SealedView
from narthex_ledger.model.views import TenantId
from narthex_ledger.security.sealed_row_api import SealedRows
from narthex_ledger.signing.key_files import KEY_BYTES, load_key

TENANT: Final = "default"
"""The one tenant of an installation."""

NONCE_BYTES = 12


class NotOpenedError(RuntimeError):
    """A sealed value cannot be opened: it has another key, or was tampered with."""


@attrs.frozen
class Sealer:
    """Seals and opens with one key.

    Attributes:
        key: 32 bytes; with this key and the database, all secrets can be read.
    """

    key: bytes = attrs.field(repr=False)

    @property
    def key_id(self) -> str:
        """Return an id of the key that does not reveal it."""
        return AESGCM(self.key).encrypt(bytes(NONCE_BYTES), b"", b"key id").hex()[:16]

    def seal(self, value: str, *, about: str) -> Json:
        """Seal a value together with the identity of its row."""
        own = AESGCM.generate_key(bit_length=8 * KEY_BYTES)
        return {
            "key_id": self.key_id,
            "own_key": _sealed(self.key, own, about),
            "value": _sealed(own, value.encode(), about),
        }

    def open(self, sealed: Json, *, about: str) -> str:
        """Open a value that was sealed with the same identity.

        Raises:
            NotOpenedError: It was sealed with another identity or another key.
        """
        match sealed:
            case {"key_id": str(key_id), "own_key": str(own), "value": str(value)} if (
                hmac.compare_digest(key_id.encode(), self.key_id.encode())
            ):
                return _opened(_opened(self.key, own, about), value, about).decode()
            case {"key_id": str()}:
                raise NotOpenedError("it was sealed by another key")
            case _:
                raise NotOpenedError("it is not a sealed value")


def load_sealer(path: Path) -> Sealer:
    """Read the key of an installation, or create it."""
    return Sealer(load_key(path))


@attrs.frozen
class SealedValues:
    """Values that are sealed in a table of the ledger, and opened where they are used.

    Attributes:
        rows: The table: secrets, or connections.
        sealer: Holds the key of the installation.
    """

    rows: SealedRows
    tenant: TenantId
    sealer: Sealer

    @classmethod
    def secrets(cls, ledger: Ledger, key: Path) -> Self:
        """Return the secrets of an installation, opened with its key on this machine.

        Raises:
            NotOpenedError: The key is not on this machine.
        """
        if not key.is_file():
            raise NotOpenedError(f"`{key}` does not exist; copy it from the server's machine")
        tenant = ledger.installation.ensure_tenant(TENANT)
        return cls(ledger.secrets, tenant, Sealer(key.read_bytes()))

    def read(self, name: str) -> str:
        """Return a value.

        Raises:
            NotFound: None has that name.
            NotOpenedError: It was sealed by another key, or belongs to another row.
        """
        return self._opened(self.rows.get(self.tenant, name))

    def find(self, name: str) -> str | None:
        """Return a value; None if none has that name.

        Raises:
            NotOpenedError: It was sealed by another key, or belongs to another row.
        """
        found = self.rows.find(self.tenant, name)
        return None if found is None else self._opened(found)

    def add(self, name: str, value: str, *, actor: str) -> int:
        """Store a new value; return its version, 1.

        Raises:
            LedgerRefused: One of that name exists.
        """
        sealed = self.sealer.seal(value, about=self._about(name, 1))
        self.rows.add(self.tenant, name, sealed=sealed, actor=actor)
        return 1

    def change(self, name: str, value: str, *, actor: str) -> int:
        """Store another value; return its version.

        Raises:
            NotFound: None has that name.
            LedgerRefused: It was changed at the same time.
        """
        version = self.rows.get(self.tenant, name).version
        sealed = self.sealer.seal(value, about=self._about(name, version + 1))
        self.rows.change(self.tenant, name, version=version, sealed=sealed, actor=actor)
        return version + 1

    def _opened(self, found: SealedView) -> str:
        return self.sealer.open(found.sealed, about=self._about(found.name, found.version))

    def _about(self, name: str, version: int) -> str:
        """Return the identity of a row; other kinds than secrets are part of it."""
        kind = "" if self.rows.kind == "secret" else f"{self.rows.kind}\n"
        return f"{kind}{self.tenant}\n{name}\n{version}"


def _sealed(key: bytes, value: bytes, about: str) -> str:
    nonce = secrets.token_bytes(NONCE_BYTES)
    return b64encode(nonce + AESGCM(key).encrypt(nonce, value, about.encode())).decode()


def _opened(key: bytes, sealed: str, about: str) -> bytes:
    try:
        whole = b64decode(sealed, validate=True)
        if b64encode(whole).decode() != sealed:
            raise NotOpenedError("its encoding is not the one of sealed values")
        return AESGCM(key).decrypt(whole[:NONCE_BYTES], whole[NONCE_BYTES:], about.encode())
    except (InvalidTag, ValueError):
        raise NotOpenedError("it was sealed by another key, or was changed later") from None
