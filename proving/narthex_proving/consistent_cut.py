"""Find a consistent cut: offsets up to which all jobs have drained their topics.

The contract holds when every job upstream of a dataset has drained the same rows. So a proof
waits until nothing changes: the jobs report that they have read all records of their topics, and
the topics end where they ended before the jobs were asked.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

import attrs

from narthex._analysis import reads
from narthex._ir import AssetKind, IndexSpec, ResolvedAsset
from narthex_proving.deployed import Deployed, Read
from narthex_stores import EndOffsetReader

PAUSE_S = 1.0

Tell: TypeAlias = Callable[[str], None]

TopicEnds: TypeAlias = Mapping[str, Mapping[int, int]]
"""Dataset to partition to the offset after the last record."""


@attrs.frozen(kw_only=True)
class Cut:
    """The ends of logs at the time of the cut.

    Attributes:
        ends: Dataset to partition to offset.
        waited_for: Dataset to the reason why it has not drained; such a dataset's log, and all
            data computed from it, cannot be compared with the definitions.
    """

    ends: TopicEnds
    waited_for: Mapping[str, str]


class NotThereError(RuntimeError):
    """A topic that the commit binds does not exist."""


def upstream(platform: Deployed, dataset: str) -> tuple[str, ...]:
    """Return a dataset and all datasets that it is computed from, in dependency order."""
    by_name = {one.name: one for one in platform.definitions.datasets}
    names: dict[str, None] = {}

    def visit(name: str) -> None:
        for read in reads(by_name[name]):
            if read not in names:
                visit(read)
        names[name] = None

    visit(dataset)
    return tuple(names)


def find_cut(platform: Deployed, datasets: Iterable[str], *, wait_s: float, tell: Tell) -> Cut:
    """Wait, at most `wait_s`, until all jobs of these datasets have drained their logs.

    Raises:
        NotThereError: A log does not exist.
        StoreError: The cluster does not answer.
    """
    names = tuple(dict.fromkeys(one for name in datasets for one in upstream(platform, name)))
    end_offsets = EndOffsetReader(platform.kafka)
    ends_at = time.monotonic() + wait_s
    still: TopicEnds | None = None
    while True:
        before = _ends(platform, end_offsets, names)
        behind = {
            name: why for name in names for why in [_behind(platform, end_offsets, name)] if why
        }
        after = _ends(platform, end_offsets, names)
        moving = {name: "rows still come" for name in names if after[name] != before[name]}
        waited_for = _inherited(platform, names, behind | moving)
        # A job may have read rows and not yet written their results: check twice.
        if time.monotonic() >= ends_at or (not waited_for and still == after):
            return Cut(ends=after, waited_for=waited_for)
        still = None if waited_for else after
        for name, why in list(waited_for.items())[:1]:
            tell(f"waiting for `{name}`: {why}")
        time.sleep(PAUSE_S)


def _inherited(platform: Deployed, names: Iterable[str], own: Mapping[str, str]) -> dict[str, str]:
    """Map each dataset to why it is not ready: its own reason, or that of a dataset that it reads.

    A dataset that sources fill is always ready: its log is what everything is computed from.
    """
    by_name = {dataset.name: dataset for dataset in platform.definitions.datasets}
    found: dict[str, str] = {}
    for name in names:
        if not by_name[name].pipelines:
            continue
        reasons = [
            f"`{one}`: {own[one]}" for one in upstream(platform, name) if one in own and one != name
        ]
        reasons = [own[name], *reasons] if name in own else reasons
        if reasons:
            found[name] = reasons[0]
    return found


def _ends(platform: Deployed, end_offsets: EndOffsetReader, names: Iterable[str]) -> TopicEnds:
    topics = {name: platform.topic(name).physical_name for name in names}
    ends = end_offsets.ends(topics.values())
    for name, topic in topics.items():
        if topic not in ends:
            raise NotThereError(f"the log of `{name}`, topic `{topic}`, is not there")
    return {name: ends[topic] for name, topic in topics.items()}


def _behind(platform: Deployed, end_offsets: EndOffsetReader, dataset: str) -> str | None:
    """Return what the jobs that fill a dataset have not read yet; None if nothing."""
    read_by = platform.jobs_read()
    for job in platform.jobs(dataset):
        topics = _read_topics(job)
        read = read_by.get(job.asset_id)
        if read is None:
            return f"job {job.physical_name} does not run"
        missing = _missing(end_offsets.ends(topics), read)
        if missing:
            return f"job {job.physical_name} has {missing} records to read"
        for need in job.needs:
            if need.role.startswith("right:") and isinstance(need.spec, IndexSpec):
                missing = _missing_in_index(platform, end_offsets, need.physical_name, need.spec)
                if missing:
                    return f"index {need.physical_name} has {missing} records to read"
    return None


def _read_topics(job: ResolvedAsset) -> tuple[str, ...]:
    return tuple(
        need.physical_name
        for need in job.needs
        if need.kind is AssetKind.KAFKA_TOPIC and need.role != "output"
    )


def _missing(ends: Read, read: Read) -> int:
    return sum(
        max(0, end - read.get(topic, {}).get(partition, 0))
        for topic, partitions in ends.items()
        for partition, end in partitions.items()
    )


def _missing_in_index(
    platform: Deployed, end_offsets: EndOffsetReader, name: str, spec: IndexSpec
) -> int:
    index = platform.indexes.open(name, spec, readonly=True)
    try:
        read: dict[str, dict[int, int]] = {}
        for (topic, partition), offset in index.offsets().items():
            read.setdefault(topic, {})[partition] = offset
    finally:
        index.close()
    return _missing(end_offsets.ends(_log_topics(platform, name)), read)


def _log_topics(platform: Deployed, index: str) -> tuple[str, ...]:
    return tuple(
        asset.need("log").physical_name
        for asset in platform.bindings.values()
        if asset.kind is AssetKind.INDEX_FEED and asset.need("index").physical_name == index
    )
