"""The ring of an installation: the public halves of its signing keys, in a file for all processes.

During an overlap it has two keys that sign: the current one and the next or the previous one.
Retired keys remain in it, to recognize certificates that left the installation; nothing in the
ledger is accepted by their signatures.
"""

import datetime as dt
import hashlib
import json
from pathlib import Path
from typing import Final, Self

import attrs
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from narthex._base import Json, atomic_write
from narthex_ledger.signing.key_files import KEY_BYTES, KeyFileError

KEY_ID_BYTES: Final = 8


@attrs.frozen
class PublicKey:
    """The public half of a signing key.

    Attributes:
        raw: 32 bytes.
        since: When it was made, as ISO 8601 with a time zone.
    """

    raw: bytes
    since: str = ""
    key: Ed25519PublicKey = attrs.field(
        default=attrs.Factory(
            lambda self: Ed25519PublicKey.from_public_bytes(self.raw), takes_self=True
        ),
        init=False,
        repr=False,
        eq=False,
    )

    @property
    def key_id(self) -> bytes:
        """Return the key's id, a hash of its public half."""
        return hashlib.sha256(self.raw).digest()[:KEY_ID_BYTES]

    @classmethod
    def of(cls, key: Ed25519PublicKey, *, since: str = "") -> Self:
        """Return the public half of a key."""
        return cls(key.public_bytes(Encoding.Raw, PublicFormat.Raw), since)


@attrs.frozen
class KeyRing:
    """The keys that signatures are verified with.

    Attributes:
        keys: Those that are accepted.
        retired: Those that were accepted once.
        sound: The signatures that were verified with this ring.
    """

    keys: tuple[PublicKey, ...]
    retired: tuple[PublicKey, ...] = ()
    sound: set[bytes] = attrs.field(factory=set, init=False, repr=False, eq=False)

    def find(self, key_id: bytes) -> PublicKey | None:
        """Return the accepted key of an id; None if there is none."""
        return next((key for key in self.keys if key.key_id == key_id), None)

    def with_key(self, key: PublicKey) -> Self:
        """Return the ring with one more accepted key."""
        return self if self.find(key.key_id) else attrs.evolve(self, keys=(*self.keys, key))

    def without_key(self, key: PublicKey) -> Self:
        """Return the ring with a key retired."""
        kept = tuple(one for one in self.keys if one.raw != key.raw)
        return attrs.evolve(self, keys=kept, retired=(*self.retired, key))

    def write(self, path: Path) -> None:
        """Replace the file of the ring, which everybody may read."""
        plain = {"keys": _plain(self.keys), "retired": _plain(self.retired)}
        atomic_write(path, json.dumps(plain, indent=2) + "\n", mode=0o644)


def read_ring(path: Path) -> KeyRing:
    """Read a ring; a file of 32 bytes is one public half, as before there were rings.

    Raises:
        KeyFileError: The file is not a ring.
    """
    content = path.read_bytes()
    if len(content) == KEY_BYTES:
        made = dt.datetime.fromtimestamp(path.stat().st_mtime, dt.UTC)
        return KeyRing((PublicKey(content, made.isoformat(timespec="seconds")),))
    try:
        plain: dict[str, list[dict[str, str]]] = json.loads(content)
        keys, retired = (
            tuple(PublicKey(bytes.fromhex(one["public"]), one["since"]) for one in plain[name])
            for name in ("keys", "retired")
        )
    except (ValueError, KeyError, TypeError):
        raise KeyFileError(
            f"`{path}` is not a ring of public keys; copy it from the server's machine"
        ) from None
    return KeyRing(keys, retired)


def _plain(keys: tuple[PublicKey, ...]) -> list[Json]:
    return [{"public": key.raw.hex(), "since": key.since} for key in keys]
