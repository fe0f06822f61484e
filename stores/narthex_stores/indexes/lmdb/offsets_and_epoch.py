"""The Kafka offsets that an index or a job state contains, and the epoch of its writer."""

from collections.abc import Mapping

from narthex_stores.indexes.key_layout import pack, unpack
from narthex_stores.indexes.protocol import IndexFenced, Offsets
from narthex_stores.lmdb.environment import LmdbTable, Transaction

_EPOCH = b"epoch"
_OFFSET = b"o"


def fence(transaction: Transaction, meta: LmdbTable, epoch: int) -> None:
    """Refuse writers of earlier epochs than this one from now on.

    Raises:
        IndexFenced: A writer of a later epoch has taken over.
    """
    found = transaction.get(_EPOCH, db=meta)
    known: int = -1 if found is None else unpack(found)
    if epoch < known:
        raise IndexFenced(f"a writer of epoch {known} has taken over; epoch {epoch} must stop")
    if epoch > known:
        transaction.put(_EPOCH, pack(epoch), db=meta)


def advance(
    transaction: Transaction, meta: LmdbTable, offsets: Mapping[tuple[str, int], int]
) -> None:
    """Store the next offset of each (topic, partition); offsets never go back."""
    for (topic, partition), offset in offsets.items():
        key = _OFFSET + topic.encode() + b"\x00" + partition.to_bytes(4, "big")
        known = transaction.get(key, db=meta)
        if known is None or unpack(known) < offset:
            transaction.put(key, pack(offset), db=meta)


def offsets_of(transaction: Transaction, meta: LmdbTable) -> Offsets:
    """Return the applied log offsets."""
    offsets: Offsets = {}
    with transaction.cursor(db=meta) as cursor:
        if cursor.set_range(_OFFSET):
            for key, value in cursor:
                if not key.startswith(_OFFSET):
                    break
                topic, partition = key[1:-5].decode(), int.from_bytes(key[-4:], "big")
                offsets[topic, partition] = unpack(value)
    return offsets
