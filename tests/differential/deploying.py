"""Definitions deployed as a commit would: named assets, topics, indexes and checkpoints.

Facts are given, so the jobs of sources, their topics and the histories are left out.
"""

import itertools
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
    TopicRole,
    TopicSpec,
)
from narthex._ir.entities import Definitions
from narthex.settings import Settings
from narthex_stores import checkpoint_adapter, index_store, topic_config

_TIMEOUT_S = 60.0
_numbers = itertools.count(1)


@attrs.frozen(kw_only=True)
class Deployment:
    """The assets of definitions under unique names.

    Attributes:
        jobs: Jobs of pipelines, in order of their dependencies.
        feeds: Feeds of indexes.
        topics: The topics to create, by name; logs of sources are shared, and not among them.
        paths: Where the asset of a logical name is.
    """

    definitions: Definitions
    blueprint: Blueprint
    jobs: tuple[ResolvedAsset, ...]
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

    def index(self, dataset: str) -> str | None:
        """Return the name of the index of a dataset by key; None where it has none."""
        found = self.paths.get(f"dataset/{dataset}/index")
        return None if found is None else found.physical_name


def source_logs(deployment: Deployment) -> dict[str, TopicSpec]:
    """Return the logs that sources fill, by the name that they have in all deployments of a run."""
    names = [one.name for one in deployment.definitions.datasets if not one.pipelines]
    logs = (deployment.paths[f"dataset/{name}/log"] for name in names)
    return {one.physical_name: one.spec for one in logs if isinstance(one.spec, TopicSpec)}


def deploy(
    definitions: Definitions, blueprint: Blueprint, *, run: str, way: str, install_id: str
) -> Deployment:
    """Assign names to the assets of definitions.

    Args:
        definitions: Correct ones.
        blueprint: The compiled definitions.
        run: A unique name of the run: logs of sources are its own.
        way: A name of the deployment that is unique in the run: all else is its own.
        install_id: Eight characters of [a-z0-9].
    """
    sourced = {f"dataset/{one.name}/log" for one in definitions.datasets if not one.pipelines}
    named: dict[AssetRef, ResolvedNeed] = {}
    assets: list[ResolvedAsset] = []
    for asset in blueprint.assets:
        is_shared = bool(sourced & set(asset.paths))
        tenant = f"{run}" if is_shared else f"{run}/{way}"
        name = _named(asset, tenant=tenant, install_id=install_id)
        one = ResolvedNeed(
            role="",
            kind=asset.kind,
            asset_id=next(_numbers),
            physical_name=name,
            spec=asset.spec,
        )
        named[asset.ref] = one
        assets.append(_resolved(asset, one, named))
    jobs = tuple(one for one in assets if isinstance(one.spec, PipelineJobSpec))
    feeds = tuple(one for one in assets if one.kind is AssetKind.INDEX_FEED)
    needed = {need.physical_name: need for one in (*jobs, *feeds) for need in one.needs}
    return Deployment(
        definitions=definitions,
        blueprint=blueprint,
        jobs=jobs,
        feeds=feeds,
        topics={
            name: need.spec
            for name, need in needed.items()
            if isinstance(need.spec, TopicSpec) and need.spec.role is not TopicRole.INGEST
        },
        indexes={n: need.spec for n, need in needed.items() if isinstance(need.spec, IndexSpec)},
        checkpoints=tuple(n for n in needed.values() if n.kind is AssetKind.CHECKPOINT),
        paths={path: named[one.ref] for one in blueprint.assets for path in one.paths},
    )


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
