"""The names of jobs and feeds for people."""

from narthex._compiler import target_id
from narthex._ir import FeedSpec, PipelineJobSpec, ResolvedAsset, SinkJobSpec, SourceJobSpec


def job_label(asset: ResolvedAsset) -> str:
    """Return the name of a job or a feed; the feeds of a dataset have one each."""
    label = described_job(asset)[0]
    return f"{label} ({asset.kind.value})" if isinstance(asset.spec, FeedSpec) else label


def connector_of(asset: ResolvedAsset) -> str | None:
    """Return the name of the source or sink that a job reads or writes; None for other jobs."""
    match asset.spec:
        case SourceJobSpec() as spec:
            return spec.source_id
        case SinkJobSpec() as spec:
            return target_id(spec.sink.target)
        case _:
            return None


def described_job(asset: ResolvedAsset) -> tuple[str, str]:
    """Return what a job reads and writes, and its trigger: for a feed the dataset, and nothing."""
    match asset.spec:
        case SourceJobSpec() as spec:
            return f"{spec.dataset} ← {spec.source_id}", spec.trigger.value
        case PipelineJobSpec() as spec:
            return f"{spec.dataset}.{spec.pipeline}", spec.trigger.value
        case SinkJobSpec() as spec:
            return f"{spec.dataset} → {target_id(spec.sink.target)}", spec.trigger.value
        case FeedSpec() as spec:
            return spec.dataset, ""
        case _:
            return asset.physical_name, ""
