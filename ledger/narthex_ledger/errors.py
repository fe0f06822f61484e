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
│   ├── MainStays               NX1112
│   ├── QualityBroken           NX1113
│   └── TooManyOfflineQueries   NX1114
├── NotFound                    NX1120
├── Contended                   NX1130  retries are used up; nothing was changed
├── OutcomeUnknown              NX1131  the connection broke while committing
├── LedgerUnreachable           NX1133  the database does not answer; nothing was changed
├── NotSigned                   NX1134  a bundle or row lacks the installation's signature
├── InstallationIsNewer         NX1135  a later release wrote the ledger or the stores
├── UpgradeNeeded               NX1136  an earlier release wrote them last
└── UnsafeSession               NX1132  the server or its settings break the protocol's rules
"""

from collections.abc import Collection
from uuid import UUID

from narthex._base import Json


class LedgerError(Exception):
    """The ledger could not serve a request; `code` names the reason, `detail` is for machines."""

    code = "NX1100"

    def __init__(self, what: str, *, detail: Json = None, hint: str = "") -> None:
        super().__init__(_message(self.code, what, hint))
        self.what = what
        self.detail = detail
        self.hint = hint

    @property
    def for_operators(self) -> str:
        """The message with the cause, which may name hosts and users of the database."""
        if not isinstance(self.detail, str) or not self.detail:
            return str(self)
        return _message(self.code, f"{self.what}: {self.detail.splitlines()[0]}", self.hint)


def _message(code: str, what: str, hint: str) -> str:
    return f"[{code}] {what}" + (f"\nhint: {hint}" if hint else "")


class LedgerRefused(LedgerError):
    """The ledger changed nothing, for a reason that the caller can act on."""


class Fenced(LedgerRefused):
    """Another process took over the commit, slot or job after this caller's claim; stop at once.

    A second writer would overwrite the work of the new owner. Instead: do nothing; the new owner
    continues the work.
    """

    code = "NX1101"


class LeaseHeld(LedgerRefused):
    """Another owner's lease has not expired; retry later.

    Only one owner works on a commit, slot or job at a time. Instead: wait until the lease is
    released or expires.
    """

    code = "NX1102"


class CommitInProgress(LedgerRefused):
    """The branch has another commit in flight.

    Each of two concurrent commits would plan on assets that the other changes. Instead: wait for
    the commit, or cancel it.
    """

    code = "NX1103"

    def __init__(self, commit_id: UUID) -> None:
        super().__init__(
            f"commit `{commit_id}` is in flight on this branch",
            detail={"commit_id": str(commit_id)},
            hint="wait for that commit, or cancel it",
        )
        self.commit_id = commit_id


class IdempotencyKeyReused(LedgerRefused):
    """The idempotency key was used for a different request; give each request its own key.

    A repeated key means a repeated request, but this request differs. Instead: send a new key.
    """

    code = "NX1104"


class CommitRejected(LedgerRefused):
    """The ledger refused the plan and reserved no assets; the commit ends as REJECTED.

    `reason` is `stale_base`, `plan_changed`, `would_backfill`, `quarantined`, `branch_deleted`
    or the reason that the caller of `abort` gave. The branch does not match the plan any more.
    Instead: commit again, on the branch's current head.
    """

    code = "NX1105"

    def __init__(self, reason: str, *, detail: Json = None, hint: str = "") -> None:
        super().__init__(f"the commit is rejected: {reason}", detail=detail, hint=hint)
        self.reason = reason


class CommitCancelled(LedgerRefused):
    """A cancel arrived before the commit point; abort the commit.

    A cancelled commit must not take effect. Instead: commit again.
    """

    code = "NX1106"


class AlreadyCommitted(LedgerRefused):
    """The commit point has passed, so the commit cannot be undone; roll back with a new commit.

    Later commits may already depend on it. Instead: commit the previous definitions again.
    """

    code = "NX1107"


class WrongState(LedgerRefused):
    """The state of the commit, asset or promotion does not allow this step.

    Steps follow the order of the states, each at most once. Instead: read the current state and
    take the next step.
    """

    code = "NX1108"


class NotReady(LedgerRefused):
    """A precondition of the step does not hold yet; `detail` lists the missing parts.

    Readers must never see a part of a commit. Instead: wait, and take the step again.
    """

    code = "NX1109"


class NotPinned(LedgerRefused):
    """No pin keeps the manifest any more; read the manifest that the branch serves now.

    The collector may destroy the manifest's assets during the read. Instead: read the branch's
    current manifest.
    """

    code = "NX1110"


class BranchExists(LedgerRefused):
    """An active branch of that name already exists.

    Branch names are unique. Instead: choose another name, or delete that branch first.
    """

    code = "NX1111"


class MainStays(LedgerRefused):
    """The main branch cannot be deleted.

    Requests without a branch use the main branch. Instead: commit new definitions to it.
    """

    code = "NX1112"


class QualityBroken(LedgerRefused):
    """The history of a commit's datasets breaks critical expectations; `detail` lists the datasets.

    Readers must not read rows that break a critical expectation. Instead: correct the rows or the
    definitions, or declare the expectation with `severity="warning"`, and commit again.
    """

    code = "NX1113"

    def __init__(self, commit_id: UUID, datasets: Collection[str]) -> None:
        super().__init__(
            f"critical expectations of {', '.join(f'`{name}`' for name in datasets)} are broken",
            detail=[*datasets],
            hint=f"`narthex commits {commit_id}` shows them, and how many rows break them",
        )


class TooManyOfflineQueries(LedgerRefused):
    """A token has as many offline queries that wait or run as a token may have.

    Each of them keeps its rows and its commit until it ends. Instead: wait until some have ended,
    cancel one that is not needed any more, or ask for more rows at a time.
    """

    code = "NX1114"

    def __init__(self, count: int, *, most: int) -> None:
        super().__init__(
            f"the token has {count} offline queries that wait or run, and may have {most}",
            detail={"most": most},
            hint="wait until one has ended, or cancel one with `narthex offline cancel`; an "
            "operator can raise `NARTHEX_OFFLINE_QUERIES_PER_TOKEN`",
        )


class NotFound(LedgerError):
    """No row has that id or name.

    The row never existed, or belongs to another tenant. Instead: list the existing names.
    """

    code = "NX1120"


class Contended(LedgerError):
    """Every retry of the transaction lost to a concurrent one; the ledger changed nothing.

    A longer wait would block other transactions. Instead: repeat the call.
    """

    code = "NX1130"


class OutcomeUnknown(LedgerError):
    """The connection broke during the commit, so the outcome of the transaction is unknown.

    Only a new transaction can read the outcome. Instead: repeat the call; a repeated call finds
    the effect of the first one.
    """

    code = "NX1131"


class UnsafeSession(LedgerError):
    """The database session lacks the isolation, durability or primary server that the ledger needs.

    In such a session the ledger could lose or repeat changes. Instead: connect to the primary
    server, with isolation READ COMMITTED and `synchronous_commit` on.
    """

    code = "NX1132"


class LedgerUnreachable(LedgerError):
    """The ledger's database does not answer; the ledger changed nothing.

    Without the database, the ledger can neither read nor write. Instead: repeat the call when the
    database answers again.
    """

    code = "NX1133"


class NotSigned(LedgerError):
    """This installation did not sign a bundle or row of the ledger, or it was changed later.

    Write access to the database must not be enough to run code. Instead: commit the definitions
    again; on a new machine, first copy `signing.key` from the server's previous machine.
    """

    code = "NX1134"


class InstallationIsNewer(LedgerError):
    """A later release of Narthex migrated the ledger, or wrote the stores in a later format.

    This release would misread or damage what it does not know. Instead: install the release that
    the installation had last, or a later one; or restore the backup that was made before its
    upgrade.
    """

    code = "NX1135"


class UpgradeNeeded(LedgerError):
    """The ledger has the schema of an earlier release, and was not upgraded yet.

    Processes that only read the ledger leave its upgrade to the server. Instead: start the server
    of this release, or run `narthex upgrade`; the process can then be started.
    """

    code = "NX1136"
