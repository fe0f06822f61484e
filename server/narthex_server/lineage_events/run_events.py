"""From an event of the ledger to events of OpenLineage: a pure function.

The same event of the ledger always makes the same events with the same run ids, so a receiver that
gets them twice sees the same run.
"""

import datetime as dt
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final
from uuid import UUID

import attrs
from openlineage.client.event_v2 import (
    InputDataset,
    Job,
    OutputDataset,
    Run,
    RunEvent,
    RunState,
)
from openlineage.client.facet_v2 import RunFacet, parent_run

from narthex._base import Json
from narthex._ir import (
    AssetKind,
    Dataset,
    DatasetPlan,
    FeedSpec,
    PipelineJobSpec,
    ResolvedAsset,
    Schema,
    SinkJobSpec,
    SourceJobSpec,
    Trigger,
)
from narthex_ledger import (
    AuditView,
    CommitKind,
    EventView,
    LineageCommit,
    PromotionState,
)
from narthex_server.lineage_events.dataset_names import DatasetName, LineageNames
from narthex_server.lineage_events.facets import (
    PRODUCER,
    assertion_facets,
    dataset_facets,
    error_facets,
    input_dataset,
    job_facets,
    output_dataset,
    reason_of,
)

_AT_ONCE: Final = frozenset(
    kind.value
    for kind in (
        CommitKind.INIT_BRANCH,
        CommitKind.CLONE,
        CommitKind.DELETE_BRANCH,
        CommitKind.UNDELETE_BRANCH,
    )
)
"""The kinds of commits that are complete when they are recorded."""

SHOWS_DATASETS: Final = frozenset({"promoted", *_AT_ONCE})
"""The transitions whose events list the datasets of the commit."""

TRANSITIONS: Final = frozenset(
    {
        *("QUEUED", "REJECTED", "ABORTING", "promoted", "FINALIZED"),
        *("live", "jobs_started", "destroying"),
        *("backfill_claimed", "backfilled", "backfill_failed"),
        "audited",
        CommitKind.ROLLBACK.value,
        *_AT_ONCE,
    }
)
"""The transitions that make events; all others make none."""


@attrs.frozen(kw_only=True)
class PhysicalJob:
    """A job of the engine, and the commit that created it.

    Attributes:
        path: Its first logical path in that commit, such as `job/Spend/pipeline/by_user`.
        branch: The branch of that commit. Other branches may share the job later.
    """

    asset: ResolvedAsset
    path: str
    commit_id: UUID
    branch: str
    commit_kind: str


@attrs.frozen(kw_only=True)
class Happening:
    """An event of the ledger with all that its lineage needs.

    Attributes:
        commit: The commit of the event; None if it has none.
        jobs: The jobs that it is about.
        plans: The datasets that the commit binds.
        topics: The physical names of their topics, by dataset.
        definitions: Their definitions, by name; those that cannot be read are left out.
        audit: The audit that it is about.
    """

    event: EventView
    commit: LineageCommit | None = None
    jobs: tuple[PhysicalJob, ...] = ()
    plans: tuple[DatasetPlan, ...] = ()
    topics: Mapping[str, str] = attrs.field(factory=dict)
    definitions: Mapping[str, Dataset] = attrs.field(factory=dict)
    audit: AuditView | None = None


@attrs.frozen(kw_only=True)
class HappeningEvents:
    """The events to send, in order, and the backfills that have begun and not ended after them."""

    events: tuple[RunEvent, ...] = ()
    backfills: Mapping[int, int]


def run_events(
    happening: Happening, names: LineageNames, backfills: Mapping[int, int]
) -> HappeningEvents:
    """Return the events of OpenLineage that an event of the ledger makes.

    Args:
        happening: The event of the ledger.
        names: The names of the installation.
        backfills: The epoch of each backfill that has begun and not ended, by the job's asset.
    """
    mapping = _Mapping(names=names, happening=happening)
    match happening.event.transition:
        case "backfill_claimed" | "backfilled" | "backfill_failed" | "destroying":
            return _with_backfills(mapping, backfills)
        case "live" | "jobs_started":
            return HappeningEvents(events=tuple(mapping.live_jobs()), backfills=backfills)
        case "audited":
            return HappeningEvents(events=tuple(mapping.audit()), backfills=backfills)
        case _:
            return HappeningEvents(events=tuple(mapping.commit()), backfills=backfills)


