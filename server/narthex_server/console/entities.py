"""The values of a page about one dataset or featureset, from the answers of the API."""

from collections.abc import Iterable, Sequence

from narthex._definition_code import feature_code
from narthex._ir import (
    FeedSpec,
    PipelineJobSpec,
    ResolvedAsset,
    SinkJobSpec,
    SourceJobSpec,
    type_name,
)
from narthex_ledger import JobView
from narthex_server.catalog import (
    branch_catalog,
    connectors,
    definition_code,
    entity_commits,
    lineage,
)
from narthex_server.catalog.responses import DeployedDataset, DeployedFeatureset, QualityAudit
from narthex_server.console.data_docs import may_see_data_docs, suite_page
from narthex_server.console.lineage_graph import FEATURE, EntityNode, path_of, read
from narthex_server.definitions.job_labels import connector_of
from narthex_server.errors import Missing
from narthex_server.operations.job_status import Job, job_rows
from narthex_server.security.dataset_access import Access
from narthex_server.services.branch_snapshots import BranchSnapshot
from narthex_server.services.container import Services

AUDITS = 10
"""How many audits a page shows."""


def dataset_values(services: Services, access: Access, name: str) -> dict[str, object]:
    """Return the values of the page of a dataset.

    Raises:
        Missing: The branch has no dataset of this name, or its readers do not read it yet.
    """
    snapshot = services.snapshots.serving(access.branch)
    (properties,) = lineage.xray(services.snapshots, access, datasets=name)["datasets"]
    jobs = services.ledger.jobs.shown()
    deployed = _deployed(services, access, snapshot, name)
    graph = read(lineage.lineage(services.snapshots, access))
    here = ("dataset", name)
    return {
        "dataset": {**deployed, **properties},
        "inputs": _in_order(graph.before.get(here, [])),
        "used_by": _in_order(graph.after.get(here, [])),
        "sinks": _sinks(snapshot, name),
        "written": definition_code.dataset_code_of(name, services.snapshots, access),
        "assets": _assets(snapshot, name),
        "jobs": _jobs(services, access, snapshot, jobs, name),
        "audits": _audits(services, access, name),
        "data_docs": _data_docs(services, access, f"{name}@{deployed['version']}"),
        "recent": entity_commits.commits_of_dataset(
            name, services.snapshots, access, services.entity_changes
        ),
    }


def featureset_values(services: Services, access: Access, name: str) -> dict[str, object]:
    """Return the values of the page of a featureset.

    Raises:
        Missing: The branch has no featureset of this name, or its readers do not read it yet.
    """
    (properties,) = lineage.xray(services.snapshots, access, featuresets=name)["featuresets"]
    deployed = _featureset(services, access, name)
    graph = read(lineage.lineage(services.snapshots, access))
    own = {node for node in graph.nodes if node[0] == "feature" and _owner(node) == name}
    inputs = [other for node in own for other in graph.before[node] if other not in own]
    used_by = [other for node in own for other in graph.after[node] if other not in own]
    return {
        "featureset": {**properties, **deployed},
        "inputs": _in_order(inputs),
        "used_by": _in_order(used_by),
        "written": definition_code.featureset_code_of(name, services.snapshots, access),
        "audits": _audits(services, access, name),
        "data_docs": _data_docs(services, access, name),
        "recent": entity_commits.commits_of_featureset(
            name, services.snapshots, access, services.entity_changes
        ),
    }


def feature_values(
    services: Services, access: Access, featureset: str, name: str
) -> dict[str, object]:
    """Return the values of the page of a feature.

    Raises:
        Missing: The branch has no feature of this name, or its readers do not read it yet.
    """
    snapshot = services.snapshots.serving(access.branch)
    shown, hidden = definition_code.visible_featureset(snapshot.definitions, access, featureset)
    found = [one for one in shown.features if one.name == name]
    if not found:
        raise Missing(f"Feature `{featureset}.{name}` not found")
    graph = read(lineage.lineage(services.snapshots, access))
    here = (FEATURE, f"{featureset}.{name}")
    above = path_of(graph, here[1], has_users=False)
    visibility = access.visibility(snapshot.definitions)
    return {
        "featureset": featureset,
        "feature": found[0],
        "type": type_name(found[0].type),
        "inputs": _in_order(graph.before.get(here, [])),
        "used_by": _in_order(graph.after.get(here, [])),
        "datasets": branch_catalog.deployed_datasets(
            services,
            snapshot,
            visibility,
            only={of for kind, of in above if kind == "dataset"},
        ),
        "written": {"code": feature_code(shown, name), "is_complete": not hidden},
    }


