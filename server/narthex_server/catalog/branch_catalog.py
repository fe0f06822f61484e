"""Routes that list what a branch serves: datasets, featuresets, jobs, audits."""

import datetime as dt
import os
import uuid
from collections.abc import Container, Iterable, Sequence
from typing import Annotated, TypeAlias

import attrs
from fastapi import APIRouter
from pydantic import BaseModel, Field, JsonValue

from narthex._base import FIRST_INSTANT, LAST_INSTANT, Json, render_instant, to_plain
from narthex._ir import (
    AliasExtractor,
    AssetKind,
    CodeExtractor,
    Dataset,
    ExpressionExtractor,
    Featureset,
    FeedSpec,
    HistorySpec,
    LookupExtractor,
    type_name,
)
from narthex_ledger import AuditView, JobView, Ledger
from narthex_server.catalog.named_entities import featureset_named
from narthex_server.catalog.responses import (
    Datasets,
    DatasetStorage,
    DeployedDataset,
    DeployedFeatureset,
    FeaturesetDefinition,
    Featuresets,
    JobList,
    QualityAudit,
    QualityAudits,
    StoredAudit,
)
from narthex_server.errors import Missing
from narthex_server.operations.job_status import job_rows
from narthex_server.security.dataset_access import Access
from narthex_server.security.request_access import AccessDep
from narthex_server.security.route_rights import Right, requires
from narthex_server.security.visibility import Visibility
from narthex_server.services.branch_snapshots import BranchSnapshot
from narthex_server.services.container import (
    LedgerDep,
    Services,
    ServicesDep,
    SettingsDep,
    SnapshotsDep,
)
from narthex_server.services.record_counts import RecordCounts
from narthex_server.web.plain_routes import Number, PlainRoute
from narthex_stores import (
    HistoryTable,
    alive,
    history_path,
    public,
    storage_options,
)

router = APIRouter(route_class=PlainRoute)
READ = requires(Right.READ_DEFINITIONS)

GREATEST_INSPECTED = 1000

Micros: TypeAlias = Annotated[int, Field(ge=FIRST_INSTANT, le=LAST_INSTANT)]
"""An instant in microseconds that has a date."""


class AuditUpload(BaseModel):
    """The result of an audit of rows against the expectations about them.

    Attributes:
        dataset: The name of the dataset, or of the featureset.
        is_critical: Whether a critical expectation is broken.
    """

    dataset: str
    from_us: Micros | None
    to_us: Micros | None
    success: bool
    is_critical: bool = False
    result: dict[str, object]


@router.get("/datasets", dependencies=[READ])
def datasets(services: ServicesDep, access: AccessDep) -> Datasets:
    """List the deployed datasets, with their counts of rows and of quarantined rows.

    Both counts are null while the broker does not report them.
    """
    snapshot = services.snapshots.serving(access.branch)
    return {
        "datasets": deployed_datasets(
            services,
            snapshot,
            access.visibility(snapshot.definitions),
        )
    }


def deployed_datasets(
    services: Services,
    snapshot: BranchSnapshot,
    visibility: Visibility,
    *,
    only: Container[str] | None = None,
) -> list[DeployedDataset]:
    """Return the visible datasets of a snapshot, or those of them that have one of some names.

    Args:
        services: The shared objects of this process.
        snapshot: What readers of the branch read.
        visibility: What the caller sees of it.
        only: The names of the datasets that are wanted; by default, all are.
    """
    shown = [
        dataset
        for dataset in visibility.shown(snapshot.definitions).datasets
        if only is None or dataset.name in only
    ]
    counts = _log_counts(services.record_counts, snapshot, shown)
    progress = _event_progress(services.ledger, snapshot, shown)
    return [
        _dataset(snapshot, dataset, counts, progress.get(dataset.name, _EventProgress()))
        for dataset in shown
    ]


@attrs.frozen(kw_only=True)
class _EventProgress:
    """The newest event time in a dataset's history, and its watermark; microseconds, if known."""

    newest_us: int | None = None
    watermark_us: int | None = None


def _event_progress(
    ledger: Ledger, snapshot: BranchSnapshot, datasets: Iterable[Dataset]
) -> dict[str, _EventProgress]:
    """Return the progress of event time in each of the datasets that has a history."""
    names = {dataset.name for dataset in datasets}
    feeds = {
        asset.asset_id: asset.spec.dataset
        for asset in snapshot.assets(AssetKind.HISTORY_FEED).values()
        if isinstance(asset.spec, FeedSpec) and asset.spec.dataset in names
    }
    progress = ledger.jobs.progress(feeds)
    watermarks = ledger.watermarks.by_feed()
    found: dict[str, _EventProgress] = {}
    for feed, name in feeds.items():
        newest = progress.get(feed, {}).get("newest_event_time")
        found[name] = _EventProgress(
            newest_us=newest if isinstance(newest, int) else None,
            watermark_us=watermarks.get(feed),
        )
    return found


