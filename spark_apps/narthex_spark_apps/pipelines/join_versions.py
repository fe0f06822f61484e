"""Read the indexes of joins, and order the results of several readings of one row.

The version of a joined row is that of its left row, the sum of the log offsets that the joined
indexes contained, and perhaps a digest. Offsets never go back, and are read before any row is. So
the rows of a greater sum contain all changes of right rows that a smaller sum contains. Where
several readings of one sum may find different rows, the digest keeps two rows from sharing a
version (docs/decisions/0036).
"""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Final

import attrs

from narthex._formats.avro import FactCodec
from narthex._ir import Fact, Version
from narthex_stores import IndexHandle, IndexReader

_SUM: Final = b"\x01"
_DIGEST: Final = b"\x02"
_DIGEST_BYTES: Final = 8


@attrs.frozen(kw_only=True)
class RightsReading:
    """The joined indexes, open for reading.

    Attributes:
        readers: The snapshot of each joined dataset.
        version_suffix: Follows the version of a left row; empty without joins.
        is_exact: Whether all readings of this suffix find the same rows.
    """

    readers: Mapping[str, IndexReader]
    version_suffix: bytes
    is_exact: bool

    def versioned(self, fact: Fact, codec: FactCodec) -> Fact:
        """Return a joined fact with a version that no other content of its row has."""
        if self.is_exact:
            return fact
        digest = hashlib.blake2b(codec.encode(fact), digest_size=_DIGEST_BYTES).digest()
        return attrs.evolve(fact, version=Version(fact.version + _DIGEST + digest))


@contextmanager
def read_rights(rights: Mapping[str, IndexHandle]) -> Iterator[RightsReading]:
    """Open the joined indexes for reading, after the offsets of all of them were read."""
    # Another process may read the indexes in between, so the sum must not be that of snapshots
    # from several instants; each shard of an index has a snapshot of its own.
    snapshots = sum(right.spec.shards for right in rights.values())
    before = [right.offsets() for right in rights.values()] if snapshots > 1 else None
    with ExitStack() as stack:
        readers = {name: stack.enter_context(right.read()) for name, right in rights.items()}
        contained = [reader.offsets for reader in readers.values()] if before is None else before
        total = sum(sum(offsets.values()) for offsets in contained)
        yield RightsReading(
            readers=readers,
            version_suffix=_SUM + total.to_bytes(8, "big") if rights else b"",
            is_exact=before is None and all(reader.is_exact for reader in readers.values()),
        )
