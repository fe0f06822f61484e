"""What the ledger refuses, and why.

LedgerError
├── Refused                     the caller can act on it
│   ├── Fenced                  NX501
│   ├── LeaseHeld               NX502
│   ├── CommitInProgress        NX503
│   ├── IdempotencyKeyReused    NX504
│   ├── CommitRejected          NX505
│   ├── CommitCancelled         NX506
│   ├── AlreadyCommitted        NX507
│   ├── WrongState              NX508
│   ├── NotReady                NX509
│   └── NotPinned               NX510
├── NotFound                    NX520
├── Contended                   NX530  retries are used up; nothing was changed
├── OutcomeUnknown              NX531  the connection broke while committing
└── UnsafeSession               NX532  the server or its settings break the protocol's rules
"""

from uuid import UUID

from narthex.records import Json


class LedgerError(Exception):
    """The ledger could not do what was asked; `code` names why, `detail` is for machines."""

    code = "NX500"

    def __init__(self, what: str, *, detail: Json = None, hint: str = "") -> None:
        super().__init__(f"[{self.code}] {what}" + (f"\nhint: {hint}" if hint else ""))
        self.what = what
        self.detail = detail
        self.hint = hint


class Refused(LedgerError):
    """Nothing was changed, and the reason is one that the caller can act on."""


class Fenced(Refused):
    """Somebody else took over the commit, slot or job since this caller's claim; stop at once."""

    code = "NX501"


class LeaseHeld(Refused):
    """Another holder's lease has not expired; come again later."""

    code = "NX502"


class CommitInProgress(Refused):
    """The branch has another commit in flight; wait for it, or cancel it."""

    code = "NX503"

    def __init__(self, commit_id: UUID) -> None:
        super().__init__(
            f"commit `{commit_id}` is in flight on this branch",
            detail={"commit_id": str(commit_id)},
            hint="wait for it, or cancel it",
        )
        self.commit_id = commit_id


class IdempotencyKeyReused(Refused):
    """The idempotency key was used for a different request; give each request its own key."""

    code = "NX504"


class CommitRejected(Refused):
    """The plan was refused before anything was reserved; the commit is REJECTED for good.

    `reason` is `stale_base`, `plan_changed`, `would_backfill`, `quarantined`, `branch_deleted`
    or what the caller of `abort` gave.
    """

    code = "NX505"

    def __init__(self, reason: str, *, detail: Json = None, hint: str = "") -> None:
        super().__init__(f"the commit is rejected: {reason}", detail=detail, hint=hint)
        self.reason = reason


class CommitCancelled(Refused):
    """A cancel arrived before the commit point; abort the commit."""

    code = "NX506"


class AlreadyCommitted(Refused):
    """The commit point has passed; only forward from here. Roll back with a new commit."""

    code = "NX507"


class WrongState(Refused):
    """The row is not in a state from which this step may be taken."""

    code = "NX508"


class NotReady(Refused):
    """What the step needs is not there yet; `detail` lists what it waits for."""

    code = "NX509"


class NotPinned(Refused):
    """No pin reaches the manifest any more, so it may be going away; take a served one."""

    code = "NX510"


class NotFound(LedgerError):
    """No row has that id or name."""

    code = "NX520"


class Contended(LedgerError):
    """The transaction lost every retry against others; nothing was changed, try again."""

    code = "NX530"


class OutcomeUnknown(LedgerError):
    """The connection broke while committing: the change may or may not have happened.

    Repeat the same call: each is written so that its second time finds the first's effect.
    """

    code = "NX531"


class UnsafeSession(LedgerError):
    """The database session is not as the protocol needs it (isolation, durability, primary)."""

    code = "NX532"
