"""The errors of the ledger.

LedgerError
├── LedgerRefused                  the caller can act on it
│   ├── Fenced                  NX1101
│   ├── LeaseHeld               NX1102
│   ├── CommitInProgress        NX1103
│   ├── IdempotencyKeyReused    NX1104
│   ├── CommitRejected          NX1105
│   ├── CommitCancelled         NX1106
│   ├── AlreadyCommitted        NX1107
│   ├── WrongState              NX1108
│   ├── NotReady                NX1109
│   ├── NotPinned               NX1110
│   ├── BranchExists            NX1111
│   └── MainStays               NX1112
├── NotFound                    NX1120
├── Contended                   NX1130  retries are used up; nothing was changed
├── OutcomeUnknown              NX1131  the connection broke while committing
├── LedgerUnreachable           NX1133  the database does not answer; nothing was changed
├── NotSigned                   NX1134  a bundle is there that the installation has not signed
└── UnsafeSession               NX1132  the server or its settings break the protocol's rules
"""

from uuid import UUID

from narthex._base import Json


class LedgerError(Exception):
    """The ledger could not do what was asked; `code` names why, `detail` is for machines."""

    code = "NX1100"

    def __init__(self, what: str, *, detail: Json = None, hint: str = "") -> None:
        super().__init__(f"[{self.code}] {what}" + (f"\nhint: {hint}" if hint else ""))
        self.what = what
        self.detail = detail
        self.hint = hint


class LedgerRefused(LedgerError):
    """Nothing was changed, and the reason is one that the caller can act on."""


class Fenced(LedgerRefused):
    """Somebody else took over the commit, slot or job since this caller's claim; stop at once.

    A second writer would undo what the first has done since. Instead: nothing; who took over
    goes on.
    """

    code = "NX1101"


class LeaseHeld(LedgerRefused):
    """Another holder's lease has not expired; come again later.

    Two holders never work on one thing. Instead: wait until it is released or has expired.
    """

    code = "NX1102"


class CommitInProgress(LedgerRefused):
    """The branch has another commit in flight.

    Two commits at once would each plan on what the other changes. Instead: wait for it, or cancel
    it.
    """

    code = "NX1103"

    def __init__(self, commit_id: UUID) -> None:
        super().__init__(
            f"commit `{commit_id}` is in flight on this branch",
            detail={"commit_id": str(commit_id)},
            hint="wait for it, or cancel it",
        )
        self.commit_id = commit_id


class IdempotencyKeyReused(LedgerRefused):
    """The idempotency key was used for a different request; give each request its own key.

    The key promises that a repetition is the same request; this one differs. Instead: a new
    key.
    """

    code = "NX1104"


class CommitRejected(LedgerRefused):
    """The plan was refused before anything was reserved; the commit is REJECTED for good.

    `reason` is `stale_base`, `plan_changed`, `would_backfill`, `quarantined`, `branch_deleted`
    or what the caller of `abort` gave. What was planned is no longer what would be done. Instead:
    commit again, on what the branch has now.
    """

    code = "NX1105"

    def __init__(self, reason: str, *, detail: Json = None, hint: str = "") -> None:
        super().__init__(f"the commit is rejected: {reason}", detail=detail, hint=hint)
        self.reason = reason


class CommitCancelled(LedgerRefused):
    """A cancel arrived before the commit point; abort the commit.

    What was cancelled must not come to stand. Instead: commit again.
    """

    code = "NX1106"


class AlreadyCommitted(LedgerRefused):
    """The commit point has passed; only forward from here. Roll back with a new commit.

    Others may have built on it already. Instead: commit the former definitions again.
    """

    code = "NX1107"


class WrongState(LedgerRefused):
    """The row is not in a state from which this step may be taken.

    Steps are taken in the order in which the states are drawn, each at most once. Instead: read
    the commit's state and take the step that follows.
    """

    code = "NX1108"


class NotReady(LedgerRefused):
    """What the step needs is not there yet; `detail` lists what it waits for.

    Readers must never see a part of a commit. Instead: wait, and take the step again.
    """

    code = "NX1109"


class NotPinned(LedgerRefused):
    """No pin reaches the manifest any more, so it may be going away; take a served one.

    Its assets may be destroyed while it is read. Instead: ask for what is served now.
    """

    code = "NX1110"


class BranchExists(LedgerRefused):
    """There is an active branch of that name already.

    A name stands for one branch. Instead: another name, or delete that branch first.
    """

    code = "NX1111"


class MainStays(LedgerRefused):
    """The main branch cannot be deleted.

    Clients that name no branch speak of it. Instead: commit what it should be.
    """

    code = "NX1112"


class NotFound(LedgerError):
    """No row has that id or name.

    It was never there, or belongs to another tenant. Instead: list what there is.
    """

    code = "NX1120"


class Contended(LedgerError):
    """The transaction lost every retry against others; nothing was changed, try again.

    Waiting longer would hold up others. Instead: the same call again.
    """

    code = "NX1130"


class OutcomeUnknown(LedgerError):
    """The connection broke while committing: the change may or may not have happened.

    Nobody can tell before it is looked at. Instead: the same call again; each is written so that
    its second time finds the first's effect.
    """

    code = "NX1131"


class UnsafeSession(LedgerError):
    """The database session is not as the protocol needs it (isolation, durability, primary).

    What the ledger promises would not hold. Instead: a primary server, isolation READ
    COMMITTED, and `synchronous_commit` not off.
    """

    code = "NX1132"


class LedgerUnreachable(LedgerError):
    """The ledger's database does not answer; nothing was changed.

    What stands cannot be known meanwhile. Instead: the same call again, when the database is back.
    """

    code = "NX1133"


class NotSigned(LedgerError):
    """A bundle of the ledger was not signed by this installation, or was changed since.

    Whoever can write the database must not bring in code. Instead: commit the definitions again;
    if the machine is a new one, copy `signing.key` from where the server ran before.
    """

    code = "NX1134"
