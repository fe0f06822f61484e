"""Definitions deployed as a commit would: named assets, topics, indexes and checkpoints.

Facts may be given: then the source's job and its topics are left out. So are all histories.
"""

from collections.abc import Iterable, Mapping

import attrs
from confluent_kafka.admin import AdminClient, NewTopic

from narthex._ir.asset_names import physical_name
from narthex._ir.assets import (
    AssetBlueprint,
    AssetKind,
    AssetRef,
    Blueprint,
    IndexSpec,
    LogSpec,
    PipelineJobSpec,
    ResolvedAsset,
    ResolvedNeed,
    SinkJobSpec,
    SourceJobSpec,
    TopicRole,
    TopicSpec,
)
from narthex._ir.entities import Definitions
from narthex.settings import Settings
from narthex_spark_apps.jobs.start import input_topics
from narthex_stores import checkpoint_adapter, index_store, topic_config
from tests.differential.connecting import read_by_a_job
from tests.shared_services import fresh_number

_TIMEOUT_S = 60.0


@attrs.frozen(kw_only=True)
class Deployment:
    """The assets of definitions under unique names.

    Attributes:
        jobs: Jobs of sources and pipelines, in order of their dependencies.
        sinks: Jobs of sinks.
        feeds: Feeds of indexes.
        topics: The topics to create, by name; logs whose facts are given are not among them.
        paths: Where the asset of a logical name is.
    """

    definitions: Definitions
    blueprint: Blueprint
    jobs: tuple[ResolvedAsset, ...]
    sinks: tuple[ResolvedAsset, ...]
    feeds: tuple[ResolvedAsset, ...]
    topics: Mapping[str, TopicSpec]
    indexes: Mapping[str, IndexSpec]
    checkpoints: tuple[ResolvedNeed, ...]
    paths: Mapping[str, ResolvedNeed]

    def log(self, dataset: str) -> tuple[str, LogSpec]:
        """Return the topic of a dataset's log, and what its facts look like."""
        found = self.paths[f"dataset/{dataset}/log"]
        if not isinstance(found.spec, TopicSpec) or found.spec.log is None:
            raise TypeError(f"the log of `{dataset}` is not a log")
        return found.physical_name, found.spec.log

    def ingest(self, dataset: str) -> str:
        """Return the topic that the job of a dataset's source reads."""
        asset_id = self.paths[source_path(dataset)].asset_id
        return input_topics(next(one for one in self.jobs if one.asset_id == asset_id))[0]

    def quarantines(self) -> dict[str, str]:
        """Return the topics of the rows that sources reject, by dataset."""
        return {
            job.spec.dataset: job.need("quarantine").physical_name
            for job in self.jobs
            if isinstance(job.spec, SourceJobSpec)
        }

    def index(self, dataset: str) -> str | None:
        """Return the name of the index of a dataset by key; None where it has none."""
        found = self.paths.get(f"dataset/{dataset}/index")
        return None if found is None else found.physical_name


def source_path(dataset: str) -> str:
    """Return the logical name of the job of a dataset's source."""
    return f"job/{dataset}/source/0"


def given_logs(deployment: Deployment) -> dict[str, TopicSpec]:
    """Return the logs whose facts are given, by the name that they have in all deployments."""
    names = _given(deployment.definitions)
    logs = (deployment.paths[f"dataset/{name}/log"] for name in names)
    return {one.physical_name: one.spec for one in logs if isinstance(one.spec, TopicSpec)}


def _given(definitions: Definitions) -> list[str]:
    """Return the datasets whose facts are given."""
    datasets = (one for one in definitions.datasets if not one.pipelines)
    return [one.name for one in datasets if not read_by_a_job(one)]


