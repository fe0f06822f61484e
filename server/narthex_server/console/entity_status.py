"""The status of the entities of a branch, from the phases of their jobs and their alerts."""

import enum
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import attrs

from narthex._ir import FeedSpec, PipelineJobSpec, ResolvedAsset, SinkJobSpec, SourceJobSpec
from narthex_ledger import JOB_KINDS, Desired, Phase
from narthex_server.alerts.responses import Alert
from narthex_server.console.lineage_graph import FEATURE, EntityNode, Graph, featureset_of
from narthex_server.definitions.job_labels import job_label
from narthex_server.operations.job_status import Job

DATASET: Final = "dataset"


class StatusKind(enum.StrEnum):
    """The status of an entity; the later ones are worse."""

    HEALTHY = "healthy"
    BEHIND = "behind"
    PAUSED = "paused"
    BLOCKED = "blocked"
    FAILING = "failing"


ORDER: Final = tuple(StatusKind)
SYMBOLS: Final[Mapping[str, str]] = {
    StatusKind.HEALTHY: "✓",
    StatusKind.BEHIND: "◷",
    StatusKind.PAUSED: "‖",
    StatusKind.BLOCKED: "⚠",
    StatusKind.FAILING: "✕",
}
MEANINGS: Final[Mapping[str, str]] = {
    StatusKind.HEALTHY: "its jobs are caught up, and no alert about it fires",
    StatusKind.BEHIND: "a job has rows to read or to backfill, or a bound on freshness is broken",
    StatusKind.PAUSED: "a job is paused",
    StatusKind.BLOCKED: "an alert about quality fires: expectations, quarantined rows or drift",
    StatusKind.FAILING: "a job has failed or does not report",
}

_OF_RULES: Final[Mapping[str, StatusKind]] = {
    "broken_expectation": StatusKind.BLOCKED,
    "quarantine_rate": StatusKind.BLOCKED,
    "drift": StatusKind.BLOCKED,
    "freshness": StatusKind.BEHIND,
    "lag": StatusKind.BEHIND,
    "job_down": StatusKind.FAILING,
}
_MOST_LETTERS: Final = 300


@attrs.frozen(kw_only=True)
class EntityStatus:
    """A status with the reason for it; the reason is empty for a healthy entity."""

    status: StatusKind
    reason: str = ""

    @property
    def symbol(self) -> str:
        """The symbol beside the colour."""
        return SYMBOLS[self.status]


HEALTHY: Final = EntityStatus(status=StatusKind.HEALTHY)


def worst(found: Iterable[EntityStatus]) -> EntityStatus:
    """Return the first of the worst statuses; healthy without any."""
    return max(found, key=lambda one: ORDER.index(one.status), default=HEALTHY)


def entity_statuses(
    graph: Graph,
    *,
    bindings: Mapping[str, ResolvedAsset],
    jobs: Iterable[Job],
    alerts: Iterable[Alert],
) -> dict[EntityNode, EntityStatus]:
    """Return the statuses of the nodes of a graph of features, and of their featuresets.

    A source has the status of the jobs that read it, and none without jobs. A feature has the
    worst one of its own alerts and of what it is computed from, up to datasets.

    Args:
        graph: The lineage of a branch.
        bindings: The assets of the branch, by their logical paths.
        jobs: The jobs; those of other branches are left out.
        alerts: The alerts of the branch.
    """
    assets = {one.asset_id: one for one in bindings.values() if one.kind in JOB_KINDS}
    found = [
        *(
            (node, status_of_job(job))
            for job in jobs
            if job["asset_id"] in assets
            for node in _entities_of(assets[job["asset_id"]])
        ),
        *_of_alerts(alerts, {job_label(asset): asset for asset in assets.values()}),
    ]
    own: dict[EntityNode, EntityStatus] = {}
    for node, status in found:
        own[node] = worst([own.get(node, HEALTHY), status])
    shown = {node: status for node, status in own.items() if node[0] != FEATURE}
    shown |= {node: own.get(node, HEALTHY) for node in graph.nodes if node[0] == DATASET}
    features = [node for node in graph.nodes if node[0] == FEATURE]
    for node in features:
        _inherit(graph, node, shown, own)
    for node in features:
        united = featureset_of(node)
        shown[united] = worst([shown.get(united, HEALTHY), shown[node]])
    return shown


def _of_alerts(
    alerts: Iterable[Alert], labels: Mapping[str, ResolvedAsset]
) -> Iterator[tuple[EntityNode, EntityStatus]]:
    for alert in alerts:
        if alert["rule"] in _OF_RULES:
            status = EntityStatus(status=_OF_RULES[alert["rule"]], reason=alert["summary"])
            yield from ((node, status) for node in _subjects(alert["subject"], labels))


def status_of_job(job: Job) -> EntityStatus:
    """Return the status that a job gives to its dataset."""
    error, phase = job["error"], job["phase"]
    if phase == Phase.FAILED or error:
        reason = f"{job['label']} ({job['kind']}): {error or 'has failed'}"
        return EntityStatus(status=StatusKind.FAILING, reason=reason[:_MOST_LETTERS])
    if job["desired"] == Desired.PAUSED or phase == Phase.PAUSED:
        reason = f"{job['label']} ({job['kind']}) is paused"
        return EntityStatus(status=StatusKind.PAUSED, reason=reason)
    if job["desired"] == Desired.STOPPED or phase == Phase.CAUGHT_UP:
        return HEALTHY
    behind = job["behind"]
    rest = f", {behind:,} rows behind" if isinstance(behind, int) and behind else ""
    reason = f"{job['label']} ({job['kind']}) is {phase}{rest}"
    return EntityStatus(status=StatusKind.BEHIND, reason=reason)


def _entities_of(asset: ResolvedAsset) -> tuple[EntityNode, ...]:
    match asset.spec:
        case SourceJobSpec() as spec:
            return (DATASET, spec.dataset), ("source", spec.source_id)
        case PipelineJobSpec() | SinkJobSpec() | FeedSpec() as spec:
            return ((DATASET, spec.dataset),)
        case _:
            return ()


def _subjects(subject: str, labels: Mapping[str, ResolvedAsset]) -> tuple[EntityNode, ...]:
    """Return the nodes that the subject of an alert can name: a job, or an entity."""
    if subject in labels:
        return _entities_of(labels[subject])
    return (DATASET, subject), ("featureset", subject), (FEATURE, subject)


def _inherit(
    graph: Graph,
    feature: EntityNode,
    shown: dict[EntityNode, EntityStatus],
    own: Mapping[EntityNode, EntityStatus],
) -> None:
    """Set the status of a feature, after those of the features that it is computed from."""
    left = [feature]
    while left:
        node = left[-1]
        inputs = graph.before[node]
        waits = [
            one for one in inputs if one[0] == FEATURE and one not in shown and one not in left
        ]
        if waits:
            left += waits
            continue
        left.pop()
        found = [own.get(node, HEALTHY), own.get(featureset_of(node), HEALTHY)]
        shown[node] = worst([*found, *(shown.get(one, HEALTHY) for one in inputs)])