def _instant_or_null(instant_us: int | None) -> str | None:
    return None if instant_us is None else render_instant(instant_us)


def _dataset(
    snapshot: BranchSnapshot, dataset: Dataset, counts: dict[str, int], progress: _EventProgress
) -> DeployedDataset:
    schema = dataset.schema
    return {
        "name": dataset.name,
        "version": dataset.version,
        "keys": [column.name for column in schema.keys],
        "columns": [{"name": f.name, "type": type_name(f.type)} for f in schema.fields],
        "timestamp": schema.timestamp,
        "rows": counts.get(f"dataset/{dataset.name}/log"),
        "quarantined": counts.get(f"dataset/{dataset.name}/quarantine"),
        "expectations": len(dataset.expectations),
        "owner": dataset.metadata.owner,
        "description": dataset.metadata.description,
        "online": snapshot.plans[dataset.name].online,
        "partitions": dataset.log_partitions,
        "newest_event": _instant_or_null(progress.newest_us),
        "watermark": _instant_or_null(progress.watermark_us),
    }


def _log_counts(
    record_counts: RecordCounts, snapshot: BranchSnapshot, datasets: Iterable[Dataset]
) -> dict[str, int]:
    """Return how many records the logs and the quarantines of datasets got, by logical path."""
    paths = [
        f"dataset/{dataset.name}/{part}" for dataset in datasets for part in ("log", "quarantine")
    ]
    wanted = {path: snapshot.topic(path) for path in paths if path in snapshot.bindings}
    counts = record_counts.of(wanted.values())
    return {path: counts[topic] for path, topic in wanted.items() if topic in counts}


@router.get("/datasets/{name}", dependencies=[READ])
def dataset_of(name: str, snapshots: SnapshotsDep, access: AccessDep) -> DatasetStorage:
    """Return how one dataset is stored, which is what an audit needs."""
    snapshot = snapshots.serving(access.branch)
    access.require_dataset(snapshot, name)
    plan = snapshot.dataset(name)
    return {
        "plan": to_plain(plan),
        "history": _history(snapshot, name),
        "topic": snapshot.topic(f"dataset/{name}/log"),
    }


def _history(snapshot: BranchSnapshot, name: str) -> str:
    asset = snapshot.bindings.get(f"dataset/{name}/history")
    if asset is None:
        raise Missing(f"`{name}` has no history")
    return asset.physical_name


@router.get("/dataset/{name}/inspect", dependencies=[requires(Right.READ_DATA)])
def inspect(
    name: str, snapshots: SnapshotsDep, settings: SettingsDep, access: AccessDep, n: Number = 10
) -> list[dict[str, JsonValue]]:
    """Return the newest rows of a dataset's history, by event time."""
    snapshot = snapshots.serving(access.branch)
    access.require_dataset(snapshot, name)
    plan = snapshot.dataset(name)
    table = HistoryTable(
        history_path(settings.history_dir, _history(snapshot, name)),
        HistorySpec(log=plan.log),
        storage=storage_options(os.environ),
    )
    rows = public(plan.log, alive(table.scan()))
    newest = rows.sort_by([(plan.log.time_field, "descending")]).slice(
        0, min(n, GREATEST_INSPECTED)
    )
    return [{k: _shown(v) for k, v in row.items()} for row in newest.to_pylist()]


def _shown(value: object) -> Json:
    match value:
        case dt.datetime() | dt.date():
            return value.isoformat()
        case bool() | int() | float() | str() | None:
            return value
        case list():
            return [_shown(item) for item in value]
        case dict():
            return {str(name): _shown(item) for name, item in value.items()}
        case _:
            return str(value)


@router.get("/featuresets", dependencies=[READ])
def featuresets(snapshots: SnapshotsDep, access: AccessDep) -> Featuresets:
    """List the deployed featuresets, and where each feature comes from."""
    snapshot = snapshots.serving(access.branch)
    shown = access.shown(snapshot.definitions)
    return {"featuresets": [_featureset(f) for f in shown.featuresets]}