def deploy(
    definitions: Definitions, blueprint: Blueprint, *, run: str, way: str, install_id: str
) -> Deployment:
    """Assign names to the assets of definitions.

    Args:
        definitions: Correct ones.
        blueprint: The compiled definitions.
        run: A unique name of the run: given logs and ingest topics are its own.
        way: A name of the deployment that is unique in the run: all else is its own.
        install_id: Eight characters of [a-z0-9].
    """
    given = _given(definitions)
    given_logs = {f"dataset/{name}/log" for name in given}
    no_jobs = {source_path(name) for name in given}
    named: dict[AssetRef, ResolvedNeed] = {}
    assets: list[ResolvedAsset] = []
    for asset in blueprint.assets:
        is_shared = bool(given_logs & set(asset.paths)) or _is_ingest(asset.spec)
        tenant = f"{run}" if is_shared else f"{run}/{way}"
        name = _named(asset, tenant=tenant, install_id=install_id)
        one = ResolvedNeed(
            role="",
            kind=asset.kind,
            asset_id=fresh_number(),
            physical_name=name,
            spec=asset.spec,
        )
        named[asset.ref] = one
        assets.append(_resolved(asset, one, named))
    left_out = {named[one.ref].asset_id for one in blueprint.assets if no_jobs & set(one.paths)}
    run_here = [one for one in assets if one.asset_id not in left_out]
    jobs = tuple(one for one in run_here if isinstance(one.spec, SourceJobSpec | PipelineJobSpec))
    sinks = tuple(one for one in run_here if isinstance(one.spec, SinkJobSpec))
    feeds = tuple(one for one in assets if one.kind is AssetKind.INDEX_FEED)
    needed = {need.physical_name: need for one in (*jobs, *sinks, *feeds) for need in one.needs}
    return Deployment(
        definitions=definitions,
        blueprint=blueprint,
        jobs=jobs,
        sinks=sinks,
        feeds=feeds,
        topics={n: need.spec for n, need in needed.items() if isinstance(need.spec, TopicSpec)},
        indexes={n: need.spec for n, need in needed.items() if isinstance(need.spec, IndexSpec)},
        checkpoints=tuple(n for n in needed.values() if n.kind is AssetKind.CHECKPOINT),
        paths={path: named[one.ref] for one in blueprint.assets for path in one.paths},
    )


def _is_ingest(spec: object) -> bool:
    return isinstance(spec, TopicSpec) and spec.role is TopicRole.INGEST


def _named(asset: AssetBlueprint, *, tenant: str, install_id: str) -> str:
    return physical_name(
        install_id=install_id,
        tenant=tenant,
        kind=asset.kind,
        fp_version=asset.fp_version,
        fingerprint=asset.fingerprint,
        incarnation=1,
    )


def _resolved(
    asset: AssetBlueprint, one: ResolvedNeed, named: Mapping[AssetRef, ResolvedNeed]
) -> ResolvedAsset:
    return ResolvedAsset(
        asset_id=one.asset_id,
        kind=asset.kind,
        physical_name=one.physical_name,
        fingerprint=asset.fingerprint,
        spec=asset.spec,
        needs=tuple(attrs.evolve(named[n.asset], role=n.role) for n in asset.needs),
    )


def create_topics(admin: AdminClient, topics: Mapping[str, TopicSpec]) -> None:
    """Make topics as their adapter does, all in one request."""
    if not topics:
        return
    new = [
        NewTopic(name, num_partitions=spec.partitions, config=topic_config(spec))
        for name, spec in topics.items()
    ]
    for made in admin.create_topics(new, operation_timeout=_TIMEOUT_S).values():
        made.result(_TIMEOUT_S)


def delete_topics(admin: AdminClient, topics: Iterable[str]) -> None:
    """Ask that topics go; who made them does not wait for it."""
    names = sorted(topics)
    if names:
        admin.delete_topics(names, operation_timeout=1.0)


def create_directories(deployment: Deployment, settings: Settings) -> None:
    """Make the directories of indexes and checkpoints, by their adapters."""
    indexes = index_store(settings).adapter()
    for name, spec in deployment.indexes.items():
        indexes.create(name, spec, asset_id=1, timeout_s=_TIMEOUT_S)
    checkpoints = checkpoint_adapter(settings.checkpoint_dir)
    for one in deployment.checkpoints:
        checkpoints.create(one.physical_name, one.spec, asset_id=one.asset_id, timeout_s=_TIMEOUT_S)