def _with_backfills(mapping: "_Mapping", backfills: Mapping[int, int]) -> HappeningEvents:
    """Return events of backfills: a new one ends the one before it, whose process has died."""
    event = mapping.happening.event
    open_now = dict(backfills)
    events: list[RunEvent] = []
    for job in mapping.happening.jobs:
        asset_id = job.asset.asset_id
        before = open_now.pop(asset_id, None)
        if before is not None and event.fence != before:
            events.append(mapping.backfill(job, before, RunState.ABORT))
        match event.transition:
            case "backfill_claimed" if event.fence is not None:
                open_now[asset_id] = event.fence
                events.append(mapping.backfill(job, event.fence, RunState.START))
            case "backfilled" if event.fence is not None:
                events.append(mapping.backfill(job, event.fence, RunState.COMPLETE))
            case "backfill_failed" if event.fence is not None:
                events.append(mapping.backfill(job, event.fence, RunState.FAIL))
            case _:
                events += mapping.live_jobs()
    return HappeningEvents(events=tuple(events), backfills=open_now)


@attrs.frozen(kw_only=True)
class _Mapping:
    """The events of one happening."""

    names: LineageNames
    happening: Happening

    def commit(self) -> Iterator[RunEvent]:
        """Yield the events of a commit: it ends when readers read it, or never will."""
        commit = self.happening.commit
        if commit is None:
            return
        match self.happening.event.transition:
            case "QUEUED":
                yield self._commit_event(commit, RunState.START)
            case "REJECTED" | "ABORTING":
                yield self._failed_commit(commit)
            case "promoted":
                yield self._commit_event(commit, RunState.COMPLETE)
            case "FINALIZED" if commit.promotion == PromotionState.SUPERSEDED.value:
                why = "It was rolled back, or replaced by a later commit, before readers read it."
                yield self._commit_event(commit, RunState.FAIL, error=why)
            case kind if kind in _AT_ONCE or kind == CommitKind.ROLLBACK.value:
                yield self._commit_event(commit, RunState.START)
                # A rollback to something is complete once readers read it.
                if kind in _AT_ONCE or commit.promotion is None:
                    yield self._commit_event(commit, RunState.COMPLETE)
            case _:
                return

    def _failed_commit(self, commit: LineageCommit) -> RunEvent:
        if commit.is_cancelled:
            return self._commit_event(commit, RunState.ABORT, error="A person cancelled it.")
        reason = reason_of(commit.error)
        what = f"It failed: `{reason}`." if reason else "It failed."
        page = f"console/commits/{commit.commit_id}"
        return self._commit_event(commit, RunState.FAIL, error=f"{what} `{page}` shows why.")

    def _commit_event(self, commit: LineageCommit, state: RunState, *, error: str = "") -> RunEvent:
        is_complete = state is RunState.COMPLETE
        shown = is_complete and commit.kind != CommitKind.DELETE_BRANCH.value
        return self._event(
            state,
            job=_commit_job(commit.branch, commit.kind),
            job_type="COMMIT",
            run_id=self._run_id("commit", commit.commit_id),
            run_facets=error_facets(error) if error else {},
            outputs=[*self._commit_outputs(commit.branch)] if shown else [],
        )

    def _commit_outputs(self, branch: str) -> Iterator[OutputDataset]:
        for plan in self.happening.plans:
            topic = self.happening.topics.get(plan.name)
            facets = dataset_facets(
                plan.schema,
                topic=None if topic is None else self.names.topic(topic),
                definition=self.happening.definitions.get(plan.name),
            )
            yield output_dataset(self.names.dataset(branch, plan.name), facets)

    def live_jobs(self) -> Iterator[RunEvent]:
        """Yield the events of jobs that run until they are retired."""
        event = self.happening.event
        for job in self.happening.jobs:
            if not is_live(job.asset):
                continue
            match event.transition, event.detail:
                case "live", {"resurrected": True}:
                    continue
                case "live", _:
                    state = RunState.START
                case "jobs_started", _:
                    state = RunState.RUNNING
                case _:
                    state = RunState.ABORT
            yield self._event(
                state,
                job=job_name(job),
                job_type=_job_type(job.asset),
                is_live=True,
                run_id=self._run_id("job", job.asset.asset_id, job.asset.physical_name),
                run_facets=self._parent(job.branch, job.commit_kind, job.commit_id),
                inputs=[*self._job_inputs(job)],
                outputs=[*self._job_outputs(job)],
            )

    def backfill(self, job: PhysicalJob, epoch: int, state: RunState) -> RunEvent:
        """Return an event of the bounded run of a job."""
        event, commit = self.happening.event, self.happening.commit
        facets = (
            self._parent(job.branch, job.commit_kind, job.commit_id)
            if commit is None
            else self._parent(commit.branch, commit.kind, commit.commit_id)
        )
        if state is RunState.FAIL:
            facets |= error_facets("The run failed; the platform repeats it.")
        rows = _rows_of(event.detail) if state is RunState.COMPLETE else None
        return self._event(
            state,
            job=f"{job_name(job)}.backfill",
            job_type="BACKFILL",
            run_id=self._run_id("backfill", job.asset.asset_id, job.asset.physical_name, epoch),
            run_facets=facets,
            inputs=[*self._job_inputs(job)],
            outputs=[*self._job_outputs(job, rows=rows)],
        )

    def audit(self) -> Iterator[RunEvent]:
        """Yield the events of an audit, or of a quality gate of a commit: they are over."""
        audit, commit = self.happening.audit, self.happening.commit
        if audit is None or not audit.branch:
            return
        facets = (
            {} if commit is None else self._parent(commit.branch, commit.kind, commit.commit_id)
        )
        kind = "audit" if audit.commit_id is None else "gate"
        checked = input_dataset(
            self.names.dataset(audit.branch, audit.dataset),
            checks=assertion_facets(audit.result),
        )
        for state in (RunState.START, RunState.COMPLETE):
            yield self._event(
                state,
                job=f"{audit.branch}.{audit.dataset}.{kind}",
                job_type=kind.upper(),
                run_id=self._run_id("audit", audit.audit_id),
                run_facets=facets,
                inputs=[checked],
            )

    def _job_inputs(self, job: PhysicalJob) -> Iterator[InputDataset]:
        match job.asset.spec:
            case SourceJobSpec(source=source):
                topic = self._topic(job.asset, "input")
                name = self.names.connector(source.connector)
                yield input_dataset(name, dataset_facets(topic=topic))
            case PipelineJobSpec(inputs=inputs):
                for one in inputs:
                    yield self._input(job, one.dataset, one.schema, f"input:{one.dataset}")
            case SinkJobSpec(dataset=dataset, schema=schema):
                yield self._input(job, dataset, schema, f"input:{dataset}")
            case FeedSpec(dataset=dataset):
                yield self._input(job, dataset, None, "log")
            case _:
                return

    def _input(
        self, job: PhysicalJob, dataset: str, schema: Schema | None, role: str
    ) -> InputDataset:
        return input_dataset(
            self.names.dataset(job.branch, dataset),
            dataset_facets(schema, topic=self._topic(job.asset, role)),
        )

    def _job_outputs(self, job: PhysicalJob, *, rows: int | None = None) -> Iterator[OutputDataset]:
        match job.asset.spec:
            case (
                SourceJobSpec(dataset=dataset, schema=schema)
                | PipelineJobSpec(dataset=dataset, schema=schema)
            ):
                facets = dataset_facets(schema, topic=self._topic(job.asset, "output"))
                yield output_dataset(self.names.dataset(job.branch, dataset), facets, rows=rows)
            case SinkJobSpec(sink=sink):
                yield output_dataset(self.names.connector(sink.target), rows=rows)
            case FeedSpec():
                yield from map(output_dataset, self._fed(job.asset))
            case _:
                return

    def _fed(self, feed: ResolvedAsset) -> Iterator[DatasetName]:
        for need in feed.needs:
            if need.kind is AssetKind.HISTORY:
                yield self.names.history(need.physical_name)
            elif need.kind is AssetKind.INDEX:
                yield self.names.own(f"index/{need.physical_name}")

    def _topic(self, asset: ResolvedAsset, role: str) -> DatasetName | None:
        """Return the topic that a job needs in a role; None if it needs none."""
        for need in asset.needs:
            if need.role == role and need.kind is AssetKind.KAFKA_TOPIC:
                return self.names.topic(need.physical_name)
        return None

    def _parent(self, branch: str, kind: str, commit_id: UUID) -> dict[str, RunFacet]:
        facet = parent_run.ParentRunFacet(
            run=parent_run.Run(runId=self._run_id("commit", commit_id)),
            job=parent_run.Job(namespace=self.names.namespace, name=_commit_job(branch, kind)),
            producer=PRODUCER,
        )
        return {"parent": facet}

    def _run_id(self, *parts: object) -> str:
        """Return the id of a run: the same for the same parts in the same installation."""
        path = "/".join(map(str, parts))
        return str(uuid.uuid5(uuid.NAMESPACE_URL, f"narthex://{self.names.install_id}/{path}"))

    def _event(  # noqa: PLR0913 - an event has these parts
        self,
        state: RunState,
        *,
        job: str,
        job_type: str,
        run_id: str,
        is_live: bool = False,
        run_facets: Mapping[str, RunFacet] | None = None,
        inputs: Sequence[InputDataset] = (),
        outputs: Sequence[OutputDataset] = (),
    ) -> RunEvent:
        return RunEvent(
            eventTime=self.happening.event.at.astimezone(dt.UTC).isoformat(),
            eventType=state,
            producer=PRODUCER,
            run=Run(runId=run_id, facets=dict(run_facets or {})),
            job=Job(
                namespace=self.names.namespace,
                name=job,
                facets=job_facets(job_type, is_live=is_live),
            ),
            inputs=[*inputs],
            outputs=[*outputs],
        )


