"""Search an index store for keys that must not be in it: files, or the keys of Redis servers.

All that is under the names of indexes is read, in whatever form: a write that came too late may
have left a part of an index that was destroyed.
"""

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from narthex.settings import Settings
from narthex_stores.errors import PermanentError
from narthex_stores.indexes import RedisIndexStore, index_store
from narthex_stores.indexes.redis.members import REGISTRY
from narthex_stores.indexes.redis.servers import Reply, ServerCall, Servers
from narthex_stores.residue import Needle, Searched, names_below, search_files


def search_indexes(
    settings: Settings, names: Collection[str], needles: Sequence[Needle]
) -> dict[str, Searched]:
    """Read all that the index store has of these indexes, in whatever form, and search it.

    An index that does not exist has nothing.

    Raises:
        StoreError: A server did not answer, or has a key of an unknown type.
    """
    store = index_store(settings)
    if not isinstance(store, RedisIndexStore):
        return {name: search_files(settings.index_dir / name, needles) for name in sorted(names)}
    results = dict.fromkeys(sorted(names), Searched())
    servers = store.servers()
    for keys in servers.scan(_KEYS_OF_INDEXES):
        wanted = [key for key in keys if _index_of(key) in results]
        for key, parts in _contents(servers, wanted):
            name = _index_of(key)
            is_found = any(needle.is_in_index(part) for needle in needles for part in parts)
            results[name] = results[name].plus(
                Searched(
                    items=1,
                    size=sum(map(len, parts)),
                    found=(f"a key of index {name}",) if is_found else (),
                )
            )
    return results


def index_names(settings: Settings) -> frozenset[str]:
    """Return the names of which the index store has anything, also what is left of an index.

    Raises:
        StoreError: A server did not answer.
    """
    store = index_store(settings)
    if not isinstance(store, RedisIndexStore):
        return names_below(settings.index_dir)
    servers = store.servers()
    (registered,) = servers.run([ServerCall("HKEYS", REGISTRY)])
    known = frozenset(name.decode() for name in registered)
    return known.union(
        *(frozenset(map(_index_of, keys)) for keys in servers.scan(_KEYS_OF_INDEXES))
    )


_KEYS_OF_INDEXES: Final = b"{*"
_READ_ALL: Final[Mapping[bytes, tuple[str, tuple[bytes | int, ...]]]] = {
    b"string": ("GET", ()),
    b"hash": ("HGETALL", ()),
    b"zset": ("ZRANGE", (0, -1)),
    b"set": ("SMEMBERS", ()),
    b"list": ("LRANGE", (0, -1)),
}
"""How the whole value of a key is read, by its type."""

_AT_ONCE: Final = 100
"""How many keys are read in one round trip."""


def _index_of(key: bytes) -> str:
    """Return the index of a key on a Redis server: its hash tag begins with the name."""
    tag = key.removeprefix(b"{").partition(b"}")[0]
    return tag.partition(b":")[0].decode(errors="replace")


def _contents(servers: Servers, keys: Sequence[bytes]) -> Iterator[tuple[bytes, list[bytes]]]:
    """Yield keys with all that is in them, themselves first."""
    for at in range(0, len(keys), _AT_ONCE):
        some = keys[at : at + _AT_ONCE]
        types = servers.run([ServerCall("TYPE", key) for key in some])
        # A key may have been deleted since it was listed.
        there = [(key, kind) for key, kind in zip(some, types, strict=True) if kind != b"none"]
        unknown = {kind for _, kind in there} - _READ_ALL.keys()
        if unknown:
            raise PermanentError(f"an index has keys of the types {sorted(unknown)}")
        calls = [ServerCall(_READ_ALL[kind][0], key, _READ_ALL[kind][1]) for key, kind in there]
        for (key, _), reply in zip(there, servers.run(calls), strict=True):
            yield key, [key, *_texts_in(reply)]


def _texts_in(reply: Reply) -> Iterator[bytes]:
    if isinstance(reply, bytes):
        yield reply
    elif isinstance(reply, list):
        yield from itertools.chain.from_iterable(map(_texts_in, reply))
