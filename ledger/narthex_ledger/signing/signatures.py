"""Signatures of the installation, so that write access to the database alone adds nothing.

A bundle's signature covers its content; those of commits and assets cover their content and their
place, so that none of them can replace another.
"""

import datetime as dt
import hashlib
from collections.abc import Callable, Iterable
from decimal import Decimal
from pathlib import Path
from typing import Final, Self

import attrs
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy.engine import Connection

from narthex._base import Json
from narthex_ledger.errors import NotSigned
from narthex_ledger.model.access_views import TokenView
from narthex_ledger.model.offline_views import TrainingSetView
from narthex_ledger.model.plans import canonical
from narthex_ledger.signing.key_files import KeyFileError, WatchedFile, load_key
from narthex_ledger.signing.key_rings import KEY_ID_BYTES, KeyRing, PublicKey, read_ring

MARK: Final = b"nxs1"
SIGNATURE_BYTES: Final = 64
ATTEST: Final = "narthex.attest"
"""The key in a connection's `info` of the signing function of the ledger that uses it."""
REMEMBERED: Final = 10_000
"""How many verified signatures are cached, because engines check every second."""

_HEAD: Final = len(MARK) + KEY_ID_BYTES + SIGNATURE_BYTES


@attrs.frozen
class Verifier:
    """Verifies the signatures of the keys of a ring; it cannot sign.

    A ring in a file is read again when the file is replaced, so that a running process accepts a
    new key, and refuses a retired one, from the next signature on.
    """

    _ring: KeyRing | WatchedFile[KeyRing] = attrs.field(repr=False)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read the ring of an installation, without which a process would verify nothing.

        Raises:
            KeyFileError: The file is missing, or is not a ring.
        """
        if not path.is_file():
            raise KeyFileError(
                f"`{path}` is missing; the server makes it when it first starts: start it before, "
                "or copy the file from its machine"
            )
        ring = WatchedFile(path, read_ring)
        ring.content()
        return cls(ring)

    @property
    def ring(self) -> KeyRing:
        """The ring as it is now."""
        return self._ring if isinstance(self._ring, KeyRing) else self._ring.content()

    def open(self, signed: bytes) -> bytes:
        """Return the signed content; empty content needs no signature.

        Raises:
            NotSigned: It has no signature, was signed by another key, or was changed.
        """
        if not signed:
            return signed
        _require(self.ring, signed[:_HEAD], signed[_HEAD:], what="a bundle")
        return signed[_HEAD:]

    def check(self, statement: Json, signature: bytes | None, *, what: str) -> None:
        """Check that a statement was signed.

        Raises:
            NotSigned: It has no signature, was signed by another key, or was changed.
        """
        _require(self.ring, signature or b"", canonical(_of_database(statement)), what=what)

    def check_retired(self, statement: Json, signature: bytes, *, what: str) -> None:
        """Check that a statement was signed by a key that is retired.

        Only a statement that a current key has signed too may be believed then.

        Raises:
            NotSigned: It has no signature, was signed by another key, or was changed.
        """
        ring = KeyRing(self.ring.retired)
        _require(ring, signature, canonical(_of_database(statement)), what=what)


def _require(ring: KeyRing, head: bytes, content: bytes, *, what: str) -> None:
    if not head.startswith(MARK):
        raise NotSigned(f"{what} of the ledger is not signed")
    signed_by = ring.find(key_id_of(head))
    if signed_by is None:
        raise NotSigned(f"{what} of the ledger is signed by another key")
    seen = hashlib.sha256(head + content).digest()
    if seen in ring.sound:
        return
    try:
        signed_by.key.verify(head[_HEAD - SIGNATURE_BYTES :], content)
    except InvalidSignature:
        raise NotSigned(f"{what} of the ledger differs from the signed content") from None
    if len(ring.sound) >= REMEMBERED:
        ring.sound.clear()
    ring.sound.add(seen)


def key_id_of(signature: bytes) -> bytes:
    """Return the id of the key that a signature names, or a signed bundle at its beginning."""
    return signature[len(MARK) : len(MARK) + KEY_ID_BYTES]


def content_of(signed: bytes) -> bytes:
    """Return the content of a signed bundle, without checking its signature."""
    return signed[_HEAD:]


@attrs.frozen
class Signer:
    """Signs with Ed25519, and verifies its own signatures.

    The same content always has the same signed bytes, so that a bundle is stored once. A key in a
    file is read again when the file is replaced.
    """

    _key: Ed25519PrivateKey | WatchedFile[Ed25519PrivateKey] = attrs.field(repr=False)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read the key of an installation, or create it."""
        load_key(path)
        key = WatchedFile(path, read_signing_key)
        key.content()
        return cls(key)

    @property
    def key(self) -> Ed25519PrivateKey:
        """The key as it is now."""
        return self._key if isinstance(self._key, Ed25519PrivateKey) else self._key.content()

    @property
    def public(self) -> PublicKey:
        """The public half of the key."""
        return PublicKey.of(self.key.public_key())

    @property
    def verifier(self) -> Verifier:
        """A verifier with the public half of the key only."""
        return Verifier(KeyRing((self.public,)))

    def sign(self, content: bytes) -> bytes:
        """Return the signature followed by the content."""
        return self._head(content) + content

    def attest(self, statement: Json) -> bytes:
        """Return the signature of a statement, without the statement."""
        return self._head(canonical(_of_database(statement)))

    def _head(self, content: bytes) -> bytes:
        key = self.key
        return MARK + PublicKey.of(key.public_key()).key_id + key.sign(content)


