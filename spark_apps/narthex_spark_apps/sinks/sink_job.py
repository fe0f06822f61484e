"""Open the stage of a sink: its state and its target."""

from narthex._connectors import kind_of, sink_kind
from narthex._ir import ResolvedAsset, SinkJobSpec
from narthex.settings import Settings
from narthex_spark_apps.platform.author_places import require_path
from narthex_spark_apps.platform.optional_clients import load_part
from narthex_spark_apps.sinks.sink_stage import OpensTarget, SinkStage, WrittenPositions


def open_sink(
    asset: ResolvedAsset, settings: Settings, *, written: WrittenPositions, epoch: int
) -> SinkStage | None:
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
    target = spec.sink.target
    kind = sink_kind(target)
    require_path(target, settings)
    opens: OpensTarget = load_part(kind.writer, install=kind_of(target).install)
    directory = settings.checkpoint_dir / asset.need("checkpoint").physical_name / "sink"
    return SinkStage.open(
        spec,
        opens(spec, name=asset.physical_name, settings=settings),
        written=written,
        directory=directory,
        epoch=epoch,
        every_us=kind.every_us if spec.sink.every_us is None else spec.sink.every_us,
    )
