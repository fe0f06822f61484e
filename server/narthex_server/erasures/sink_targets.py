"""The targets of sinks in an erasure: which can be erased through their sinks, and the entries.

A target is erased only if its sink can delete rows, and if nothing but deployed sinks has written
to it: a sink that was replaced or removed may have left rows that no log has any more.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import attrs

from narthex._base import Json
from narthex._compiler import target_id
from narthex._connectors import Deletes, sink_kind
from narthex._ir import Connector, KafkaTopic, SinkJobSpec
from narthex_ledger import ObsoleteSink
from narthex_stores import Broker, RowEnds, is_compacted

REPLACED: Final = "a sink that was replaced or removed may have left rows there"


def why_not_deleted(
    sinks: Iterable[SinkJobSpec], replaced: Iterable[SinkJobSpec], *, kafka: Broker
) -> dict[str, str]:
    """Return the targets that cannot be erased through their sinks, each with the reason.

    Args:
        sinks: The sinks with the rows.
        replaced: The sinks that existed before, and that no branch deploys.
        kafka: The platform's own broker.

    Raises:
        StoreError: The broker did not answer.
    """
    targets = {target_id(spec.sink.target): spec.sink.target for spec in sinks}
    earlier = {target_id(spec.sink.target) for spec in replaced}
    why = {
        name: REPLACED if name in earlier else _why_kept(target, kafka)
        for name, target in targets.items()
    }
    return {name: text for name, text in sorted(why.items()) if text}


def _why_kept(target: Connector, kafka: Broker) -> str:
    match sink_kind(target).deletes:
        case Deletes.ALWAYS:
            return ""
        case Deletes.IF_COMPACTED if isinstance(target, KafkaTopic):
            if target.bootstrap_servers:
                return "only topics of the platform's own broker are known to be compacted"
            is_kept = not is_compacted(kafka, target.topic)
            return "the topic is not compacted" if is_kept else ""
        case Deletes.IF_COMPACTED | Deletes.NEVER:
            return "the target keeps what it has received"


@attrs.frozen(kw_only=True)
class ErasedTarget:
    """The deletions in the target of one sink, as far as they were seen.

    Attributes:
        job: The name of the sink's job.
        ends: The facts that have ended rows in the log of the sink.
    """

    target: str
    dataset: str
    job: str
    ends: RowEnds

    def plain(self) -> Json:
        """Return the entry as the ledger stores it."""
        return {
            "target": self.target,
            "dataset": self.dataset,
            "job": self.job,
            "rows": self.ends.rows,
            "written_until": {str(part): at for part, at in sorted(self.ends.until.items())},
        }


def entries(sinks: Sequence[ObsoleteSink], seen: Json) -> list[Json]:
    """Return the entries of a certificate, one for each target and dataset.

    Args:
        sinks: All sinks that wrote rows of obsolete assets.
        seen: What was seen of the deletions of some of them, as `ErasedTarget.plain`.
    """
    found = {str(one["job"]): one for one in _objects(seen)}
    grouped: dict[tuple[str, str], list[ObsoleteSink]] = {}
    for sink in sinks:
        key = target_id(sink.spec.sink.target), sink.spec.dataset
        grouped.setdefault(key, []).append(sink)
    whole = {
        name: all(
            sink.physical_name in found
            for (to, _), some in grouped.items()
            if to == name
            for sink in some
        )
        for name, _ in grouped
    }
    return [_entry(key, grouped[key], found if whole[key[0]] else {}) for key in sorted(grouped)]


def _entry(
    key: tuple[str, str], sinks: Sequence[ObsoleteSink], found: Mapping[str, Mapping[str, Json]]
) -> Json:
    target, dataset = key
    kind = sink_kind(sinks[0].spec.sink.target)
    about: dict[str, Json] = {"target": target, "dataset": dataset}
    if not found:
        return {**about, "is_erased": False, "to_do": kind.erasing}
    jobs: list[Json] = [
        {name: found[sink.physical_name][name] for name in ("job", "rows", "written_until")}
        for sink in sinks
    ]
    return {**about, "is_erased": True, "deletions": jobs, "keeps": kind.keeps}


def deleting(sinks: Sequence[ObsoleteSink], *, left: Collection[str]) -> tuple[ObsoleteSink, ...]:
    """Return the sinks that delete rows from their targets.

    Args:
        sinks: All sinks that wrote rows of obsolete assets.
        left: The targets from which nothing is deleted.
    """
    lost = {target_id(sink.spec.sink.target) for sink in sinks if sink.new_log is None}
    return tuple(
        sink
        for sink in sinks
        if (name := target_id(sink.spec.sink.target)) not in lost and name not in left
    )


def _objects(seen: Json) -> list[dict[str, Json]]:
    return [one for one in seen if isinstance(one, dict)] if isinstance(seen, list) else []
