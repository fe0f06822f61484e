"""The part of the ledger for erasures."""

from collections.abc import Collection, Sequence
from uuid import UUID

import attrs

from narthex._base import Json
from narthex._ir import SinkJobSpec
from narthex_ledger.db.statements import erasures as on_erasures
from narthex_ledger.erasures import erased_sinks, erasing
from narthex_ledger.errors import NotSigned
from narthex_ledger.model.erasure_views import (
    BlockedSource,
    ErasureRequest,
    ErasureView,
    ObsoleteSink,
    OwedBranch,
    ReachedAsset,
    Successor,
)
from narthex_ledger.model.plans import sha256_of
from narthex_ledger.model.views import TenantId
from narthex_ledger.session import LedgerDatabase
from narthex_ledger.signing.signatures import erasure_statement


@attrs.frozen
class Erasures:
    """Erasures; each method is one transaction and may be repeated as it is.

    `owner` is the process that carries an erasure out; methods with one raise Fenced if another
    process does, and NotReady while what they wait for has not happened.
    """

    _db: LedgerDatabase

    def request(self, wanted: ErasureRequest) -> ErasureView:
        """Queue an erasure, and block its keys from now on.

        Raises:
            IdempotencyKeyReused: The id was used for another request.
        """
        return self._db.run("request_erasure", lambda c: erasing.request(c, wanted))

    def get(self, erasure_id: UUID) -> ErasureView:
        """Read an erasure.

        Raises:
            NotFound: No erasure has that id.
        """
        return self._db.run("erasure", lambda c: erasing.read(c, erasure_id))

    def newest(self, tenant: TenantId, *, limit: int = 50) -> tuple[ErasureView, ...]:
        """List erasures, the newest first."""
        return self._db.run(
            "erasures", lambda c: on_erasures.erasures(c, tenant, limit, only_unended=False)
        )

    def unended(self, tenant: TenantId, *, limit: int = 50) -> tuple[ErasureView, ...]:
        """List erasures without a certificate, the oldest first."""
        return self._db.run(
            "unended_erasures", lambda c: on_erasures.erasures(c, tenant, limit, only_unended=True)
        )

    def claim(self, erasure_id: UUID, owner: str, *, lease_s: float) -> bool:
        """Lease an erasure to a process; false if another one has it, or it has ended."""
        return self._db.run(
            "claim_erasure", lambda c: on_erasures.lease_erasure(c, erasure_id, owner, lease_s)
        )

    def reached(self, tenant: TenantId, dataset: str) -> tuple[ReachedAsset, ...]:
        """List the assets with rows that are derived from a dataset's, on all branches."""
        return self._db.run("reached_assets", lambda c: erasing.reached(c, tenant, dataset))

    def blocked_sources(self, tenant: TenantId, endpoint: str) -> tuple[BlockedSource, ...]:
        """Read how rows of an endpoint become rows of datasets with blocked keys."""
        return self._db.run(
            "blocked_sources", lambda c: on_erasures.blocked_sources(c, tenant, endpoint)
        )

    def blocked_fields(self, tenant: TenantId) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Return the datasets with blocked keys, each with the fields of the keys."""
        found = self._db.run("blocked_fields", lambda c: on_erasures.blocked_fields(c, tenant))
        return tuple((dataset, tuple(fields)) for dataset, fields in found)

    def follow(self, tenant: TenantId, sources: Sequence[BlockedSource]) -> None:
        """Let the rows of further sources be blocked too."""
        hashed = [(source, sha256_of(source.form)) for source in sources]
        self._db.run("follow_sources", lambda c: on_erasures.put_sources(c, tenant, hashed))

    def blocked_endpoints(self, tenant: TenantId, dataset: str) -> frozenset[str]:
        """Return the endpoints whose rows a dataset with blocked keys has or had."""
        return self._db.run(
            "blocked_endpoints", lambda c: on_erasures.blocked_endpoints(c, tenant, dataset)
        )

    def blocked(
        self, tenant: TenantId, dataset: str, digests: Collection[bytes]
    ) -> frozenset[bytes]:
        """Return which of these digests a dataset has blocked."""
        return self._db.run(
            "blocked_keys", lambda c: on_erasures.blocked(c, tenant, dataset, digests)
        )

    def is_held(self, topic: str) -> bool:
        """Whether a topic accepts no more records, because they are being copied."""
        return self._db.run("held_topic", lambda c: on_erasures.is_held(c, topic))

    def mark_obsolete(self, erasure_id: UUID, owner: str) -> None:
        """Mark all assets with derived rows as obsolete: no later plan shares them; REBUILDING."""
        self._db.run("mark_obsolete", lambda c: erasing.mark_obsolete(c, erasure_id, owner))

    def owed(self, erasure_id: UUID) -> tuple[OwedBranch, ...]:
        """List the branches that deploy obsolete assets."""
        return self._db.run("owed_branches", lambda c: erasing.owed(c, erasure_id))

    def hold(self, erasure_id: UUID, owner: str) -> None:
        """Let the endpoints accept no more rows, once all successors exist; HOLDING."""
        self._db.run("hold_endpoints", lambda c: erasing.hold(c, erasure_id, owner))

    def successors(self, erasure_id: UUID) -> tuple[Successor, ...]:
        """List the obsolete ingest topics, with the topics that take their places."""
        return self._db.run("successors", lambda c: erasing.successors(c, erasure_id))

    def filled(self, erasure_id: UUID, owner: str, successor: Successor) -> None:
        """Record that a topic has all remaining records of the one that it follows."""
        self._db.run("filled", lambda c: erasing.fill(c, erasure_id, owner, successor))

    def deployed(self, erasure_id: UUID, owner: str) -> None:
        """Go on once no branch deploys an obsolete asset; WITHDRAWING."""
        self._db.run("successors_deployed", lambda c: erasing.deployed(c, erasure_id, owner))

    def stop_writers(self, erasure_id: UUID, owner: str) -> tuple[str, ...]:
        """Let all obsolete jobs but the sinks stop; return why some have not stopped yet.

        Raises:
            NotReady: Something still reads obsolete assets.
        """
        rules = self._db.rules
        return self._db.run(
            "stop_obsolete", lambda c: erasing.stop_writers(c, erasure_id, owner, rules)
        )

    def running_sinks(self, erasure_id: UUID, owner: str) -> tuple[ObsoleteSink, ...]:
        """Let the obsolete sinks run that have successors, and list all of them."""
        return self._db.run("run_sinks", lambda c: erasing.running_sinks(c, erasure_id, owner))

    def confirm_sinks(self, erasure_id: UUID, owner: str, *, seen: Json) -> None:
        """Store what was seen of deletions in targets, once, and let the obsolete sinks stop."""
        rules = self._db.rules
        self._db.run(
            "confirm_sinks", lambda c: erasing.confirm_sinks(c, erasure_id, owner, seen, rules)
        )

    def withdrawn(self, erasure_id: UUID, owner: str) -> None:
        """Let new sinks write, once obsolete ones have deleted rows and stopped; RELEASING."""
        rules = self._db.rules
        self._db.run("sinks_withdrawn", lambda c: erasing.withdrawn(c, erasure_id, owner, rules))

    def release(self, erasure_id: UUID, owner: str) -> None:
        """Delete the pins of old commits on obsolete assets, once nothing reads them; REMOVING."""
        self._db.run("release_obsolete", lambda c: erasing.release(c, erasure_id, owner))

    def obsolete(self, erasure_id: UUID) -> tuple[str, ...]:
        """List the physical names of all assets that an erasure has made obsolete."""
        return self._db.run(
            "obsolete_names",
            lambda c: tuple(row.physical_name for row in on_erasures.obsolete(c, erasure_id)),
        )

    def sinks(self, erasure_id: UUID) -> tuple[ObsoleteSink, ...]:
        """List the sinks that wrote rows of obsolete assets, also those that are destroyed."""
        return self._db.run("obsolete_sinks", lambda c: erased_sinks.obsolete_sinks(c, erasure_id))

    def replaced_sinks(self, tenant: TenantId) -> tuple[SinkJobSpec, ...]:
        """List the sinks that were replaced or removed, whose targets may have rows of them."""
        return self._db.run("replaced_sinks", lambda c: erased_sinks.replaced_sinks(c, tenant))

    def remaining(self, erasure_id: UUID) -> tuple[ReachedAsset, ...]:
        """List the obsolete assets that are not destroyed yet."""
        return self._db.run("obsolete_assets", lambda c: erasing.remaining(c, erasure_id))

    def search(self, needles: Sequence[str]) -> dict[str, tuple[int, int]]:
        """Count the rows of each table of the ledger, and those whose text has any of the texts."""
        return self._db.run(
            "search_ledger",
            lambda c: {
                table: on_erasures.count_rows_with(c, table, needles)
                for table in on_erasures.texts(c)
            },
        )

    def seal_again(self, erasure_id: UUID, *, old: Json, sealed: Json) -> bool:
        """Store the same keys as sealed by another key; false if they are gone by now."""
        return self._db.run(
            "seal_erasure_again",
            lambda c: on_erasures.seal_again(c, erasure_id, old=old, sealed=sealed),
        )

    def note(self, erasure_id: UUID, owner: str, *, waits_for: str) -> None:
        """Store what an erasure waits for, for people."""
        self._db.run("note_erasure", lambda c: erasing.note(c, erasure_id, owner, waits_for))

    def certify(self, erasure_id: UUID, owner: str, *, certificate: Json) -> ErasureView:
        """Sign and store the certificate, and delete the values of the keys; CERTIFIED.

        Raises:
            NotReady: An obsolete asset is not destroyed.
        """
        signature = self._db.attest(erasure_statement(certificate))
        return self._db.run(
            "certify", lambda c: erasing.certify(c, erasure_id, owner, certificate, signature)
        )

    def verify(self, certificate: Json, signature: bytes) -> None:
        """Check that the installation has signed a certificate.

        Raises:
            NotSigned: It has not, or the certificate was changed. A signature of a retired key is
                accepted only while the ledger has the certificate, signed by a current key.
        """
        verifier, statement = self._db.verifier, erasure_statement(certificate)
        if verifier is None:
            return
        try:
            verifier.check(statement, signature, what="the certificate")
        except NotSigned:
            stored = self._db.run(
                "certificate_signature",
                lambda c: on_erasures.signature_of(c, certificate),
            )
            if stored is None:
                raise
            verifier.check(statement, stored, what="the certificate")
            verifier.check_retired(statement, signature, what="the certificate")
