"""Whether the indexes of a query contain rows that were logged before (`after`).

A call of `/log` returns the position of its record in the ingest topic. From there, the rows pass
through jobs and logs to the index. A job has handled a record once its reported position is behind
it; what it made of it is then in its output, below the end that the output has at that moment. So
the positions to reach are known one step at a time.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeAlias

import attrs

from narthex._base import Json
from narthex._formats import NotPositionsError, parse_positions
from narthex._ir import AssetKind, FeedSpec, PipelineJobSpec, ResolvedAsset, SourceJobSpec
from narthex_server.errors import IndexUnavailable, InvalidRequest
from narthex_server.services.branch_snapshots import BranchSnapshot
from narthex_server.services.container import EndsOf, Positions
from narthex_stores import IndexMissingError

ProgressOf: TypeAlias = Callable[[Collection[int]], Mapping[int, Mapping[str, Json]]]
"""Reads the progress of jobs, by their assets."""


def positions_of(after: str) -> dict[str, dict[int, int]]:
    """Parse the `after` of a request.

    Raises:
        InvalidRequest: It does not have positions.
    """
    try:
        return parse_positions(after)
    except NotPositionsError:
        raise InvalidRequest("`after` is not a text that `/log` returned") from None


class _NotYetError(Exception):
    """A job or an index is behind; the argument is the number of records."""


@attrs.define
class ContainedRows:
    """The way of some rows to the indexes of a query, as far as it is known.

    Attributes:
        snapshot: The snapshot that the query reads.
        after: The positions behind the rows, by ingest topic.
        progress_of: Reads the progress of jobs.
        ends_of: Reads the end offsets of topics.
    """

    snapshot: BranchSnapshot
    after: Mapping[str, Positions]
    progress_of: ProgressOf
    ends_of: EndsOf
    _writers: Mapping[str, list[ResolvedAsset]] = attrs.field(init=False)
    _reached: dict[str, Positions] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        writers: dict[str, list[ResolvedAsset]] = {}
        for asset in self.snapshot.bindings.values():
            for topic in _outputs(asset):
                writers.setdefault(topic, []).append(asset)
        self._writers = writers

    def missing(self, datasets: Iterable[str]) -> str:
        """Return why the index of one of the datasets does not contain the rows yet, for people.

        The text is empty if all of them contain the rows, or the rows do not reach them.

        Raises:
            IndexUnavailable: An index is missing.
            LedgerError: The ledger does not answer.
            StoreError: Kafka or an index does not answer.
        """
        names = tuple(datasets)
        progress = self.progress_of(self._jobs_before(names))
        for dataset in names:
            try:
                self._require_index(dataset, progress)
            except _NotYetError as behind:
                return f"`{dataset}` does not contain the rows yet: {behind}"
        return ""

    @property
    def known(self) -> dict[str, Positions]:
        """The positions of `after`, and those in later topics that are known since.

        A caller that asks again with these waits for the same rows, however many came after.
        """
        return {**self.after, **{topic: at for topic, at in self._reached.items() if at}}

    def _jobs_before(self, datasets: Iterable[str]) -> frozenset[int]:
        """Return the jobs and feeds whose output reaches one of the datasets."""
        jobs: set[int] = set()
        topics = [self.snapshot.topic(f"dataset/{name}/log") for name in datasets]
        while topics:
            for writer in self._writers.get(topics.pop(), ()):
                if writer.asset_id not in jobs:
                    jobs.add(writer.asset_id)
                    topics += _inputs(writer)
        return frozenset(jobs)

    def _require_index(self, dataset: str, progress: Mapping[int, Mapping[str, Json]]) -> None:
        topic = self.snapshot.topic(f"dataset/{dataset}/log")
        needed = self._needed(topic, progress)
        if not needed:
            return
        try:
            with self.snapshot.index(dataset).read() as reader:
                offsets = reader.offsets
        except IndexMissingError:
            raise IndexUnavailable(dataset) from None
        read = {partition: offsets.get((topic, partition), 0) for partition in needed}
        _require(needed, read, by="its index")

    def _needed(self, topic: str, progress: Mapping[int, Mapping[str, Json]]) -> Positions:
        """Return the positions that readers of a topic must reach; empty if no row reaches it."""
        if topic in self.after:
            return self.after[topic]
        known = self._reached.get(topic)
        if known is not None:
            return known
        is_reached = False
        for writer in self._writers.get(topic, ()):
            for source in _inputs(writer):
                needed = self._needed(source, progress)
                if needed:
                    is_reached = True
                    read = _read_positions(progress.get(writer.asset_id, {}), source)
                    _require(needed, read, by="a job before it")
        found = self.ends_of([topic]).get(topic, {}) if is_reached else {}
        self._reached[topic] = found
        return found


def _outputs(asset: ResolvedAsset) -> list[str]:
    """Return the topics that an asset writes facts or invalidations to."""
    match asset.spec:
        case SourceJobSpec() | PipelineJobSpec():
            return [need.physical_name for need in asset.needs if need.role == "output"]
        case FeedSpec():
            return [need.physical_name for need in asset.needs if need.role == "touched"]
        case _:
            return []


def _inputs(asset: ResolvedAsset) -> list[str]:
    """Return the topics that an asset reads."""
    return [
        need.physical_name
        for need in asset.needs
        if need.kind is AssetKind.KAFKA_TOPIC
        and need.role.partition(":")[0] in {"input", "touched", "log"}
        and not (need.role == "touched" and isinstance(asset.spec, FeedSpec))
    ]


def _read_positions(progress: Mapping[str, Json], topic: str) -> Positions:
    """Return the positions that a job has reported for a topic."""
    offsets = progress.get("offsets")
    read = offsets.get(topic) if isinstance(offsets, dict) else None
    if not isinstance(read, dict):
        return {}
    return {int(partition): at for partition, at in read.items() if isinstance(at, int)}


def _require(needed: Positions, read: Positions, *, by: str) -> None:
    behind = sum(max(0, end - read.get(partition, 0)) for partition, end in needed.items())
    if behind:
        raise _NotYetError(f"{by} has {behind} records to read")
