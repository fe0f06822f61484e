"""The header of an index: its spec, its writer's epoch and the log offsets that it contains."""

import json
from collections.abc import Mapping, Sequence

import attrs

from narthex._base import Json, from_plain, to_plain
from narthex._ir import AssetSpec, IndexSpec
from narthex_stores.indexes.protocol import (
    IndexMismatchError,
    IndexMissingError,
    IndexPartLostError,
    Offsets,
)
from narthex_stores.indexes.redis.members import IndexKeys, header_key
from narthex_stores.indexes.redis.scripts import ADVANCE, RAISE_EPOCH
from narthex_stores.indexes.redis.servers import Reply, ServerCall, Servers

_OFFSET = b"o"
_NEWEST = b"newest"
_HORIZON = b"horizon"


@attrs.frozen(kw_only=True)
class HeaderState:
    """The changing part of a header.

    Attributes:
        newest: The greatest event time of the index's rows, if it has a history and rows.
        horizon: The event time before which rows may be missing; None if none are.
    """

    offsets: Offsets
    newest: int | None
    horizon: int | None


@attrs.frozen
class OwnNewest:
    """The event time of the newest row of a shard; None without rows."""

    event_time: int | None


def spec_text(spec: AssetSpec) -> str:
    """Return the text that the header stores for a spec."""
    plain: Json = to_plain(spec)
    return json.dumps(plain, sort_keys=True)


def incarnation_of(servers: Servers, name: str, spec: IndexSpec) -> str:
    """Return the external id of the index of a name.

    Raises:
        IndexMissingError: There is no such index.
        IndexMismatchError: The index was created for another spec.
    """
    call = ServerCall("HMGET", header_key(name), ("external_id", "spec", "ready"))
    ((external_id, found, ready),) = servers.run([call])
    if external_id is None or ready is None:
        raise IndexMissingError(f"no index `{name}` exists in the index store")
    if from_plain(json.loads(found)) != spec:
        raise IndexMismatchError(f"`{name}` is an index of another spec")
    decoded: str = external_id.decode()
    return decoded


@attrs.frozen
class Header:
    """The header of one incarnation, as calls and their replies.

    Attributes:
        shard: The shard whose writer's epoch it has; None for the only one.
    """

    keys: IndexKeys
    shard: int | None = None

    @property
    def _key(self) -> bytes:
        return header_key(self.keys.name)

    def reading(self, servers: Servers) -> list[ServerCall]:
        """Return the calls that read it and one mark of each server."""
        marks = servers.one_on_each(self.keys.marks)
        return [ServerCall("HGETALL", self._key), *(ServerCall("GET", mark) for mark in marks)]

    def read(
        self, servers: Servers, calls: Sequence[ServerCall], replies: Sequence[Reply]
    ) -> HeaderState:
        """Return the state that the replies to `reading` contain.

        Raises:
            IndexMissingError: The index was removed, or replaced by another one.
            IndexPartLostError: A server has lost its part of the index.
        """
        fields = replies[0]
        # A pair after a pair: the protocol has no mappings.
        found = dict(zip(fields[::2], fields[1::2], strict=True))
        if found.get(b"external_id") != self.keys.external_id.encode():
            raise IndexMissingError(
                f"index `{self.keys.name}` was removed, or replaced by another one of its name"
            )
        for call, mark in zip(calls[1:], replies[1:], strict=True):
            if mark is None:
                raise IndexPartLostError(
                    f"server `{servers.names(call.key)}` has lost its part of index "
                    f"`{self.keys.name}`; restore the server's data, or delete the index and "
                    "commit again, which fills it from its log"
                )
        return HeaderState(
            offsets={
                _partition_of(field): int(offset)
                for field, offset in found.items()
                if field.startswith(_OFFSET) and b"\x00" in field
            },
            newest=_number_of(found.get(_NEWEST)),
            horizon=_number_of(found.get(_HORIZON)),
        )

    def reading_bounds(self) -> ServerCall:
        """Return the call that reads only newest row and horizon; its reply is for `bounds_of`."""
        return ServerCall("HMGET", self._key, (_NEWEST, _HORIZON))

    def raising(self, epoch: int) -> ServerCall:
        """Return the call that refuses writers of earlier epochs from then on."""
        arguments = (self.keys.external_id, epoch, self._epoch_field)
        return ServerCall(RAISE_EPOCH, self._key, arguments)

    @property
    def _epoch_field(self) -> str:
        return "epoch" if self.shard is None else f"epoch of {self.shard}"

    def advancing(
        self,
        offsets: Mapping[tuple[str, int], int],
        epoch: int,
        *,
        newest: int | None = None,
        horizon: int | None = None,
        own_newest: OwnNewest | None = None,
    ) -> ServerCall:
        """Return the call that stores offsets, newest event time and horizon; none goes back.

        Args:
            offsets: The offsets of the log.
            epoch: The epoch of the writer.
            newest: The event time of the newest row of a batch, where it only grows.
            horizon: The event time before which rows may be missing.
            own_newest: The newest row of the shard, where it may go back.
        """
        arguments: list[bytes | str | int] = [self.keys.external_id, epoch, self._epoch_field]
        if own_newest is None:
            arguments += ["", ""]
        else:
            stored = "" if own_newest.event_time is None else own_newest.event_time
            arguments += [f"newest of {'' if self.shard is None else self.shard}", stored]
        for (topic, partition), offset in offsets.items():
            arguments += [
                _OFFSET + topic.encode() + b"\x00" + partition.to_bytes(4, "big"),
                offset,
            ]
        for field, instant in ((_NEWEST, newest), (_HORIZON, horizon)):
            arguments += [] if instant is None else [field, instant]
        return ServerCall(ADVANCE, self._key, arguments)


def bounds_of(reply: Reply) -> tuple[int | None, int | None]:
    """Return (newest, horizon) of the reply to `Header.reading_bounds`."""
    newest, horizon = reply
    return _number_of(newest), _number_of(horizon)


def _number_of(stored: bytes | None) -> int | None:
    return None if stored is None else int(stored)


def _partition_of(field: bytes) -> tuple[str, int]:
    return field[1:-5].decode(), int.from_bytes(field[-4:], "big")


def fresh_token(epoch: int, writer: str, number: int) -> str:
    """Return the token of one write of one writer; it takes groups over with the number 0."""
    return f"e{epoch}:{writer}:{number}"
