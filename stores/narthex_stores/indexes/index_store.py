"""The index store of an installation: the only way to open, create and remove its indexes."""

from pathlib import Path
from typing import Protocol

import attrs

from narthex._ir import IndexSpec
from narthex.settings import Settings
from narthex_stores.adapters.protocol import Adapter
from narthex_stores.indexes.adapter import index_adapter, shard_path
from narthex_stores.indexes.lmdb.index import LmdbIndex
from narthex_stores.indexes.protocol import IndexHandle
from narthex_stores.indexes.redis.adapter import RedisIndexAdapter
from narthex_stores.indexes.redis.addresses import StoreAddress, parse_address
from narthex_stores.indexes.redis.index import RedisIndex
from narthex_stores.indexes.redis.servers import Servers, shared_servers
from narthex_stores.indexes.sharded import ShardedIndex


class IndexStore(Protocol):
    """Opens, creates and removes indexes by their physical names."""

    @property
    def is_shared(self) -> bool:
        """Whether all machines reach the same indexes; else each machine has its own."""

    def open(
        self, name: str, spec: IndexSpec, *, readonly: bool = False, shard: int | None = None
    ) -> IndexHandle:
        """Open an index; a process has it open once for writing, or once for reading.

        Args:
            name: The physical name of the index.
            spec: The spec that the index was created for.
            readonly: Whether the index is only read.
            shard: The shard that is written, under the epoch of its own slot; None for all of them.

        Raises:
            IndexMissingError: The index does not exist.
            IndexMismatchError: The index was created for another spec.
            StoreError: The store does not answer.
        """

    def adapter(self) -> Adapter:
        """Return the adapter that creates, finds and removes indexes."""


@attrs.frozen
class LmdbIndexStore:
    """Directories of one machine.

    Attributes:
        root: The directory that has a directory for each index.
    """

    root: Path
    is_shared: bool = attrs.field(default=False, init=False)

    def open(
        self, name: str, spec: IndexSpec, *, readonly: bool = False, shard: int | None = None
    ) -> IndexHandle:
        """Open an index of this machine: one environment for each shard."""
        path = self.root / name
        if shard is not None or spec.shards == 1:
            return LmdbIndex(shard_path(path, spec, shard or 0), spec, readonly=readonly)
        return ShardedIndex.of(
            name,
            spec,
            lambda each: LmdbIndex(shard_path(path, spec, each), spec, readonly=readonly),
        )

    def adapter(self) -> Adapter:
        """Return the adapter of the directories."""
        return index_adapter(self.root)


@attrs.frozen
class RedisIndexStore:
    """Servers of the Redis protocol; this process connects to them when it first needs them."""

    address: StoreAddress
    is_shared: bool = attrs.field(default=True, init=False)

    def open(
        self, name: str, spec: IndexSpec, *, readonly: bool = False, shard: int | None = None
    ) -> RedisIndex:
        """Open an index; any number of processes may have it open, and the epoch decides.

        All shards of an index share its keys; each has an epoch of its own.
        """
        del readonly
        return RedisIndex(self.servers(), name, spec, shard=shard)

    def adapter(self) -> Adapter:
        """Return the adapter of the indexes on the servers."""
        return RedisIndexAdapter(connect=self.servers)

    def servers(self) -> Servers:
        """Return the servers, which this process shares."""
        return shared_servers(self.address)


def index_store(settings: Settings) -> IndexStore:
    """Return the index store that an installation selects; nothing is connected yet.

    Raises:
        PermanentError: The address is not one of servers of the Redis protocol.
    """
    if not settings.index_store:
        return LmdbIndexStore(settings.index_dir)
    return RedisIndexStore(
        parse_address(
            settings.index_store,
            password=settings.index_store_password,
            ca_file=settings.ca_file,
        )
    )
