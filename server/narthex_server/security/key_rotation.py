"""Rotate the keys of an installation, on the machine that has their files.

Each step is durable before the next one begins and may be taken again, so a rotation that was
interrupted anywhere is completed by the next run. Running processes read replaced files again.

A new signing key is made, its public half is added to the ring, it takes the place of the old one,
and everything in the ledger is signed again. A key for secrets is introduced in the same order.
Old keys are retired on their own, when nothing depends on them any more.
"""

import contextlib
import datetime as dt
import fcntl
import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import attrs

from narthex._base import atomic_create, make_private, sync_path
from narthex.settings import Settings
from narthex_ledger import (
    KEY_BYTES,
    SIGNED_KINDS,
    TENANT,
    KeyFileError,
    Ledger,
    PublicKey,
    RenewedSignatures,
    SealedValues,
    Sealer,
    SealingKey,
    Signer,
    TenantId,
    Verifier,
    load_sealer,
    load_signing,
    read_sealing_keys,
)
from narthex_server.erasures.erased_stores import about

RETIRE_AFTER_S: Final = 60.0
"""For how long a replaced key is kept at least: what a process has just signed or sealed with it
is stored by then, because a transaction of the ledger may take at most 30 s."""

_ERASURES: Final = 1_000_000
"""How many erasures are read at most; those without a certificate are few."""


def _present() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def _no_step(_name: str) -> None:
    """Do nothing after a step."""


@attrs.frozen(kw_only=True)
class Rotation:
    """The result of a run of a rotation.

    Attributes:
        key_id: The id of the new key.
        old: The ids of the keys that it replaces, and that can be retired.
        renewed: How many rows of each kind were signed or sealed again.
        refused: Rows that did not match their signatures, and were left as they are.
        is_announced: Whether the new key is only introduced, and not used yet.
    """

    key_id: str
    old: tuple[str, ...]
    renewed: dict[str, int] = attrs.field(factory=dict)
    refused: tuple[str, ...] = ()
    is_announced: bool = False


