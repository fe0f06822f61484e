"""The read positions of a live stage: the committed offsets of the job's own consumer group.

They are on the cluster that the job reads, so that a stage goes on wherever it is started. Each
commit notes the epoch of its owner.
"""

import json
from collections.abc import Iterable, Mapping

import attrs

from narthex._ir import ResolvedAsset
from narthex_stores import (
    CommittedOffset,
    GroupOffsets,
    IndexFenced,
    PartitionKey,
    consumer_group,
)

_EPOCH = "epoch"


def group_of(asset: ResolvedAsset) -> str:
    """Return the consumer group of a job."""
    return consumer_group(asset.physical_name)


@attrs.frozen
class StagePositions:
    """The positions of a job, or of one of its shards, under one epoch.

    The shards of a job share its group, and each has partitions and epochs of its own: a shard
    passes its own partitions alone.

    Kafka accepts commits of every owner, so each looks for a later epoch before it commits. An
    owner that is suspended between the two may put older positions back: its successor replaces
    them with its next commit, and otherwise records are read again, which is harmless.
    """

    offsets: GroupOffsets
    epoch: int = attrs.field(kw_only=True)

    def load(self, places: Iterable[PartitionKey]) -> dict[PartitionKey, int]:
        """Return the committed positions of partitions; empty before the first start of the job.

        Raises:
            IndexFenced: An owner with a later epoch has committed.
            StoreError: The cluster did not answer, or denies access to the group.
        """
        committed = self.offsets.read(places)
        self._require_newest(committed.values())
        return {place: found.offset for place, found in committed.items()}

    def keep(self, positions: Mapping[PartitionKey, int]) -> None:
        """Commit positions, so that owners with earlier epochs stop.

        Raises:
            IndexFenced: An owner with a later epoch has committed; nothing was committed.
            StoreError: The cluster did not answer, or denies access to the group.
        """
        self._require_newest(self.offsets.read(positions).values())
        self.offsets.commit(positions, note=json.dumps({_EPOCH: self.epoch}))

    def _require_newest(self, committed: Iterable[CommittedOffset]) -> None:
        known = max(map(_epoch_of, committed), default=-1)
        if self.epoch < known:
            raise IndexFenced(f"epoch {known} has taken over; epoch {self.epoch} must stop")


def _epoch_of(committed: CommittedOffset) -> int:
    """Return the epoch of a commit; -1 if another program committed it."""
    try:
        return int(json.loads(committed.note)[_EPOCH])
    except (ValueError, KeyError, TypeError):
        return -1
