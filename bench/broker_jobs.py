"""Jobs on a broker alone: compiled definitions, their topics, and settings without a platform."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from narthex._compiler.blueprint import compile_blueprint
from narthex._ir import (
    AssetBlueprint,
    AssetKind,
    PipelineJobSpec,
    ResolvedAsset,
    ResolvedNeed,
)
from narthex._sdk.commit_definitions import definitions_in
from narthex.settings import Settings
from narthex_spark_apps.pipelines.spark_plan import PipelineJob
from narthex_stack.machine.jars import CONNECTORS, resolve

PARTITIONS = 2


def broker_settings(home: Path, bootstrap: str) -> Settings:
    """Return settings of an installation that has a broker and directories, and no more."""
    return Settings(
        home=home,
        install_id="bench",
        ledger_dsn="",
        kafka=bootstrap,
        server_url="",
        token="",
        index_dir=home / "index",
        history_dir=str(home / "history"),
        checkpoint_dir=home / "checkpoints",
        files_root=home / "files",
        jars_dir=resolve(CONNECTORS),
        spark_master="local[64]",
    )


def create_topics(bootstrap: str, jobs: Iterable[PipelineJob]) -> None:
    """Create the topics that jobs read and write."""
    needs = [need for job in jobs for need in job.asset.needs]
    topics = {need.physical_name for need in needs if need.kind is AssetKind.KAFKA_TOPIC}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for created in admin.create_topics([NewTopic(t, PARTITIONS, 1) for t in topics]).values():
        created.result(30)


def job_of(definitions: Sequence[object], dataset: str) -> PipelineJob:
    """Compile the job of a dataset; its needs have the names of their paths."""
    assets = {asset.ref: asset for asset in compile_blueprint(definitions_in(definitions)).assets}
    for asset in assets.values():
        spec = asset.spec
        if isinstance(spec, PipelineJobSpec) and spec.dataset == dataset:
            return PipelineJob(asset=_resolved(asset, assets), spec=spec)
    raise SystemExit(f"`{dataset}` has no job")


def _resolved(asset: AssetBlueprint, assets: Mapping[object, AssetBlueprint]) -> ResolvedAsset:
    needs = [(need.role, assets[need.asset]) for need in asset.needs]
    return ResolvedAsset(
        asset_id=1,
        kind=asset.kind,
        physical_name="job",
        fingerprint=asset.fingerprint,
        spec=asset.spec,
        needs=tuple(
            ResolvedNeed(
                role=role,
                kind=needed.kind,
                asset_id=2,
                physical_name=needed.paths[0].replace("/", "."),
                spec=needed.spec,
            )
            for role, needed in needs
        ),
    )