def jobs_of_branch(access: Access, jobs: Iterable[Job]) -> list[Job]:
    """Return the jobs of a branch: those that its readers need, and those of its newest commit.

    Raises:
        Missing: There is no such branch.
    """
    bound = branch_catalog.assets_of_branch(access)
    return [job for job in jobs if job["asset_id"] in bound]


def job_values(services: Services, access: Access, job: JobView) -> dict[str, object]:
    """Return the values of the page of a job or a feed: its state, what it reads, what it writes.

    An entity that the branch does not have, or the principal does not see, is left out.
    """
    (row,) = job_rows([job], services.ledger.watermarks.by_feed())
    reads, writes = _flow_of(job.asset)
    deployed = access.snapshots.deployed(access.branch)
    if deployed is None:
        return {"job": row, "reads": [], "writes": []}
    shown = access.visibility(deployed.definitions).shown(deployed.definitions).datasets
    known = {
        *(("dataset", one.name) for one in shown),
        *(("source", one["name"]) for one in connectors.deployed_sources(shown)),
        *(("sink", one["name"]) for one in connectors.deployed_sinks(shown)),
    }
    return {
        "job": row,
        "reads": [one for one in reads if one in known],
        "writes": [one for one in writes if one in known],
    }


def _flow_of(asset: ResolvedAsset) -> tuple[list[EntityNode], list[EntityNode]]:
    """Return what a job reads and what it writes; a feed writes no entity."""
    connector = connector_of(asset)
    match asset.spec:
        case SourceJobSpec() as spec:
            return [("source", str(connector))], [("dataset", spec.dataset)]
        case SinkJobSpec() as spec:
            return [("dataset", spec.dataset)], [("sink", str(connector))]
        case PipelineJobSpec() as spec:
            inputs = [("dataset", one.dataset) for one in spec.inputs]
            return inputs, [("dataset", spec.dataset)]
        case FeedSpec() as spec:
            return [("dataset", spec.dataset)], []
        case _:
            return [], []


def _deployed(
    services: Services,
    access: Access,
    snapshot: BranchSnapshot,
    name: str,
) -> DeployedDataset:
    visibility = access.visibility(snapshot.definitions)
    for one in branch_catalog.deployed_datasets(services, snapshot, visibility, only={name}):
        return one
    raise Missing(f"no commit that readers read has the dataset `{name}`")


def _featureset(services: Services, access: Access, name: str) -> DeployedFeatureset:
    for one in branch_catalog.featuresets(services.snapshots, access)["featuresets"]:
        if one["name"] == name:
            return one
    raise Missing(f"no commit that readers read has the featureset `{name}`")


def _owner(node: EntityNode) -> str:
    return node[1].rpartition(".")[0]


def _in_order(nodes: Iterable[EntityNode]) -> list[EntityNode]:
    return sorted(set(nodes))


def _sinks(snapshot: BranchSnapshot, dataset: str) -> list[EntityNode]:
    of = [one for one in snapshot.definitions.datasets if one.name == dataset]
    return [("sink", one["name"]) for one in connectors.deployed_sinks(of)]


def _assets(snapshot: BranchSnapshot, dataset: str) -> list[tuple[str, ResolvedAsset]]:
    """Return the assets of a dataset by logical path, without the jobs, which are listed apart."""
    prefix = f"dataset/{dataset}/"
    return sorted(
        (path, asset) for path, asset in snapshot.bindings.items() if path.startswith(prefix)
    )


def _jobs(
    services: Services,
    access: Access,
    snapshot: BranchSnapshot,
    jobs: Sequence[JobView],
    name: str,
) -> list[Job]:
    paths = (f"dataset/{name}/", f"job/{name}/")
    bound = {a.asset_id for path, a in snapshot.bindings.items() if path.startswith(paths)}
    own = [job for job in jobs if job.asset.asset_id in bound]
    visible = branch_catalog.visible_jobs(own, access)
    return job_rows(visible, services.ledger.watermarks.by_feed())


def _data_docs(services: Services, access: Access, entity: str) -> str | None:
    """Return the page of an entity in the Data Docs; None if the principal may not see them."""
    if not may_see_data_docs(access):
        return None
    return suite_page(services.settings.data_docs_dir, access.branch, entity)


def _audits(services: Services, access: Access, name: str) -> list[QualityAudit]:
    found = services.ledger.audits.newest(limit=AUDITS, branches=[access.branch], dataset=name)
    return [branch_catalog.plain_audit(one) for one in found]
