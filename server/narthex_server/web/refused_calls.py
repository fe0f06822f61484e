"""Refused calls, counted until they are written down: a caller adds no row for each of its calls.

Calls without a valid token are counted by their address, and those of a token by its route. So in
each minute, the control log gets at most `MOST_ADDRESSES + MOST_OF_TOKENS + 2` rows about them.
"""

import datetime as dt
import ipaddress
import threading
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias, TypeVar

import attrs

from narthex._base import Json
from narthex_server.background_loop import BackgroundLoop

MOST_ADDRESSES: Final = 20
"""The greatest number of addresses with a row each; the others are counted together."""

MOST_OF_TOKENS: Final = 100
"""The same of routes that a token called."""

MOST_LISTED: Final = 10
"""The greatest number of kinds of calls, and of cancelled tags, that a row lists."""

OTHERS: Final = "other"
OTHER_ADDRESSES: Final = "other addresses"
OTHER_TOKENS: Final = "other tokens"

MINUTE: Final = dt.timedelta(minutes=1)
_GREATEST_ADDRESS: Final = 64

Entry: TypeAlias = Mapping[str, Json]
_Key: TypeAlias = tuple[str, str, str]
_K = TypeVar("_K")


@attrs.define
class _Counted:
    """Calls that are counted together.

    Attributes:
        first: The entry of the first one.
        calls: How many there were of each verb, route and status.
    """

    first: dict[str, Json]
    began: dt.datetime
    ended: dt.datetime
    calls: dict[str, int] = attrs.field(factory=dict)
    cancelled_tags: dict[str, None] = attrs.field(factory=dict)

    def add(self, entry: Entry, at: dt.datetime) -> None:
        kind = f"{entry['verb']} {entry['path']} {entry['status']}"
        if kind not in self.calls and len(self.calls) >= MOST_LISTED:
            kind = OTHERS
        self.calls[kind] = self.calls.get(kind, 0) + 1
        tags = entry.get("cancelled_tags")
        for tag in tags if isinstance(tags, list) else ():
            if len(self.cancelled_tags) < MOST_LISTED:
                self.cancelled_tags[str(tag)] = None
        self.ended = at

    def row(self) -> dict[str, Json]:
        """Return the first entry, with what is known about all of them."""
        row = self.first | {
            "count": sum(self.calls.values()),
            "calls": {**self.calls},
            "from": self.began.isoformat(),
            "to": self.ended.isoformat(),
        }
        return row | ({"cancelled_tags": [*self.cancelled_tags]} if self.cancelled_tags else {})


@attrs.define
class RefusedCalls:
    """The refused calls since the last `take`; any number of threads may use it."""

    _by_address: dict[str, _Counted] = attrs.field(factory=dict)
    _by_token: dict[_Key, _Counted] = attrs.field(factory=dict)
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    def note_stranger(self, entry: Entry, *, address: str, at: dt.datetime) -> None:
        """Count a call without a valid token; the address is from `told_address`."""
        with self._lock:
            if address not in self._by_address and len(self._by_address) >= MOST_ADDRESSES:
                address = OTHER_ADDRESSES
            _count(self._by_address, address, {**entry, "address": address}, at)

    def note_holder(self, entry: Entry, *, at: dt.datetime) -> None:
        """Count a call of the token that the entry names."""
        key = (str(entry["who"]), str(entry["token_id"]), f"{entry['verb']} {entry['path']}")
        with self._lock:
            if key not in self._by_token and len(self._by_token) >= MOST_OF_TOKENS:
                key = (OTHER_TOKENS, "", "")
                entry = {**entry, "who": OTHER_TOKENS, "token_id": ""}
            _count(self._by_token, key, entry, at)

    def take(self) -> list[dict[str, Json]]:
        """Return the rows, in the order of their first calls, and begin to count anew."""
        with self._lock:
            counted = [*self._by_address.values(), *self._by_token.values()]
            self._by_address, self._by_token = {}, {}
        return [one.row() for one in sorted(counted, key=lambda one: one.began)]

    def loop(self, write: Callable[[], object]) -> BackgroundLoop:
        """Return the thread that writes the rows at the end of each minute, and at its own end."""
        return BackgroundLoop(
            write,
            name="refused-calls",
            event="refused_calls_not_written",
            pause_s=lambda: _rest_of_minute_s(dt.datetime.now(dt.UTC)),
            ends_with_round=True,
        )


def told_address(host: str) -> str:
    """Return the address to count a caller by: of IPv6, the network of 64 bits that a site has.

    A proxy may have told any text.
    """
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return "".join(one for one in host[:_GREATEST_ADDRESS] if one.isprintable())
    if isinstance(found, ipaddress.IPv6Address):
        mapped = found.ipv4_mapped
        return str(mapped or ipaddress.IPv6Network((int(found), 64), strict=False))
    return str(found)


def _count(counted: dict[_K, _Counted], key: _K, entry: Entry, at: dt.datetime) -> None:
    found = counted.get(key)
    if found is None:
        found = counted[key] = _Counted(first={**entry}, began=at, ended=at)
    found.add(entry, at)


def _rest_of_minute_s(now: dt.datetime) -> float:
    return (MINUTE - dt.timedelta(seconds=now.second, microseconds=now.microsecond)).total_seconds()