def is_live(asset: ResolvedAsset) -> bool:
    """Whether an asset is a job that runs until it is retired; others only run in backfills."""
    match asset.spec:
        case SourceJobSpec(trigger=trigger) | PipelineJobSpec(trigger=trigger):
            return trigger is not Trigger.BOUNDED
        case SinkJobSpec() | FeedSpec():
            return True
        case _:
            return False


def job_name(job: PhysicalJob) -> str:
    """Return the name of a job: its first branch and its path, as `main.Spend.pipeline.by_user`."""
    _, _, place = job.path.partition("/")
    return f"{job.branch}.{place.replace('/', '.')}"


def _rows_of(detail: Json) -> int | None:
    match detail:
        case {"rows": int(rows)}:
            return rows
        case _:
            return None


def _job_type(asset: ResolvedAsset) -> str:
    match asset.spec:
        case SourceJobSpec():
            return "SOURCE"
        case PipelineJobSpec():
            return "PIPELINE"
        case SinkJobSpec():
            return "SINK"
        case _:
            return asset.kind.value.upper()


def _commit_job(branch: str, kind: str) -> str:
    is_commit = kind == CommitKind.DEPLOY.value
    return f"{branch}.{'commit' if is_commit else kind}"


def topics_of(paths: Iterable[tuple[str, ResolvedAsset]]) -> dict[str, str]:
    """Return the topics of datasets, by dataset, from what a manifest binds."""
    found: dict[str, str] = {}
    for path, asset in paths:
        match path.split("/"):
            case ["dataset", dataset, "log"] if asset.kind is AssetKind.KAFKA_TOPIC:
                found[dataset] = asset.physical_name
            case _:
                pass
    return found
