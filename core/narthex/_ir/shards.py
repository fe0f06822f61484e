"""How the work on a log is divided: a shard of a job for each partition of the log.

A shard has a slot, a lease, an epoch and offsets of its own, so that the shards of one job run on
any number of supervisors. The work on a log of one or two partitions is not divided, because each
shard costs a transaction, a consumer and files of its own (docs/decisions/0039). A job can be
divided only if no shard needs the state of another one:

- A feed into an index, if all facts of a group are in one partition, and the index is looked up by
  the key of the log. Then `partition_of` finds the one shard that has the rows of a key.
- A stage without joins, because each of its facts is computed from one record.

All other jobs have one shard:

- An index in which a row can move between groups (correctable contributions): a correction has
  another key, hence possibly another partition, and has to remove the row from its old group.
- An index by other columns than the key (the left side of a join): the rows that one lookup returns
  are in all partitions.
- A join: a correction of the right side joins rows of all partitions of the left side again, and
  the version of a joined row orders the states of the right index that one process has seen.
- A job with a state of its own: its rows are grouped by other columns than the key of its input.
- A feed into a history: a write is a file and a commit of its table, whose cost does not depend on
  the number of rows, and writers of one table wait for each other's commits.
- Sources: an ingest topic has one partition, because a call is atomic; the number of partitions of
  an author's topic can change; and tables and files have none.
- A sink: its destination gets the changes of one writer in order.
- A streaming query of Spark: Spark itself runs a task for each partition.
"""

from typing import Final

from narthex._ir.assets import (
    AssetKind,
    IndexSpec,
    LogShape,
    PipelineJobSpec,
    ResolvedAsset,
    TopicSpec,
    Trigger,
)
from narthex._ir.operators import DatasetRef, Join, Operator

UNDIVIDED: Final = 2
"""The work on a log of at most so many partitions is not divided."""

_SIGN: Final = 0x7FFFFFFF
_BITS: Final = 0xFFFFFFFF
_MULTIPLIER: Final = 0x5BD1E995
_SEED: Final = 0x9747B28C
_WORD: Final = 4


def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition of a log that has the records with a key.

    It is the partitioner of Kafka's clients, which all writers of logs use: murmur2 of the key
    without its sign, modulo the number of partitions.
    """
    return (murmur2(key) & _SIGN) % partitions


def murmur2(key: bytes) -> int:
    """Return Kafka's hash of a key, as 32 bits without a sign."""
    hashed = _SEED ^ len(key)
    whole = len(key) - len(key) % _WORD
    for at in range(0, whole, _WORD):
        word = int.from_bytes(key[at : at + _WORD], "little") * _MULTIPLIER & _BITS
        word = (word ^ word >> 24) * _MULTIPLIER & _BITS
        hashed = hashed * _MULTIPLIER & _BITS ^ word
    if whole < len(key):
        hashed = (hashed ^ int.from_bytes(key[whole:], "little")) * _MULTIPLIER & _BITS
    hashed = (hashed ^ hashed >> 13) * _MULTIPLIER & _BITS
    return hashed ^ hashed >> 15


def shards_of_index(spec: IndexSpec, partitions: int) -> int:
    """Return how many shards a new index has whose log has so many partitions."""
    can_move = spec.correctable and spec.log.shape is LogShape.CONTRIBUTIONS
    return 1 if spec.by or can_move else _shards(partitions)


def shards_of_job(asset: ResolvedAsset) -> int:
    """Return how many shards a new job or feed has."""
    match asset.kind, asset.spec:
        case AssetKind.INDEX_FEED, _:
            spec = asset.need("index").spec
            return spec.shards if isinstance(spec, IndexSpec) else 1
        case _, PipelineJobSpec(trigger=Trigger.STAGE) as job if not _joins(job.operators):
            return _shards_by(asset, f"input:{job.inputs[0].dataset}")
        case _:
            return 1


def _shards_by(asset: ResolvedAsset, role: str) -> int:
    spec = asset.need(role).spec
    return _shards(spec.partitions) if isinstance(spec, TopicSpec) else 1


def _shards(partitions: int) -> int:
    return partitions if partitions > UNDIVIDED else 1


def _joins(operator: Operator) -> bool:
    while not isinstance(operator, DatasetRef):
        if isinstance(operator, Join):
            return True
        operator = operator.input
    return False
