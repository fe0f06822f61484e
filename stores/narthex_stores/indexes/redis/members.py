"""The format of the keys and entries of an index on servers of the Redis protocol.

- `{<name>:<group>}<incarnation>`: a sorted set of equal scores, ordered by the bytes of its members
  - `e` + token: the epoch and the number of the last write
  - `f` + instant + row + value + length: a fact
  - `t` + level + tile number + value + length: a tile; or an ended contribution, by its end
- `{<name>:~<bucket>}<incarnation>` (correctable indexes): a hash of a row to its position; each
  shard has buckets `<number>.<shard>`, because the token of a bucket has the epoch of one writer
- `{<name>:!<number>}<incarnation>` (indexes that expire): a sorted set of equal scores, with the
  number of a span of event time + group for each span in which a group has rows
- `{<name>:^<number>}<incarnation>` (indexes with a history whose rows can move or be retracted): a
  sorted set of equal scores; each shard has sets `<number>.<shard>`
  - `e` + epoch: that of the last writer
  - `i` + digest of a row + instant, and `w` + instant + digest of the row
- `{<name>:=<number>}<incarnation>`: marks that show that a server still has its part of the index
- `{<name>}`: the header of the index, and `{narthex}:indexes`: the names of all indexes

Keys and values are those of `narthex_stores.indexes.key_layout`; a member has the key without the
group, and its last byte is that key's length. The name and the group are the hash tag, so that all
entries of a group are on one server.
"""

import hashlib
from typing import TypeAlias

import attrs

FACTS, TILES = b"f", b"t"
AFTER = {FACTS: b"g", TILES: b"u"}
"""The end of each table's members."""
BUCKETS = 1024
QUEUES = 64
INSTANTS = 64
MARKS = 256
_BUCKET = b"~"
_GROUPS = (b"\x00", b"\x01")
"""The first bytes of groups; `key_layout` describes them."""
REGISTRY = b"{narthex}:indexes"

Entry: TypeAlias = tuple[bytes, bytes, bytes]
"""(table, key without the group, value)."""


def member_of(table: bytes, suffix: bytes, value: bytes) -> bytes:
    """Render an entry."""
    return b"%b%b%b%c" % (table, suffix, value, len(suffix))


def entry_of(member: bytes) -> Entry:
    """Read an entry."""
    end = 1 + member[-1]
    return member[:1], member[1:end], member[end:-1]


def header_key(name: str) -> bytes:
    """Return the key of an index's header."""
    return b"{%b}" % name.encode()


@attrs.frozen
class IndexKeys:
    """The keys of one incarnation of an index; another incarnation of its name has other keys.

    Attributes:
        shard: The shard that is written; None for the only one.
        marks: The keys of all marks.
        queues: The keys of the queues of what expires.
        instants: The keys of the sets of the event times of rows.
    """

    name: str
    external_id: str
    shard: int | None = None
    _before: bytes = attrs.field(init=False, repr=False)
    _after: bytes = attrs.field(init=False, repr=False)
    marks: tuple[bytes, ...] = attrs.field(init=False, repr=False)
    queues: tuple[bytes, ...] = attrs.field(init=False, repr=False)
    instants: tuple[bytes, ...] = attrs.field(init=False, repr=False)

    @_before.default
    def _make_before(self) -> bytes:
        return b"{%b:" % self.name.encode()

    @_after.default
    def _make_after(self) -> bytes:
        return b"}" + hashlib.sha256(self.external_id.encode()).digest()[:6]

    @marks.default
    def _make_marks(self) -> tuple[bytes, ...]:
        return tuple(b"%b=%d%b" % (self._before, number, self._after) for number in range(MARKS))

    @queues.default
    def _make_queues(self) -> tuple[bytes, ...]:
        return tuple(b"%b!%d%b" % (self._before, number, self._after) for number in range(QUEUES))

    @instants.default
    def _make_instants(self) -> tuple[bytes, ...]:
        after = self._of_shard + self._after
        return tuple(b"%b^%d%b" % (self._before, number, after) for number in range(INSTANTS))

    @property
    def _of_shard(self) -> bytes:
        return b"" if self.shard is None else b".%d" % self.shard

    @property
    def pattern(self) -> bytes:
        """The pattern of all keys of the index, its header excepted, and of other incarnations."""
        return self._before + b"*"

    def group(self, group: bytes) -> bytes:
        """Return the key of a group."""
        return self._before + group + self._after

    def group_of(self, key: bytes) -> bytes | None:
        """Return the group of a key that matches the pattern; None for another one's key."""
        group = self._middle(key)
        return group if group is not None and group[:1] in _GROUPS else None

    def is_bucket(self, key: bytes) -> bool:
        """Whether a key that matches the pattern is that of a bucket of positions."""
        middle = self._middle(key)
        return middle is not None and middle[:1] == _BUCKET

    def _middle(self, key: bytes) -> bytes | None:
        if not key.endswith(self._after):
            return None
        return key[len(self._before) : -len(self._after)]

    def bucket(self, row: bytes) -> bytes:
        """Return the key of the bucket that holds the position of a row."""
        number = _number(row) % BUCKETS
        return b"%b%b%d%b%b" % (self._before, _BUCKET, number, self._of_shard, self._after)

    def instants_of(self, row: bytes) -> bytes:
        """Return the key of the set that holds the event time of a row."""
        return self.instants[_number(row) % INSTANTS]

    def queue(self, group: bytes) -> bytes:
        """Return the key of the queue of a group."""
        return self.queues[_number(group) % QUEUES]


def _number(hashed: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(hashed, digest_size=4).digest(), "big")
