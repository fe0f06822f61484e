"""The bounded run of a stateful job: the live job's code, up to the end offsets of its topics."""

from collections.abc import Callable, Mapping

from narthex._base import Json
from narthex._ir import PipelineJobSpec, ResolvedAsset
from narthex.settings import Settings
from narthex_spark_apps.jobs.start import NotRunnableError, checkpoint_of
from narthex_spark_apps.pipelines.spark_plan import PipelineJob
from narthex_spark_apps.stateful.stage import StatefulStage
from narthex_stores import LogReader

MAX_RECORDS = 20_000
POLL_S = 1.0


def drain_stateful(
    asset: ResolvedAsset,
    ends: Mapping[str, Mapping[int, int]],
    *,
    settings: Settings,
    epoch: int,
    note: Callable[[dict[str, Json]], None],
) -> int:
    """Drain a job's topics into its state; return the number of records read.

    It continues where an earlier run stopped; the live run continues where this one stops.

    Args:
        asset: The job.
        ends: The offsets to read up to, at least: topic, partition, next offset.
        settings: The brokers and the checkpoints.
        epoch: The epoch of the run.
        note: Called from time to time with the progress of the run.

    Raises:
        NotRunnableError: The asset is not a pipeline.
        Fenced: A run of a later epoch has taken over.
    """
    if not isinstance(asset.spec, PipelineJobSpec):
        raise NotRunnableError(f"asset {asset.asset_id} is not a pipeline")
    stage = StatefulStage(
        PipelineJob(asset=asset, spec=asset.spec),
        settings=settings,
        checkpoint=checkpoint_of(asset, settings),
        epoch=epoch,
    )
    wanted = {(topic, p): end for topic, found in ends.items() for p, end in found.items()}
    read = 0
    try:
        with LogReader(settings.kafka) as reader:
            kept = stage.positions()
            firsts = reader.first_offsets(list(ends))
            reader.assign(
                {place: max(first, kept.get(place, 0)) for place, first in firsts.items()}
            )
            while any(reader.positions.get(place, 0) < end for place, end in wanted.items()):
                records = reader.poll(max_records=MAX_RECORDS, timeout_s=POLL_S)
                stage.take(records)
                read += len(records)
                note({"rows": read, "of": sum(wanted.values())})
    finally:
        stage.close()
    return read
