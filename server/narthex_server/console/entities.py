"""The values of a page about one dataset or featureset, from the answers of the API."""

from collections.abc import Mapping, Sequence

from narthex_ledger import JobView
from narthex_server.catalog import branch_catalog, lineage
from narthex_server.catalog.responses import DeployedDataset, DeployedFeatureset, QualityAudit
from narthex_server.console.lineage_graph import EntityNode, read
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
    deployed = _deployed(services, access, snapshot, jobs, name)
    graph = read(lineage.lineage(services.snapshots, access))
    here = ("dataset", name)
    return {
        "dataset": {**deployed, **properties},
        "inputs": _pages(graph.before.get(here, [])),
        "used_by": _pages(graph.after.get(here, [])),
        "jobs": _jobs(services, access, snapshot, jobs, name),
        "audits": _audits(services, access, name),
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
        "inputs": _pages(inputs),
        "used_by": _pages(used_by),
        "audits": _audits(services, access, name),
    }


def _deployed(
    services: Services,
    access: Access,
    snapshot: BranchSnapshot,
    jobs: Sequence[JobView],
    name: str,
) -> DeployedDataset:
    visibility = access.visibility(snapshot.definitions)
    for one in branch_catalog.deployed_datasets(services, snapshot, visibility, jobs, only=name):
        return one
    raise Missing(f"no commit that readers read has the dataset `{name}`")


def _featureset(services: Services, access: Access, name: str) -> DeployedFeatureset:
    for one in branch_catalog.featuresets(services.snapshots, access)["featuresets"]:
        if one["name"] == name:
            return one
    raise Missing(f"no commit that readers read has the featureset `{name}`")


def _owner(node: EntityNode) -> str:
    return node[1].rpartition(".")[0]


def _pages(nodes: list[EntityNode]) -> list[Mapping[str, str]]:
    """Return entities in order of their names, each with the page that shows it, if one does."""
    pages = {"dataset": "datasets", "feature": "features"}
    return [
        {
            "kind": kind,
            "name": name,
            "page": pages.get(kind, ""),
            "of": _owner((kind, name)) if kind == "feature" else name,
        }
        for kind, name in sorted(set(nodes))
    ]


def _jobs(
    services: Services,
    access: Access,
    snapshot: BranchSnapshot,
    jobs: Sequence[JobView],
    name: str,
) -> list[Job]:
    prefix = f"dataset/{name}/"
    bound = {a.asset_id for path, a in snapshot.bindings.items() if path.startswith(prefix)}
    own = [job for job in jobs if job.asset.asset_id in bound]
    visible = branch_catalog.visible_jobs(own, access)
    return job_rows(visible, services.ledger.watermarks.by_feed())


def _audits(services: Services, access: Access, name: str) -> list[QualityAudit]:
    found = services.ledger.audits.newest(limit=AUDITS, branches=[access.branch], dataset=name)
    return [branch_catalog.plain_audit(one) for one in found]
