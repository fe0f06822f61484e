"""Signatures of the installation, so that write access to the database alone adds nothing.

A bundle's signature covers its content; those of commits and assets cover their content and their
place, so that none of them can replace another.
"""

import functools
import hashlib
from collections.abc import Callable, Iterable
from decimal import Decimal
from pathlib import Path
from typing import Final, Self

import attrs
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from sqlalchemy.engine import Connection

from narthex._base import Json, atomic_write
from narthex_ledger.errors import NotSigned
from narthex_ledger.model.access_views import TokenView
from narthex_ledger.model.offline_views import TrainingSetView
from narthex_ledger.model.plans import canonical
from narthex_ledger.signing.key_files import load_key

MARK: Final = b"nxs1"
KEY_ID_BYTES: Final = 8
SIGNATURE_BYTES: Final = 64
ATTEST: Final = "narthex.attest"
"""The key in a connection's `info` of the signing function of the ledger that uses it."""
REMEMBERED: Final = 10_000
"""How many verified signatures are cached, because engines check every second."""

_HEAD: Final = len(MARK) + KEY_ID_BYTES + SIGNATURE_BYTES


@attrs.frozen
class Verifier:
    """Verifies the signatures of one key; it cannot sign."""

    public: Ed25519PublicKey = attrs.field(repr=False)
    _sound: set[bytes] = attrs.field(factory=set, init=False, repr=False, eq=False)

    @classmethod
    def find(cls, path: Path) -> Self | None:
        """Read the public half of an installation's key; None where it was not published."""
        if not path.is_file():
            return None
        return cls(Ed25519PublicKey.from_public_bytes(path.read_bytes()))

    @property
    def key_id(self) -> bytes:
        """Return the key's id, a hash of its public half."""
        return hashlib.sha256(self._raw).digest()[:KEY_ID_BYTES]

    def publish(self, path: Path) -> None:
        """Write the public half to a file for the engines."""
        atomic_write(path, self._raw, mode=0o644)

    def open(self, signed: bytes) -> bytes:
        """Return the signed content; empty content needs no signature.

        Raises:
            NotSigned: It has no signature, was signed by another key, or was changed.
        """
        if not signed:
            return signed
        self._require(signed[:_HEAD], signed[_HEAD:], what="a bundle")
        return signed[_HEAD:]

    def check(self, statement: Json, signature: bytes | None, *, what: str) -> None:
        """Check that a statement was signed.

        Raises:
            NotSigned: It has no signature, was signed by another key, or was changed.
        """
        self._require(signature or b"", canonical(_of_database(statement)), what=what)

    @property
    def _raw(self) -> bytes:
        return self.public.public_bytes(Encoding.Raw, PublicFormat.Raw)

    def _require(self, head: bytes, content: bytes, *, what: str) -> None:
        if not head.startswith(MARK):
            raise NotSigned(f"{what} of the ledger is not signed")
        if head[len(MARK) : len(MARK) + KEY_ID_BYTES] != self.key_id:
            raise NotSigned(f"{what} of the ledger is signed by another key")
        seen = hashlib.sha256(head + content).digest()
        if seen in self._sound:
            return
        try:
            self.public.verify(head[_HEAD - SIGNATURE_BYTES :], content)
        except InvalidSignature:
            raise NotSigned(f"{what} of the ledger differs from the signed content") from None
        if len(self._sound) >= REMEMBERED:
            self._sound.clear()
        self._sound.add(seen)


@attrs.frozen
class Signer:
    """Signs with Ed25519, and verifies its own signatures.

    The same content always has the same signed bytes, so that a bundle is stored once.
    """

    key: Ed25519PrivateKey = attrs.field(repr=False)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read the key of an installation, or create it."""
        return cls(Ed25519PrivateKey.from_private_bytes(load_key(path)))

    @functools.cached_property
    def verifier(self) -> Verifier:
        """The verifier with the public half of the key."""
        return Verifier(self.key.public_key())

    def sign(self, content: bytes) -> bytes:
        """Return the signature followed by the content."""
        return self._head(content) + content

    def attest(self, statement: Json) -> bytes:
        """Return the signature of a statement, without the statement."""
        return self._head(canonical(_of_database(statement)))

    def _head(self, content: bytes) -> bytes:
        return MARK + self.verifier.key_id + self.key.sign(content)


def attest(connection: Connection, statement: Json) -> bytes | None:
    """Sign a statement with the key of this transaction's ledger; None without a key."""
    sign: Callable[[Json], bytes | None] | None = connection.info.get(ATTEST)
    return None if sign is None else sign(statement)


def commit_statement(
    tenant_id: int, branch_id: int, commit_id: object, bundle_sha256: bytes
) -> Json:
    """Return the signed statement of a commit: its branch and its bundle."""
    return ["commit", tenant_id, branch_id, str(commit_id), bundle_sha256.hex()]


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