@attrs.frozen(kw_only=True)
class KeyUse:
    """A key of an installation.

    Attributes:
        state: `current`, `upcoming`, `old` (still accepted), `retired` or `unknown`.
        rows: The number of rows of each kind in the ledger that depend on it.
    """

    purpose: str
    key_id: str
    state: str
    since: str
    rows: dict[str, int] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class Keys:
    """The keys in the files of an installation.

    Attributes:
        step: Called after each durable step, with its name; tests interrupt rotations there.
        clock: The present time.
    """

    settings: Settings
    step: Callable[[str], None] = _no_step
    clock: Callable[[], dt.datetime] = _present

    def all(self) -> tuple[KeyUse, ...]:
        """List all keys, and what depends on each.

        Raises:
            KeyFileError: This is not the server's machine.
        """
        with self._opened() as (ledger, tenant):
            signed = ledger.signatures.count()
            sealed = self._sealed_by(ledger, tenant)
        return (*self._signing_keys(signed), *self._sealing_keys(sealed))

    def rotate_signing(self, *, announce: bool = False) -> Rotation:
        """Replace the signing key, and sign everything again; or complete such a rotation.

        Args:
            announce: Only make the key and add it to the ring, so that the files can be copied to
                other machines before it is used.

        Raises:
            KeyFileError: This is not the server's machine, or another rotation runs.
        """
        with self._locked():
            self._require_here()
            signer, verifier = self._signing()
            if not self.settings.next_signing_key.is_file() and len(verifier.ring.keys) == 1:
                atomic_create(self.settings.next_signing_key, secrets.token_bytes(KEY_BYTES))
                self.step("created")
            if self.settings.next_signing_key.is_file():
                upcoming = self._public_of(self.settings.next_signing_key)
                verifier.ring.with_key(upcoming).write(self.settings.verifying_key)
                self.step("announced")
                if announce:
                    old = (signer.public.key_id.hex(),)
                    return Rotation(key_id=upcoming.key_id.hex(), old=old, is_announced=True)
                self.settings.next_signing_key.replace(self.settings.signing_key)
                sync_path(self.settings.signing_key.parent)
                self.step("switched")
            return self._sign_again(signer, verifier)

    def rotate_secrets(self, *, announce: bool = False) -> Rotation:
        """Replace the key that seals secrets, and seal everything again; or complete that.

        Raises:
            KeyFileError: This is not the server's machine, or another rotation runs.
            NotOpenedError: A value was sealed by a key that is not in the file.
        """
        path = self.settings.secrets_key
        with self._locked():
            self._require_here()
            keys = read_sealing_keys(path)
            if keys.upcoming is None and len(keys.keys) == 1:
                fresh = SealingKey(secrets.token_bytes(KEY_BYTES), self._now())
                keys = attrs.evolve(keys, upcoming=fresh)
                keys.write(path)
                self.step("announced")
            if keys.upcoming is not None:
                if announce:
                    old = tuple(key.key_id for key in keys.keys)
                    return Rotation(key_id=keys.upcoming.key_id, old=old, is_announced=True)
                keys = attrs.evolve(keys, keys=(keys.upcoming, *keys.keys), upcoming=None)
                keys.write(path)
                self.step("switched")
            renewed = self._seal_again(load_sealer(path))
        return Rotation(
            key_id=keys.keys[0].key_id,
            old=tuple(key.key_id for key in keys.keys[1:]),
            renewed=dict(renewed),
        )

    def retire(self, key_id: str) -> None:
        """Remove an old key, so that nothing is accepted by it any more.

        Raises:
            KeyFileError: It is the current key, something depends on it, or it was replaced only
                now; the message names what.
        """
        with self._locked():
            self._require_here()
            ring = self._signing()[1].ring
            sealing = read_sealing_keys(self.settings.secrets_key)
            for public in ring.keys:
                if public.key_id.hex() == key_id:
                    return self._retire_signing(public)
            for key in sealing.keys:
                if key.key_id == key_id:
                    return self._retire_sealing(key)
        raise KeyFileError(f"no key has the id `{key_id}`; list them with `narthex keys list`")

    def _signing(self) -> tuple[Signer, Verifier]:
        return load_signing(self.settings.signing_key, self.settings.verifying_key)

    def _require_here(self) -> None:
        for path in (self.settings.signing_key, self.settings.secrets_key):
            if not path.is_file():
                raise KeyFileError(
                    f"`{path}` does not exist; run this command on the server's machine, with the "
                    "server's `NARTHEX_HOME`"
                )

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock of rotations; the kernel frees it when a process ends."""
        make_private(self.settings.home)
        with (self.settings.home / "keys.lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise KeyFileError(
                    "another command changes the keys of this installation; wait until it ends"
                ) from None
            yield

    @contextlib.contextmanager
    def _opened(self) -> Iterator[tuple[Ledger, TenantId]]:
        """Open the ledger, signing with the current key and verifying with the ring."""
        self._require_here()
        signer, verifier = self._signing()
        ledger = Ledger(self.settings.ledger_dsn, signer=signer, verifier=verifier)
        try:
            yield ledger, ledger.installation.ensure_tenant(TENANT)
        finally:
            ledger.close()

    def _sign_again(self, signer: Signer, verifier: Verifier) -> Rotation:
        own = signer.public.key_id
        old = {key.key_id for key in verifier.ring.keys} - {own}
        renewed: Counter[str] = Counter()
        refused: list[str] = []
        with self._opened() as (ledger, _):
            for kind in SIGNED_KINDS:
                renewed[kind] += ledger.signatures.renew(kind, by=old).rows
                # A second pass finds what was stored during the first one.
                found = ledger.signatures.renew(kind, by=old)
                renewed[kind] += found.rows
                refused += found.refused
                self.step(f"signed {kind}")
        return Rotation(
            key_id=own.hex(),
            old=tuple(sorted(key_id.hex() for key_id in old)),
            renewed={kind: rows for kind, rows in renewed.items() if rows},
            refused=tuple(refused),
        )

    def _seal_again(self, sealer: Sealer) -> Counter[str]:
        renewed: Counter[str] = Counter()
        with self._opened() as (ledger, tenant):
            for rows in (ledger.secrets, ledger.connections):
                values = SealedValues(rows, tenant, sealer)
                for name in rows.names(tenant):
                    renewed[rows.kind] += values.seal_again(name)
                self.step(f"sealed {rows.kind}")
            for erasure in ledger.erasures.unended(tenant, limit=_ERASURES):
                if _key_of(erasure.sealed) == sealer.keys.keys[0].key_id:
                    continue
                of = about(erasure.erasure_id)
                sealed = sealer.seal(sealer.open(erasure.sealed, about=of), about=of)
                renewed["erasure"] += ledger.erasures.seal_again(
                    erasure.erasure_id, old=erasure.sealed, sealed=sealed
                )
            self.step("sealed erasure")
        return +renewed

    def _retire_signing(self, public: PublicKey) -> None:
        key_id = public.key_id.hex()
        signer, verifier = self._signing()
        if self.settings.next_signing_key.is_file():
            raise KeyFileError("a rotation is not complete; run `narthex keys rotate signing`")
        if public.key_id == signer.public.key_id:
            raise KeyFileError(
                f"`{key_id}` is the current key; run `narthex keys rotate signing` before"
            )
        self._require_settled(self.settings.signing_key)
        with self._opened() as (ledger, _):
            found = RenewedSignatures()
            for kind in SIGNED_KINDS:
                found = found + ledger.signatures.valid(kind, by=(public.key_id,))
        if found.rows:
            raise KeyFileError(
                f"`{key_id}` has signed {found.rows} rows, such as {', '.join(found.first)}; "
                "run `narthex keys rotate signing` to sign them again"
            )
        verifier.ring.without_key(public).write(self.settings.verifying_key)
        self.step("retired")

    def _retire_sealing(self, key: SealingKey) -> None:
        keys = read_sealing_keys(self.settings.secrets_key)
        if keys.upcoming is not None:
            raise KeyFileError("a rotation is not complete; run `narthex keys rotate secrets`")
        if key.key_id == keys.keys[0].key_id:
            raise KeyFileError(
                f"`{key.key_id}` is the current key; run `narthex keys rotate secrets` before"
            )
        self._require_settled(self.settings.secrets_key)
        with self._opened() as (ledger, tenant):
            rows = self._sealed_by(ledger, tenant).get(key.key_id, Counter())
        if rows:
            found = ", ".join(f"{count} of the kind {kind}" for kind, count in rows.items())
            raise KeyFileError(
                f"`{key.key_id}` has sealed values: {found}; run `narthex keys rotate secrets` to "
                "seal them again"
            )
        kept = tuple(one for one in keys.keys if one.key_id != key.key_id)
        attrs.evolve(keys, keys=kept).write(self.settings.secrets_key)
        self.step("retired")

    def _require_settled(self, path: Path) -> None:
        """Refuse while processes may be storing what they signed or sealed with the old key."""
        wait = path.stat().st_ctime + RETIRE_AFTER_S - self.clock().timestamp()
        if wait > 0:
            raise KeyFileError(
                f"the key was replaced less than {RETIRE_AFTER_S:.0f} s ago, and a process may be "
                f"storing what the old one signed; run the command again in {wait:.0f} s"
            )

    def _sealed_by(self, ledger: Ledger, tenant: TenantId) -> dict[str, Counter[str]]:
        """Count the sealed values of each kind, by the id of the key."""
        sealer = load_sealer(self.settings.secrets_key)
        found: dict[str, Counter[str]] = {}
        for rows in (ledger.secrets, ledger.connections):
            for key_id in SealedValues(rows, tenant, sealer).key_ids():
                found.setdefault(key_id, Counter())[rows.kind] += 1
        for erasure in ledger.erasures.unended(tenant, limit=_ERASURES):
            found.setdefault(_key_of(erasure.sealed), Counter())["erasure"] += 1
        return found

    def _signing_keys(self, signed: dict[str, dict[bytes, int]]) -> Iterator[KeyUse]:
        signer, verifier = self._signing()
        ring, own = verifier.ring, signer.public.key_id
        upcoming = (
            self._public_of(self.settings.next_signing_key).key_id
            if self.settings.next_signing_key.is_file()
            else b""
        )
        known = [(key, "current" if key.key_id == own else "old") for key in ring.keys]
        known += [(key, "retired") for key in ring.retired]
        rows: dict[bytes, dict[str, int]] = {}
        for kind, by_key in signed.items():
            for key_id, count in by_key.items():
                rows.setdefault(key_id, {})[kind] = count
        for key, state in known:
            yield KeyUse(
                purpose="signing",
                key_id=key.key_id.hex(),
                state="upcoming" if key.key_id == upcoming else state,
                since=key.since,
                rows=rows.pop(key.key_id, {}),
            )
        for key_id, counts in rows.items():
            yield KeyUse(
                purpose="signing", key_id=key_id.hex(), state="unknown", since="", rows=counts
            )

    def _sealing_keys(self, sealed: dict[str, Counter[str]]) -> Iterator[KeyUse]:
        keys = read_sealing_keys(self.settings.secrets_key)
        rest = dict(sealed)
        known = [(key, "old" if number else "current") for number, key in enumerate(keys.keys)]
        if keys.upcoming is not None:
            known.append((keys.upcoming, "upcoming"))
        for key, state in known:
            yield KeyUse(
                purpose="secrets",
                key_id=key.key_id,
                state=state,
                since=key.since,
                rows=dict(rest.pop(key.key_id, {})),
            )
        for key_id, counts in rest.items():
            yield KeyUse(
                purpose="secrets", key_id=key_id, state="unknown", since="", rows=dict(counts)
            )

    def _public_of(self, path: Path) -> PublicKey:
        made = dt.datetime.fromtimestamp(path.stat().st_mtime, dt.UTC)
        return attrs.evolve(Signer.load(path).public, since=made.isoformat(timespec="seconds"))

    def _now(self) -> str:
        return self.clock().isoformat(timespec="seconds")


def _key_of(sealed: object) -> str:
    return str(sealed.get("key_id")) if isinstance(sealed, dict) else ""