@router.get("/featuresets/{name}", dependencies=[READ])
def featureset_of(name: str, snapshots: SnapshotsDep, access: AccessDep) -> FeaturesetDefinition:
    """Return the features and the expectations of one featureset, which is what an audit needs."""
    snapshot = snapshots.serving(access.branch)
    shown = access.shown(snapshot.definitions)
    # Extractors name the datasets and the features that they read, hidden ones too.
    public_part = attrs.evolve(featureset_named(shown, name), extractors=())
    return {"definition": to_plain(public_part)}


def _featureset(featureset: Featureset) -> DeployedFeatureset:
    return {
        "name": featureset.name,
        "owner": featureset.metadata.owner,
        "description": featureset.metadata.description,
        "expectations": len(featureset.expectations),
        "features": [
            {
                "name": feature.name,
                "type": type_name(feature.type),
                "from": _origin_of(featureset, feature.name),
                "description": feature.metadata.description,
            }
            for feature in featureset.features
        ],
    }


def _origin_of(featureset: Featureset, feature: str) -> str:
    for extractor in featureset.extractors:
        match extractor:
            case LookupExtractor(feature=name) if name == feature:
                return f"{extractor.dataset}.{extractor.column}"
            case AliasExtractor(feature=name) if name == feature:
                return extractor.source
            case ExpressionExtractor(feature=name) if name == feature:
                return "expression"
            case CodeExtractor(outputs=names) if feature in names:
                return f"{extractor.name}()"
            case _:
                continue
    return "given"


@router.get("/jobs", dependencies=[READ])
def jobs(ledger: LedgerDep, access: AccessDep) -> JobList:
    """List all jobs and feeds of the principal's branches, with phase, lag and freshness."""
    views = visible_jobs(ledger.jobs.shown(), access)
    return {"jobs": job_rows(views, ledger.watermarks.by_feed())}


def assets_of_branch(access: Access) -> frozenset[int]:
    """Return the assets that readers of the branch need, and those of its newest commit.

    Raises:
        Missing: There is no such branch.
    """
    deployed = access.snapshots.deployed(access.branch)
    if deployed is None:
        return frozenset()
    snapshots = (deployed, access.snapshots.serving_or_head(access.branch))
    return frozenset(asset.asset_id for one in snapshots for asset in one.bindings.values())


def visible_jobs(jobs: Sequence[JobView], access: Access) -> Sequence[JobView]:
    """Return those of the jobs that the principal sees."""
    visible = access.visible_assets()
    return jobs if visible is None else [job for job in jobs if job.asset.asset_id in visible]


@router.get("/audits", dependencies=[READ])
def audits(
    ledger: LedgerDep,
    access: AccessDep,
    limit: Number = 100,
    dataset: str | None = None,
    this_branch: bool = False,
) -> QualityAudits:
    """List the newest quality audits of the principal's branches, optionally of one dataset.

    With `this_branch`, list those of the request's branch.
    """
    branches = [access.branch] if this_branch else access.branches
    found = ledger.audits.newest(limit=limit, branches=branches, dataset=dataset)
    return {
        "audits": [
            plain_audit(audit) for audit in found if access.sees_entity(audit.branch, audit.dataset)
        ]
    }


def plain_audit(audit: AuditView) -> QualityAudit:
    """Return an audit as responses have it."""
    return {
        "branch": audit.branch,
        "dataset": audit.dataset,
        "success": audit.success,
        "is_critical": audit.is_critical,
        "commit_id": str(audit.commit_id) if audit.commit_id else None,
        "from": render_instant(audit.from_us) if audit.from_us is not None else None,
        "to": render_instant(audit.to_us) if audit.to_us is not None else None,
        "at": audit.at.isoformat() if audit.at else None,
        "by": _part(audit.result, "by"),
        "rows": _part(audit.result, "rows"),
        "failed": _part(audit.result, "failed"),
        "result": audit.result,
    }


def _part(result: Json, name: str) -> Json:
    return result.get(name) if isinstance(result, dict) else None


@router.post("/audits", dependencies=[requires(Right.STEP)])
def keep_audit(audit: AuditUpload, ledger: LedgerDep, access: AccessDep) -> StoredAudit:
    """Store the result of an audit of a dataset or featureset of the branch in the header."""
    audit_id = uuid.uuid4()  # noqa: TID251 - the edge gives the id
    ledger.audits.record(
        AuditView(
            audit_id=audit_id,
            dataset=audit.dataset,
            branch=access.branch,
            from_us=audit.from_us,
            to_us=audit.to_us,
            success=audit.success,
            is_critical=audit.is_critical,
            result=_shown(audit.result),
        )
    )
    return {"audit_id": str(audit_id)}
