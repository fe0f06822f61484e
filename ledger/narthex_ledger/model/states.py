"""The state machines of the ledger: each state and its allowed transitions.

The database holds the same pairs in triggers, so SQL that is wrong fails instead of corrupting.
"""

import enum
from typing import TypeVar

from narthex._ir import AssetKind


class CommitState(enum.StrEnum):
    """The states of a commit; FINALIZED, ABORTED and REJECTED are final."""

    QUEUED = "QUEUED"
    PLANNED = "PLANNED"
    APPLYING = "APPLYING"
    READY = "READY"
    COMMITTED = "COMMITTED"
    FINALIZED = "FINALIZED"
    ABORTING = "ABORTING"
    ABORTED = "ABORTED"
    REJECTED = "REJECTED"


class CommitKind(enum.StrEnum):
    """The kinds of commits; only a DEPLOY and an ERASE create assets.

    An ERASE deploys the definitions of the head again, in place of assets that are being erased.
    """

    DEPLOY = "deploy"
    ERASE = "erase"
    INIT_BRANCH = "init_branch"
    CLONE = "clone"
    ROLLBACK = "rollback"
    DELETE_BRANCH = "delete_branch"
    UNDELETE_BRANCH = "undelete_branch"


class AssetState(enum.StrEnum):
    """The states of an asset; only DESTROYED is final."""

    PLANNED = "planned"
    CREATING = "creating"
    LIVE = "live"
    RETIRING = "retiring"
    DESTROYING = "destroying"
    DESTROYED = "destroyed"
    QUARANTINED = "quarantined"


class CreateStatus(enum.StrEnum):
    """The states of an entry in the ledger of creations."""

    RESERVED = "RESERVED"
    INTENT = "INTENT"
    DONE = "DONE"
    UNDONE = "UNDONE"


class DestroyStatus(enum.StrEnum):
    """The states of an entry in the ledger of destructions."""

    SCHEDULED = "SCHEDULED"
    INTENT = "INTENT"
    DONE = "DONE"
    CANCELLED = "CANCELLED"


class PromotionState(enum.StrEnum):
    """Whether readers have flipped to a commit."""

    PENDING = "PENDING"
    DONE = "DONE"
    SUPERSEDED = "SUPERSEDED"


class OfflineState(enum.StrEnum):
    """The states of an offline query."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class ErasureState(enum.StrEnum):
    """The states of an erasure; only CERTIFIED is final.

    Attributes:
        REQUESTED: Its keys are blocked.
        REBUILDING: Its assets are obsolete; commits create their successors.
        HOLDING: Its endpoints accept no rows while their records are copied.
        WITHDRAWING: All branches deploy the successors; readers flip, and then obsolete sinks
            delete the rows from their targets.
        RELEASING: Obsolete sinks have stopped; readers are waited for.
        REMOVING: Nothing reads the obsolete assets; they are destroyed and searched for.
        CERTIFIED: A search found nothing.
    """

    REQUESTED = "requested"
    REBUILDING = "rebuilding"
    HOLDING = "holding"
    WITHDRAWING = "withdrawing"
    RELEASING = "releasing"
    REMOVING = "removing"
    CERTIFIED = "certified"


class Desired(enum.StrEnum):
    """The desired state of a job."""

    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"


class Phase(enum.StrEnum):
    """The last reported phase of a job's shard."""

    PENDING = "pending"
    STARTING = "starting"
    RUNNING = "running"
    CAUGHT_UP = "caught_up"
    PAUSED = "paused"
    STOPPED = "stopped"
    FAILED = "failed"


class PromotionPolicy(enum.StrEnum):
    """When readers flip: on evidence, at once, or on evidence and a person's approval."""

    WHEN_READY = "when_ready"
    NOW = "now"
    MANUAL = "manual"


class BackfillPolicy(enum.StrEnum):
    """Whether a commit that would have to backfill anything is refused."""

    ALLOWED = "allowed"
    REFUSED = "refused"


COMMIT_NEXT: dict[CommitState, frozenset[CommitState]] = {
    CommitState.QUEUED: frozenset({CommitState.PLANNED, CommitState.REJECTED}),
    CommitState.PLANNED: frozenset({CommitState.APPLYING, CommitState.ABORTING}),
    CommitState.APPLYING: frozenset({CommitState.READY, CommitState.ABORTING}),
    CommitState.READY: frozenset({CommitState.COMMITTED, CommitState.ABORTING}),
    CommitState.COMMITTED: frozenset({CommitState.FINALIZED}),
    CommitState.FINALIZED: frozenset(),
    CommitState.ABORTING: frozenset({CommitState.ABORTED}),
    CommitState.ABORTED: frozenset(),
    CommitState.REJECTED: frozenset(),
}

