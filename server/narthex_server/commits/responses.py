"""The answers of the routes of commits, as they are documented."""

from typing import NotRequired

from pydantic import JsonValue
from typing_extensions import TypedDict

from narthex_server.commits.quality_reports import CheckedDataset
from narthex_server.deploy.plan_report import PlanHash, PlanSummary
from narthex_server.services.value_diff_reports import DatasetDiff
from narthex_server.web.plain_routes import Id, Instant


class CommitPreview(TypedDict):
    """The effects of a commit that was not accepted.

    Attributes:
        plan: The plan as the ledger would store it; null if the token may not read all of it.
        summary: The report as lines for a person.
    """

    plan: JsonValue
    report: PlanSummary | PlanHash
    summary: list[str]


class AcceptedCommit(TypedDict):
    """A commit that was accepted for execution.

    Attributes:
        summary: The changes of the commit, as lines for a person.
        airflow_run_url: The address of its run in Airflow; null if it has none.
    """

    commit_id: Id
    state: str
    summary: list[str]
    airflow_run_url: str | None


class Commit(TypedDict):
    """A commit.

    Attributes:
        seq: The number of the commit on its branch; null before its commit point.
        promotion: Whether readers have switched to it; null before its commit point.
    """

    commit_id: Id
    parent_commit_id: Id | None
    branch: str
    kind: str
    state: str
    promotion: str | None
    message: str
    actor: str
    seq: int | None
    error: JsonValue
    accepted_at: Instant
    committed_at: Instant | None
    finished_at: Instant | None
    airflow_run_url: str | None


class CommitList(TypedDict):
    """Commits, newest first."""

    commits: list[Commit]


class Rejection(TypedDict):
    """A person's rejection of a commit, which was then reverted."""

    by: str
    at: Instant
    reason: str


class Approval(TypedDict):
    """Whether a person must still approve a commit, and who did so when.

    Attributes:
        rejected: Null if no person has rejected it.
        warnings: The expectations that the commit's rows break, one sentence per expectation.
        differences: What the commit changes in the values that readers read, one sentence per
            dataset.
    """

    needed: bool
    by: str | None
    at: Instant | None
    rejected: Rejection | None
    warnings: list[str]
    differences: list[str]


class CommitAsset(TypedDict):
    """An asset of a commit.

    Attributes:
        refs: How many pins retain the asset.
    """

    asset_id: int
    label: str
    kind: str
    state: str
    physical_name: str
    create_status: str
    attempt: int
    last_error: JsonValue
    refs: int


class CommitEvent(TypedDict):
    """A transition of a commit, or of one of its assets.

    Attributes:
        fence: The epoch of the executor that made it.
    """

    at: Instant
    transition: str
    asset_id: int | None
    actor: str
    fence: int | None


class CommitDetails(Commit):
    """A commit in full.

    Attributes:
        plan: The stored plan; null before it exists, or if the token may not read all of it.
        quality: The checks of new and changed datasets, as far as they are done.
        differences: What the commit changes in the values that readers read: `first` is what they
            read before, `second` the commit. It is computed if a person has to approve.
        waits_for: The causes of waiting, one sentence per cause.
    """

    plan: JsonValue
    approval: Approval
    quality: list[CheckedDataset]
    differences: list[DatasetDiff]
    assets: list[CommitAsset]
    events: list[CommitEvent]
    waits_for: list[str]


class PendingCommit(TypedDict):
    """A commit that has not ended, and what it waits for.

    Attributes:
        needs_approval: Whether a person must still approve it.
    """

    commit_id: Id
    branch: str
    kind: str
    state: str
    message: str
    actor: str
    accepted_at: Instant
    needs_approval: bool
    waits_for: list[str]


class PendingCommits(TypedDict):
    """Commits that have not ended, newest first."""

    commits: list[PendingCommit]


class ResultingState(TypedDict):
    """The state of a commit or of an asset after the call."""

    state: str


class UnreadyJob(TypedDict):
    """A job that has not caught up."""

    job: str
    phase: str
    lag_ms: NotRequired[int | None]
    why: NotRequired[str]
    error: NotRequired[str | None]


class CommitReadiness(TypedDict):
    """Whether all jobs of a commit have caught up.

    Attributes:
        ended: The state of a commit that will never be ready.
    """

    ready: bool
    ended: NotRequired[str]
    waiting_for: list[UnreadyJob]


class BackfilledDataset(TypedDict):
    """How far the backfill of a dataset of a commit is.

    Attributes:
        rows: The rows that its jobs have read.
        of: The rows that they have to read; null while that is not known.
        jobs: The jobs, by the first of their logical paths.
        error: Why the last run of one of them failed; null if none did.
    """

    dataset: str
    rows: int
    of: int | None
    done: bool
    jobs: list[str]
    error: str | None


class CommitBackfill(TypedDict):
    """The backfill of a commit, dataset by dataset; empty without one, or once it is over."""

    datasets: list[BackfilledDataset]


class AssetToCreate(TypedDict):
    """An asset that is not live yet."""

    asset_id: str
    label: str


class AssetsToCreate(TypedDict):
    """The assets that are not live yet, in the order of their creation."""

    assets: list[AssetToCreate]


class StepResult(TypedDict):
    """The result of a step.

    Attributes:
        jobs: The jobs to backfill; step `backfill` has it.
        branch: The branch of the commit; step `promote` has it.
        datasets: The datasets to backfill, in step `backfill`; in step `quality`, those whose
            history is to be checked; in step `promote`, those of which readers now read others.
        in_driver: Whether a driver that runs already carries out the backfill; step
            `backfill_in_driver` has it.
        state: The state of the commit; step `rollback` has it.
    """

    jobs: NotRequired[list[str]]
    branch: NotRequired[str]
    datasets: NotRequired[list[str]]
    in_driver: NotRequired[bool]
    state: NotRequired[str]


class QualityStep(TypedDict):
    """The check of a dataset.

    Attributes:
        checked: Null if the commit needs no check of the dataset any more.
    """

    checked: CheckedDataset | None


class CommitChanges(TypedDict):
    """The plan of a commit, and what it changes against its predecessor.

    Attributes:
        changes: Lines for a person.
    """

    plan: PlanSummary | None
    changes: list[str] | None


class Rollback(TypedDict):
    """A rollback.

    Attributes:
        seq: The number of the new commit on the branch.
        served: Whether readers have switched already.
        anew: Whether the definitions are deployed anew, because their assets no longer exist.
    """

    commit_id: Id
    seq: NotRequired[int]
    served: bool
    anew: bool


class Protection(TypedDict):
    """Whether a person must approve each promotion of a branch."""

    name: str
    protected: bool


class BranchStatus(TypedDict):
    """A branch.

    Attributes:
        head: The newest completed commit.
        serving: The commit that readers read.
        undelete_until: Until when a deleted branch can be restored.
    """

    name: str
    state: str
    is_main: bool
    is_protected: bool
    head: Id | None
    head_seq: int | None
    serving: Id | None
    serving_seq: int | None
    undelete_until: Instant | None


class BranchList(TypedDict):
    """Active branches, and deleted ones that can be restored."""

    branches: list[BranchStatus]
    deleted: list[BranchStatus]
