"""Delete the rows of an index on Redis servers that no lookup may see any more, the oldest first.

The queue of `narthex_stores.indexes.expired_rows` is divided into sorted sets, whose members are
the number of a span and a group. They are added with the first calls of a batch, before its rows
are written, so that no row is without one. They are removed after the rows of their span.

Rows are deleted only before the horizon in the header, which never goes back. A batch that has read
a group before, and writes it after, loses nothing: neither the deleted rows nor the tiles that it
computes from them are visible any more. So the token of the group does not change.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

import attrs

from narthex._ir import IndexSpec
from narthex_stores.indexes.expired_rows import due_before, expired_keys, span_of
from narthex_stores.indexes.key_layout import INSTANT_BYTES, event_time_of, instant_of
from narthex_stores.indexes.redis.members import FACTS, TILES, IndexKeys
from narthex_stores.indexes.redis.scripts import DELETE_RANGES
from narthex_stores.indexes.redis.servers import Argument, ServerCall, Servers

_AT_ONCE: Final = 32
"""How many spans of groups are deleted in one round of calls."""

_LEAST: Final = 64
"""How many members of a queue are read at least, however few entries are to be deleted."""

_Due: TypeAlias = tuple[bytes, bytes]
"""(key of a queue, member)."""


@attrs.frozen(kw_only=True)
class RedisExpiry:
    """The queue of an index that expires."""

    spec: IndexSpec
    keys: IndexKeys
    servers: Servers

    def enqueuing(self, groups: Sequence[bytes], event_times: Sequence[int]) -> list[ServerCall]:
        """Return the calls that add the rows of a batch, side by side, to the queue."""
        if not self.spec.expires:
            return []
        span = span_of(self.spec)
        scored: dict[bytes, list[Argument]] = {}
        for group, number in {(g, at // span) for g, at in zip(groups, event_times, strict=True)}:
            member = instant_of(number) + group
            scored.setdefault(self.keys.queue(group), []).extend((0, member))
        return [ServerCall("ZADD", queue, members) for queue, members in scored.items()]

    def delete_before(self, horizon: int, *, most: int) -> int:
        """Delete about so many entries of spans before the horizon; return how many."""
        deleted = 0
        while deleted < most:
            due = self._due(horizon, most - deleted)
            if not due:
                break
            deleted += self._delete(due, most=most - deleted)
        return deleted

    def _delete(self, due: list[_Due], *, most: int) -> int:
        deleted = 0
        while due and deleted < most:
            count = min(_AT_ONCE, most - deleted)
            chosen, due = due[:count], due[count:]
            limit = -(-(most - deleted) // len(chosen))
            counts = self.servers.run([self._deleting(member, limit) for _, member in chosen])
            deleted += sum(counts)
            done = [place for place, count in zip(chosen, counts, strict=True) if count < limit]
            self.servers.run([ServerCall("ZREM", queue, (member,)) for queue, member in done])
            due += [place for place, count in zip(chosen, counts, strict=True) if count >= limit]
        return deleted

    def _due(self, horizon: int, most: int) -> list[_Due]:
        queues = self.keys.queues
        end = b"(" + instant_of(due_before(self.spec, horizon))
        limits = ("-", end, "LIMIT", 0, max(most // len(queues), _LEAST))
        found = self.servers.run([ServerCall("ZRANGEBYLEX", queue, limits) for queue in queues])
        due = [
            (queue, one) for queue, members in zip(queues, found, strict=True) for one in members
        ]
        return sorted(due, key=lambda place: place[1])

    def _deleting(self, member: bytes, limit: int) -> ServerCall:
        group, number = member[INSTANT_BYTES:], event_time_of(member, b"")
        facts, tiles = expired_keys(self.spec, b"", number)
        ranges: list[Argument] = [FACTS + bound for bound in facts]
        ranges += [TILES + bound for bounds in tiles for bound in bounds]
        return ServerCall(DELETE_RANGES, self.keys.group(group), (limit, *ranges))