def read_signing_key(path: Path) -> Ed25519PrivateKey:
    """Read a private key.

    Raises:
        KeyFileError: The file is not a key.
    """
    try:
        return Ed25519PrivateKey.from_private_bytes(path.read_bytes())
    except ValueError:
        raise KeyFileError(
            f"`{path}` is not a key; copy it from the server's machine, or from a backup"
        ) from None


def load_signing(key: Path, ring: Path) -> tuple[Signer, Verifier]:
    """Read the signing key and the ring of an installation, or create them.

    Raises:
        KeyFileError: The ring does not have the key.
    """
    signer = Signer.load(key)
    if not ring.is_file():
        since = dt.datetime.fromtimestamp(key.stat().st_mtime, dt.UTC)
        own = attrs.evolve(signer.public, since=since.isoformat(timespec="seconds"))
        KeyRing((own,)).write(ring)
    verifier = Verifier(WatchedFile(ring, read_ring))
    if verifier.ring.find(signer.public.key_id) is None:
        raise KeyFileError(
            f"`{ring}` does not have the public half of `{key}`; copy both from the machine whose "
            f"server uses them, or delete `{ring}` if the key is the only one of the installation"
        )
    return signer, verifier


def attest(connection: Connection, statement: Json) -> bytes | None:
    """Sign a statement with the key of this transaction's ledger; None without a key."""
    sign: Callable[[Json], bytes | None] | None = connection.info.get(ATTEST)
    return None if sign is None else sign(statement)


def commit_statement(
    tenant_id: int, branch_id: int, commit_id: object, bundle_sha256: bytes
) -> Json:
    """Return the signed statement of a commit: its branch and its bundle."""
    return ["commit", tenant_id, branch_id, str(commit_id), bundle_sha256.hex()]


def bundle_statement(sha256: bytes) -> Json:
    """Return the signed statement of a bundle that another key had signed before: its hash."""
    return ["bundle", sha256.hex()]


def asset_statement(
    tenant_id: int, kind: str, fingerprint: bytes, *, physical_name: str, spec: Json
) -> Json:
    """Return the signed statement of an asset; its name has the installation and incarnation."""
    return ["asset", tenant_id, kind, fingerprint.hex(), physical_name, spec]


def needs_statement(
    tenant_id: int, physical_name: str, needs: Iterable[tuple[str, str, bytes]]
) -> Json:
    """Return the signed statement of an asset's needs: role, kind and fingerprint of each."""
    entries: list[Json] = [[role, kind, value.hex()] for role, kind, value in sorted(needs)]
    return ["needs", tenant_id, physical_name, entries]


def manifest_statement(
    tenant_id: int,
    manifest_id: object,
    bundle_sha256: bytes,
    *,
    content: Json,
    bound: Iterable[tuple[str, str]],
) -> Json:
    """Return the signed statement of a manifest: its content and the physical name of each path."""
    paths: list[Json] = [[path, name] for path, name in sorted(bound)]
    return ["manifest", tenant_id, str(manifest_id), bundle_sha256.hex(), content, paths]


def head_statement(
    tenant_id: int, branch_id: int, name: str, *, commit_id: object, manifest_id: object
) -> Json:
    """Return the signed statement of a commit that becomes a branch's head, with the name."""
    return ["head", tenant_id, branch_id, name, str(commit_id), str(manifest_id)]


def token_statement(token_sha256: bytes, token: TokenView) -> Json:
    """Return the signed statement of a token: its hash, its owner, its rights and its expiry."""
    return [
        "token",
        token_sha256.hex(),
        token.token_id,
        token.name,
        list(token.scopes),
        list(token.branches),
        list(token.tags),
        token.created_by,
        None if token.expires_at is None else token.expires_at.isoformat(),
    ]


def offline_statement(request_id: object, manifest_id: object, actor: str, request: Json) -> Json:
    """Return the signed statement of an offline query: its manifest, its actor and its request."""
    return ["offline", str(request_id), str(manifest_id), actor, request]


def training_set_statement(view: TrainingSetView) -> Json:
    """Return the signed statement of a training set: all of it but its time."""
    return [
        "training set",
        str(view.training_set_id),
        view.branch,
        view.name,
        str(view.request_id),
        str(view.commit_id),
        view.content_sha256.hex(),
        view.data_sha256.hex(),
        view.rows,
        view.description,
    ]


def erasure_statement(certificate: Json) -> Json:
    """Return the signed statement of an erasure: its certificate."""
    return ["erasure", certificate]


def entry_statement(number: int, sha256: bytes) -> Json:
    """Return the signed statement of a control log entry: its number and its chained hash."""
    return ["control log", number, sha256.hex()]


def _of_database(plain: Json) -> Json:
    """Return JSON as the database returns it: a whole float may be read back as an integer."""
    match plain:
        case float() if plain.is_integer():
            # By its decimal digits: `int(1e23)` has other digits.
            return int(Decimal(repr(plain)))
        case list():
            return [_of_database(one) for one in plain]
        case dict():
            return {name: _of_database(one) for name, one in plain.items()}
        case _:
            return plain
