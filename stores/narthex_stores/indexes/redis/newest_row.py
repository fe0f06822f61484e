"""The event times of the rows of an index on Redis servers, where its newest row may be retracted.

Each row has two members in one of several sorted sets: one to find its event time by the row, one
to find the greatest event time of a set. They are stored before the row itself, so a row is never
without them. A batch that was interrupted in between is applied again, and stores them again.
"""

import hashlib
from collections.abc import Mapping
from typing import Final

import attrs

from narthex._ir import IndexSpec
from narthex_stores.indexes.key_layout import event_time_of, instant_of
from narthex_stores.indexes.newest_rows import later, only_grows
from narthex_stores.indexes.redis.members import IndexKeys
from narthex_stores.indexes.redis.scripts import FORGET_INSTANTS, STORE_INSTANTS
from narthex_stores.indexes.redis.servers import Argument, ServerCall, Servers

_BY_INSTANT: Final = b"w"
_AFTER: Final = b"x"
_ROW_BYTES: Final = 16


@attrs.frozen(kw_only=True)
class RedisNewestRow:
    """The event times of the rows of one shard of an index."""

    spec: IndexSpec
    keys: IndexKeys
    servers: Servers

    @property
    def is_tracked(self) -> bool:
        """Whether the index stores the event time of each row."""
        return self.spec.history_us is not None and not only_grows(self.spec)

    def storing(self, instants: Mapping[bytes, int | None], epoch: int) -> list[ServerCall]:
        """Return the calls that store event times by row; None removes a row.

        Each replies 1, and is refused if a later epoch has written to its set.
        """
        arguments: dict[bytes, list[Argument]] = {}
        for row, instant in instants.items():
            digest = hashlib.blake2b(row, digest_size=_ROW_BYTES).digest()
            stored = b"" if instant is None else instant_of(instant)
            arguments.setdefault(self.keys.instants_of(row), []).extend((digest, stored))
        return [
            ServerCall(STORE_INSTANTS, key, (epoch, *pairs)) for key, pairs in arguments.items()
        ]

    def event_time(self) -> int | None:
        """Return the greatest event time of the rows; None without rows."""
        newest_first = (b"(" + _AFTER, b"[" + _BY_INSTANT, "LIMIT", 0, 1)
        found = self.servers.run(
            [ServerCall("ZREVRANGEBYLEX", key, newest_first) for key in self.keys.instants]
        )
        newest = None
        for members in found:
            for member in members:
                newest = later(newest, event_time_of(member, _BY_INSTANT))
        return newest

    def forget(self, horizon: int, *, most: int) -> int:
        """Forget up to about so many rows before an event time; return how many."""
        if not self.is_tracked or most <= 0:
            return 0
        each = max(most // len(self.keys.instants), 1)
        end = _BY_INSTANT + instant_of(horizon)
        return sum(
            self.servers.run(
                [ServerCall(FORGET_INSTANTS, key, (end, each)) for key in self.keys.instants]
            )
        )
