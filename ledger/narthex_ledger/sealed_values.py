"""Sealed values of the ledger, such as secrets: each has its own key.

A key outside the database seals these keys.

Both use AES-256-GCM. A value is sealed with its tenant, name and version, so that no row can
replace another.
"""

import datetime as dt
import hmac
import json
import secrets
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Final, Self

import attrs
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from narthex._base import Json, atomic_write
from narthex_ledger.ledger import Ledger
from narthex_ledger.model.access_views import SealedView
from narthex_ledger.model.views import TenantId
from narthex_ledger.security.sealed_row_api import SealedRows
from narthex_ledger.signing.key_files import KEY_BYTES, KeyFileError, WatchedFile, load_key

TENANT: Final = "default"
"""The one tenant of an installation."""

NONCE_BYTES = 12

_ERASED_KEYS: Final = b"narthex erased keys"


class NotOpenedError(RuntimeError):
    """A sealed value cannot be opened: it has another key, or was tampered with."""


@attrs.frozen
class SealingKey:
    """A key that seals.

    Attributes:
        key: 32 bytes; with this key and the database, all values that it sealed can be read.
        since: When it was made, as ISO 8601 with a time zone.
    """

    key: bytes = attrs.field(repr=False)
    since: str = ""

    @property
    def key_id(self) -> str:
        """Return an id of the key that does not reveal it."""
        return AESGCM(self.key).encrypt(bytes(NONCE_BYTES), b"", b"key id").hex()[:16]


@attrs.frozen(kw_only=True)
class SealingKeys:
    """The keys of an installation.

    Attributes:
        keys: All of them open; the first one seals.
        upcoming: Opens too, and will seal; None unless it is being introduced.
        erased_keys: The key of the digests of erased keys, which never changes: the values that
            were digested are deleted, so no other digests can be made of them.
    """

    keys: tuple[SealingKey, ...]
    upcoming: SealingKey | None = None
    erased_keys: bytes = attrs.field(repr=False)

    @classmethod
    def of(cls, key: bytes, *, since: str = "") -> Self:
        """Return the keys of an installation that has had only one."""
        return cls(
            keys=(SealingKey(key, since),), erased_keys=hmac.digest(key, _ERASED_KEYS, "sha256")
        )

    def find(self, key_id: str) -> SealingKey | None:
        """Return the key of an id, in constant time; None if there is none."""
        known = (*self.keys, self.upcoming) if self.upcoming else self.keys
        found = [key for key in known if hmac.compare_digest(key.key_id.encode(), key_id.encode())]
        return found[0] if found else None

    def write(self, path: Path) -> None:
        """Replace the file of the keys, which only its owner may read."""
        plain = {
            "keys": [_plain(key) for key in self.keys],
            "upcoming": _plain(self.upcoming) if self.upcoming else None,
            "erased_keys": self.erased_keys.hex(),
        }
        atomic_write(path, json.dumps(plain, indent=2) + "\n")


def read_sealing_keys(path: Path) -> SealingKeys:
    """Read the keys of an installation; a file of 32 bytes is its first and only key.

    Raises:
        KeyFileError: The file has no keys.
    """
    content = path.read_bytes()
    if len(content) == KEY_BYTES:
        made = dt.datetime.fromtimestamp(path.stat().st_mtime, dt.UTC)
        return SealingKeys.of(content, since=made.isoformat(timespec="seconds"))
    try:
        plain = json.loads(content)
        keys = tuple(_key_of(one) for one in plain["keys"])
        upcoming = plain["upcoming"] and _key_of(plain["upcoming"])
        return SealingKeys(
            keys=keys, upcoming=upcoming, erased_keys=bytes.fromhex(plain["erased_keys"])
        )
    except (ValueError, KeyError, TypeError):
        raise KeyFileError(
            f"`{path}` has no keys; copy it from the server's machine, or from a backup"
        ) from None


def _plain(key: SealingKey) -> Json:
    return {"key": key.key.hex(), "since": key.since}


def _key_of(plain: dict[str, str]) -> SealingKey:
    return SealingKey(bytes.fromhex(plain["key"]), plain["since"])


@attrs.frozen
class Sealer:
    """Seals with the current key of an installation, and opens with all of its keys.

    Keys in a file are read again when the file is replaced.
    """

    _keys: SealingKeys | WatchedFile[SealingKeys] = attrs.field(repr=False)

    @classmethod
    def of(cls, key: bytes) -> Self:
        """Return the sealer of one key of 32 bytes."""
        return cls(SealingKeys.of(key))

    @property
    def keys(self) -> SealingKeys:
        """The keys as they are now."""
        return self._keys if isinstance(self._keys, SealingKeys) else self._keys.content()

    def seal(self, value: str, *, about: str) -> Json:
        """Seal a value together with the identity of its row."""
        own, by = AESGCM.generate_key(bit_length=8 * KEY_BYTES), self.keys.keys[0]
        return {
            "key_id": by.key_id,
            "own_key": _sealed(by.key, own, about),
            "value": _sealed(own, value.encode(), about),
        }

    def open(self, sealed: Json, *, about: str) -> str:
        """Open a value that was sealed with the same identity.

        Raises:
            NotOpenedError: It was sealed with another identity or another key.
        """
        match sealed:
            case {"key_id": str(key_id), "own_key": str(own), "value": str(value)} if (
                by := self.keys.find(key_id)
            ):
                return _opened(_opened(by.key, own, about), value, about).decode()
            case {"key_id": str()}:
                raise NotOpenedError("it was sealed by another key")
            case _:
                raise NotOpenedError("it is not a sealed value")


def load_sealer(path: Path) -> Sealer:
    """Read the keys of an installation, or create the first one."""
    load_key(path)
    keys = WatchedFile(path, read_sealing_keys)
    keys.content()
    return Sealer(keys)


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
        return cls(ledger.secrets, tenant, load_sealer(key))

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

    def seal_again(self, name: str) -> bool:
        """Seal a value with the current key; false if it was sealed with it, or is gone.

        Raises:
            NotOpenedError: It was sealed by another key, or belongs to another row.
        """
        found = self.rows.find(self.tenant, name)
        if found is None or key_id_of(found.sealed) == self.sealer.keys.keys[0].key_id:
            return False
        about = self._about(found.name, found.version)
        sealed = self.sealer.seal(self._opened(found), about=about)
        return self.rows.seal_again(self.tenant, name, old=found.sealed, sealed=sealed)

    def key_ids(self) -> tuple[str, ...]:
        """Return the id of the key of each value."""
        found = (self.rows.find(self.tenant, name) for name in self.rows.names(self.tenant))
        return tuple(key_id_of(one.sealed) for one in found if one is not None)

    def _opened(self, found: SealedView) -> str:
        return self.sealer.open(found.sealed, about=self._about(found.name, found.version))

    def _about(self, name: str, version: int) -> str:
        """Return the identity of a row; other kinds than secrets are part of it."""
        kind = "" if self.rows.kind == "secret" else f"{self.rows.kind}\n"
        return f"{kind}{self.tenant}\n{name}\n{version}"


def key_id_of(sealed: Json) -> str:
    """Return the id of the key that a sealed value names."""
    return str(sealed.get("key_id")) if isinstance(sealed, dict) else ""


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
