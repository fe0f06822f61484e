"""The assets that write a dataset's rows to its sinks."""

from typing import assert_never

import attrs

from narthex._analysis.fingerprints import database_id, fingerprint
from narthex._compiler.blueprint_builder import BlueprintBuilder
from narthex._compiler.dataset_assets import DatasetAssets
from narthex._ir.assets import AssetKind, CheckpointSpec, Need, SinkJobSpec, Trigger
from narthex._ir.entities import Files, HttpPath, KafkaTopic, Sink, SinkTarget, Table


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


def target_id(target: SinkTarget) -> str:
    """Return the string that identifies the target of a sink."""
    match target:
        case KafkaTopic():
            return f"kafka:{target.bootstrap_servers}/{target.topic}"
        case HttpPath():
            return f"http:{target.name}:{target.endpoint}"
        case Files():
            return f"files:{target.path}"
        case Table():
            return f"{database_id(target.database)}/{target.table}"
        case _:
            assert_never(target)