ASSET_NEXT: dict[AssetState, frozenset[AssetState]] = {
    AssetState.PLANNED: frozenset({AssetState.CREATING, AssetState.DESTROYED}),
    AssetState.CREATING: frozenset(
        {AssetState.LIVE, AssetState.DESTROYING, AssetState.QUARANTINED}
    ),
    AssetState.LIVE: frozenset({AssetState.RETIRING, AssetState.QUARANTINED}),
    AssetState.RETIRING: frozenset(
        {AssetState.LIVE, AssetState.DESTROYING, AssetState.QUARANTINED}
    ),
    AssetState.DESTROYING: frozenset({AssetState.DESTROYED}),
    AssetState.DESTROYED: frozenset(),
    # A person decides to destroy a quarantined asset by its id.
    AssetState.QUARANTINED: frozenset({AssetState.DESTROYING}),
}

CREATE_NEXT: dict[CreateStatus, frozenset[CreateStatus]] = {
    CreateStatus.RESERVED: frozenset({CreateStatus.INTENT, CreateStatus.UNDONE}),
    CreateStatus.INTENT: frozenset({CreateStatus.DONE, CreateStatus.UNDONE}),
    CreateStatus.DONE: frozenset(),
    CreateStatus.UNDONE: frozenset(),
}

DESTROY_NEXT: dict[DestroyStatus, frozenset[DestroyStatus]] = {
    DestroyStatus.SCHEDULED: frozenset({DestroyStatus.INTENT, DestroyStatus.CANCELLED}),
    DestroyStatus.INTENT: frozenset({DestroyStatus.DONE}),
    DestroyStatus.DONE: frozenset(),
    # A resurrected asset that no pin reaches any more is scheduled again.
    DestroyStatus.CANCELLED: frozenset({DestroyStatus.SCHEDULED}),
}

PROMOTION_NEXT: dict[PromotionState, frozenset[PromotionState]] = {
    PromotionState.PENDING: frozenset({PromotionState.DONE, PromotionState.SUPERSEDED}),
    PromotionState.DONE: frozenset(),
    PromotionState.SUPERSEDED: frozenset(),
}

OFFLINE_NEXT: dict[OfflineState, frozenset[OfflineState]] = {
    OfflineState.QUEUED: frozenset({OfflineState.RUNNING, OfflineState.CANCELLED}),
    OfflineState.RUNNING: frozenset(
        {OfflineState.DONE, OfflineState.FAILED, OfflineState.CANCELLED}
    ),
    OfflineState.DONE: frozenset(),
    OfflineState.FAILED: frozenset(),
    OfflineState.CANCELLED: frozenset(),
}

IN_FLIGHT = (CommitState.PLANNED, CommitState.APPLYING, CommitState.READY)
"""The states of a commit in flight; a branch has at most one such commit."""

ABORTABLE = (CommitState.QUEUED, *IN_FLIGHT)
"""The states before the commit point."""

DRIVABLE = (*ABORTABLE, CommitState.COMMITTED, CommitState.ABORTING)
"""The states in which an executor has work to do."""

RETAINED = (
    AssetState.PLANNED,
    AssetState.CREATING,
    AssetState.LIVE,
    AssetState.RETIRING,
    AssetState.QUARANTINED,
)
"""The states in which an asset represents its fingerprint; at most one row per fingerprint."""

JOB_KINDS = (AssetKind.STREAM_JOB, AssetKind.INDEX_FEED, AssetKind.HISTORY_FEED)
"""Kinds that are rows of the job registry."""

FEED_KINDS = (AssetKind.INDEX_FEED, AssetKind.HISTORY_FEED)
"""Jobs that tail a log into a store; they run from the commit point on."""

ROW_KINDS = (*JOB_KINDS, AssetKind.SINK_FENCE)
"""Kinds stored in the ledger's own database: created and destroyed in one transaction."""

_State = TypeVar("_State", bound=enum.Enum)


def allowed(next_states: dict[_State, frozenset[_State]]) -> frozenset[tuple[_State, _State]]:
    """List a machine's transitions as pairs."""
    return frozenset((old, new) for old, news in next_states.items() for new in news)
