"""Row changes derived from the facts of a log, for a sink: rows inserted, updated or deleted.

Facts arrive twice and in any order. So a sink stores the current rows and emits only how they
change: of a keyed dataset the newest row of each key, of a keyless one each row in its newest
version. Applying the changes in order, even again from an earlier one, ends at the log's state.
"""

import enum
from collections.abc import Iterable, Iterator

import attrs

from narthex._formats import key_encoder
from narthex._formats.avro import FactCodec, fact_codec
from narthex._ir import TOMBSTONE_TIME, Cell, Fact, LogShape, SinkJobSpec
from narthex_stores import StateBatch, place_of

_SOURCE = 0
_STEP = 0
_SIDE = 0


class Op(enum.Enum):
    """The kind of a row change, with Debezium's codes."""

    CREATED = "c"
    UPDATED = "u"
    DELETED = "d"


@attrs.frozen(kw_only=True)
class RowChange:
    """The change of the current row of one identity.

    Attributes:
        identity: The key's canonical bytes, or the row_id of a keyless row.
        before: The row before the change; None if there was none.
        after: The row after the change; None if there is none.
        at_us: The instant from which the change holds, microseconds.
    """

    identity: bytes
    before: Fact | None
    after: Fact | None
    at_us: int

    @property
    def op(self) -> Op:
        """The kind of the change."""
        if self.after is None:
            return Op.DELETED
        return Op.CREATED if self.before is None else Op.UPDATED

    @property
    def fact(self) -> Fact:
        """The row that changed: its new state, or its old state if it was deleted."""
        found = self.before if self.after is None else self.after
        if found is None:
            raise TypeError("a change needs a row before or after it")
        return found


@attrs.define
class SinkState:
    """The current rows, in a job's state, and how facts change them."""

    spec: SinkJobSpec
    _codec: FactCodec = attrs.field(init=False)
    _is_keyed: bool = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        if self.spec.log.shape is LogShape.CONTRIBUTIONS:
            raise TypeError("contributions are not rows")
        self._codec = fact_codec(self.spec.log)
        self._is_keyed = self.spec.log.shape is LogShape.KEYED

    def changes(self, state: StateBatch, facts: Iterable[Fact]) -> Iterator[RowChange]:
        """Apply facts to the state; yield the change that each of them makes."""
        for fact in facts:
            if not self.spec.takes(fact):
                continue
            if not state.supersede(_SOURCE, fact.row_id, fact.version):
                continue
            identity = self._identity(fact)
            emitted = state.emitted(identity)
            before = None if emitted is None else self._codec.decode(emitted)
            after = self._after(state, identity, before, fact)
            state.set_emitted(identity, None if after is None else self._codec.encode(after))
            change = _change(identity, before, after)
            if change is not None:
                yield change

    def _identity(self, fact: Fact) -> bytes:
        if not self._is_keyed:
            return bytes(fact.row_id)
        return key_encoder(self.spec.log.keys)(fact.key)

    def _after(
        self, state: StateBatch, identity: bytes, before: Fact | None, fact: Fact
    ) -> Fact | None:
        """Return the newest row of the identity, which may be one that ended a row."""
        if not self._is_keyed:
            return fact
        place = place_of(identity)
        if fact.event_time == TOMBSTONE_TIME:
            retracted = state.leave(_STEP, _SIDE, place, fact.row_id)
            if retracted is None or before is None or before.row_id != fact.row_id:
                return before
            rows = (self._codec.decode(row) for row in state.members(_STEP, _SIDE, place))
            return max(rows, key=_order, default=None)
        if self.spec.voidable:
            # A later fact may retract a row of the key: keep all, to return to an earlier one.
            state.keep(_STEP, _SIDE, place, fact.row_id, self._codec.encode(fact))
        return fact if before is None or _order(fact) > _order(before) else before


def _order(fact: Fact) -> tuple[int, bytes]:
    return fact.event_time, fact.version


def _change(identity: bytes, before: Fact | None, after: Fact | None) -> RowChange | None:
    stood = before if before is not None and before.alive else None
    stands = after if after is not None and after.alive else None
    if stood is None and stands is None:
        return None
    if stood is not None and stands is not None and _content(stood) == _content(stands):
        return None
    newest = after or before
    at_us = newest.event_time if newest is not None else 0
    return RowChange(identity=identity, before=stood, after=stands, at_us=at_us)


def _content(fact: Fact) -> tuple[int, tuple[Cell, ...], tuple[Cell, ...]]:
    return fact.event_time, fact.key, fact.values
