"""The assets that write a dataset's rows to its sinks."""

import attrs

from narthex._analysis.fingerprints import fingerprint
from narthex._compiler.blueprint_builder import BlueprintBuilder
from narthex._compiler.dataset_assets import DatasetAssets
from narthex._connectors.registry import sink_kind
from narthex._ir.assets import AssetKind, CheckpointSpec, Need, SinkJobSpec, Trigger
from narthex._ir.entities import Connector, Sink


def write_to_sink(
    builder: BlueprintBuilder, held: DatasetAssets, sink: Sink, *, position: int
) -> None:
    """Add the job that writes a dataset's rows to a sink, with its needs.

    The job's identity is the sink and the rows that it receives, not how often it receives them.
    """
    dataset = held.typed.dataset
    path = f"job/{dataset.name}/sink/{position}"
    spec = SinkJobSpec(
        dataset=dataset.name,
        sink=sink,
        schema=dataset.schema,
        log=held.plan.log,
        voidable=held.voidable,
        trigger=Trigger.STAGE,
        reason="sends changes after the current rows are loaded",
    )
    job = fingerprint("job.sink", attrs.evolve(sink, every_us=None, env=()), (held.data,))
    checkpoint = builder.add(
        AssetKind.CHECKPOINT,
        fingerprint("checkpoint", None, (job,)),
        CheckpointSpec(job=job.hex()),
        path=f"{path}/checkpoint",
        label=f"checkpoint of {dataset.name}/sink/{position}",
    )
    builder.add(
        AssetKind.STREAM_JOB,
        job,
        spec,
        needs=(Need(f"input:{dataset.name}", held.topic), Need("checkpoint", checkpoint)),
        path=path,
        label=f"sink {target_id(sink.target)} of {dataset.name}",
    )


def target_id(target: Connector) -> str:
    """Return the string that identifies the target of a sink."""
    return sink_kind(target).identity(target)
