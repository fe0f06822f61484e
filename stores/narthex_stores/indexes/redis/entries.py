"""All entries of an index on Redis servers, for audits."""

from collections.abc import Iterator
from enum import Enum
from typing import TypeAlias

from narthex_stores.indexes.redis.members import AFTER, FACTS, TILES, IndexKeys, entry_of
from narthex_stores.indexes.redis.row_positions import unpack_position
from narthex_stores.indexes.redis.servers import Reply, ServerCall, Servers


class EntryTable(Enum):
    """The table of LMDB that has an entry of the same key and value."""

    FACTS = "facts"
    TILES = "tiles"
    ROWS = "rows"


TableEntry: TypeAlias = tuple[EntryTable, bytes, bytes]
"""(table, key, value), as LMDB stores them."""

_ALL = (b"[" + FACTS, b"(" + AFTER[TILES])
_TABLES = {FACTS: EntryTable.FACTS, TILES: EntryTable.TILES}


def all_entries(keys: IndexKeys, servers: Servers) -> Iterator[list[TableEntry]]:
    """Yield the entries of an index in portions, in any order; some may come twice.

    Each group is read at one instant. While slots move between servers, groups may be missed.

    Raises:
        TransientError: A server did not reply.
    """
    for found in servers.scan(keys.pattern):
        groups = {key: group for key in found if (group := keys.group_of(key)) is not None}
        buckets = [key for key in found if keys.is_bucket(key)]
        calls = [ServerCall("ZRANGEBYLEX", key, _ALL) for key in groups]
        calls += [ServerCall("HGETALL", key) for key in buckets]
        replies = servers.run(calls)
        entries: list[TableEntry] = []
        for group, members in zip(groups.values(), replies, strict=False):
            for member in members:
                table, suffix, value = entry_of(member)
                entries.append((_TABLES[table], group + suffix, value))
        for fields in replies[len(groups) :]:
            entries += _positions(fields)
        yield entries


def _positions(fields: Reply) -> Iterator[TableEntry]:
    for row, value in zip(fields[::2], fields[1::2], strict=True):
        if row != b"e":
            yield EntryTable.ROWS, row, unpack_position(value).packed_without_left()
