"""Open the stage of a sink: its state and its target."""

import os
from typing import assert_never

from narthex._base import SECOND_US
from narthex._ir import (
    Files,
    HttpPath,
    KafkaTopic,
    ResolvedAsset,
    SinkJobSpec,
    SnowflakeDatabase,
    SqlDatabase,
    Table,
)
from narthex.settings import Settings
from narthex_spark_apps.platform.author_brokers import broker_of
from narthex_spark_apps.platform.author_places import require_path
from narthex_spark_apps.platform.optional_clients import load_client
from narthex_spark_apps.sinks.delta import DeltaSink
from narthex_spark_apps.sinks.http import Address, HttpSink
from narthex_spark_apps.sinks.kafka import KafkaSink
from narthex_spark_apps.sinks.postgres import PostgresSink
from narthex_spark_apps.sinks.sink_stage import SinkStage, Target
from narthex_stores import storage_options

FILES_EVERY_US = 60 * SECOND_US
"""How often a sink without its own interval writes files: each write is a file."""


def open_sink(asset: ResolvedAsset, settings: Settings, *, epoch: int) -> SinkStage | None:
    """Open the stage of a sink; None for any other job.

    Raises:
        ForbiddenPlaceError: Sinks may not write to this place.
        SecretMissing: A secret for the target is missing.
        Fenced: A run of a later epoch has opened the state.
        ClientMissingError: The client library of the target is not installed.
    """
    spec = asset.spec
    if not isinstance(spec, SinkJobSpec):
        return None
    directory = settings.checkpoint_dir / asset.need("checkpoint").physical_name / "sink"
    default = FILES_EVERY_US if isinstance(spec.sink.target, Files) else 0
    return SinkStage.open(
        spec,
        _target(spec, asset.physical_name, settings),
        directory=directory,
        epoch=epoch,
        every_us=default if spec.sink.every_us is None else spec.sink.every_us,
    )


def _target(spec: SinkJobSpec, name: str, settings: Settings) -> Target:
    match spec.sink.target:
        case KafkaTopic() as topic:
            broker = broker_of(topic, settings)
            return KafkaSink(broker, topic=topic.topic, name=name, spec=spec)
        case HttpPath() as path:
            return HttpSink(Address.of(path, settings), spec=spec)
        case Files(path=path) as files:
            require_path(files, settings)
            at = path.removesuffix("/**")
            where = at if "://" in at else str(settings.files_root / at)
            return DeltaSink(where, name=name, spec=spec, storage=storage_options(os.environ))
        case Table(database=SqlDatabase(kind="postgres") as database, table=table):
            return PostgresSink(database, table=table, name=name, spec=spec, settings=settings)
        case Table(database=SnowflakeDatabase() as database, table=table):
            module = load_client("narthex_spark_apps.sinks.snowflake", extra="snowflake")
            made: Target = module.SnowflakeSink(
                database, table=table, name=name, spec=spec, settings=settings
            )
            return made
        case Table():
            raise TypeError("the sink's database is refused by `narthex._analysis.checks.sinks`")
        case _:
            assert_never(spec.sink.target)
