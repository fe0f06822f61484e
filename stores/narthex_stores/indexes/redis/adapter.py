"""Create, find and remove indexes on servers of the Redis protocol."""

import json
import secrets
import time
from collections.abc import Callable

import attrs

from narthex._base import from_plain
from narthex._ir import AssetKind, AssetSpec, IndexSpec
from narthex_stores.adapters.directories import checked_name
from narthex_stores.adapters.protocol import Absent, Listed, Match, Mismatch, Probe, Unknown
from narthex_stores.errors import ForeignAssetError, PermanentError, StoreError, TransientError
from narthex_stores.indexes.redis.header import spec_text
from narthex_stores.indexes.redis.members import REGISTRY, IndexKeys, header_key
from narthex_stores.indexes.redis.scripts import CREATE, READY, REMOVE
from narthex_stores.indexes.redis.servers import ServerCall, Servers

_FIELDS = ("external_id", "spec", "asset_id", "ready")


@attrs.frozen
class _StoredIndex:
    external_id: str
    spec: str
    asset_id: int
    is_ready: bool


@attrs.frozen(kw_only=True)
class RedisIndexAdapter:
    """Creates, finds and removes the indexes of an index store.

    An index exists once its header is marked as ready, which is after its marks are on the servers.

    Attributes:
        connect: Returns the servers; called for each operation.
    """

    connect: Callable[[], Servers]
    kind: AssetKind = AssetKind.INDEX

    def probe(self, name: str, spec: AssetSpec, *, timeout_s: float) -> Probe:
        """Probe the index of that name."""
        del timeout_s
        try:
            (found,) = _find(self.connect(), [name])
        except StoreError as error:
            return Unknown(str(error))
        if found is None or not found.is_ready:
            return Absent()
        if _same(found.spec, spec):
            return Match(found.external_id)
        return Mismatch(f"`{name}` is an index of another spec")

    def create(self, name: str, spec: AssetSpec, *, asset_id: int, timeout_s: float) -> None:
        """Create the index, unless the name is taken; complete one that was interrupted."""
        del timeout_s
        key = header_key(checked_name(name))
        if not isinstance(spec, IndexSpec):
            raise PermanentError(f"{type(spec).__name__} is not the spec of an index")
        servers, text = self.connect(), spec_text(spec)
        servers.run([ServerCall("HSETNX", REGISTRY, (name, asset_id))])
        call = ServerCall(CREATE, key, (secrets.token_hex(), text, asset_id))
        ((external_id, found, ready),) = servers.run([call])
        if ready is not None or found.decode() != text:
            return
        marks = IndexKeys(name, external_id.decode()).marks
        servers.run([ServerCall("SET", mark, (external_id,)) for mark in marks])
        servers.run([ServerCall(READY, key, (external_id,))])

    def destroy(self, name: str, *, external_id: str | None, timeout_s: float) -> None:
        """Remove the index with that external id, its header last.

        A call that runs out of time has removed some keys; the next one removes the others.
        """
        ends = time.monotonic() + timeout_s
        key = header_key(checked_name(name))
        servers = self.connect()
        (found,) = _find(servers, [name])
        if found is not None and external_id not in (None, found.external_id):
            raise ForeignAssetError(
                f"index `{name}` is `{found.external_id}`, not `{external_id}`; it is not destroyed"
            )
        for keys in servers.scan(IndexKeys(name, "").pattern):
            servers.run([ServerCall("UNLINK", one) for one in keys])
            if time.monotonic() > ends:
                raise TransientError(
                    f"index `{name}` has more keys than {timeout_s:g} s suffice to remove; "
                    "repeat the call"
                )
        if found is not None:
            servers.run([ServerCall(REMOVE, key, (found.external_id,))])
        servers.run([ServerCall("HDEL", REGISTRY, (name,))])

    def list(self, prefix: str, *, timeout_s: float) -> tuple[Listed, ...]:
        """List the indexes whose names have the prefix."""
        del timeout_s
        servers = self.connect()
        (registered,) = servers.run([ServerCall("HKEYS", REGISTRY)])
        names = sorted(name for one in registered if (name := one.decode()).startswith(prefix))
        return tuple(
            Listed(name=name, external_id=found.external_id, asset_id=found.asset_id)
            for name, found in zip(names, _find(servers, names), strict=True)
            if found is not None
        )


def _same(found: str, spec: AssetSpec) -> bool:
    try:
        return from_plain(json.loads(found)) == spec
    except ValueError:
        return False


def _find(servers: Servers, names: list[str]) -> list[_StoredIndex | None]:
    replies = servers.run([ServerCall("HMGET", header_key(name), _FIELDS) for name in names])
    return [
        None
        if external_id is None
        else _StoredIndex(external_id.decode(), spec.decode(), int(asset_id), ready is not None)
        for external_id, spec, asset_id, ready in replies
    ]
