# mypy: disable-error-code="explicit-any,no-untyped-call"
"""Calls to the servers of an index store: many at once, one round trip to all of them.

A call works on one key, and may run twice. The calls to a server are written before any reply is
read, so a round takes as long as the slowest server. A call that was redirected, or to which no
server replied, is repeated once the slots of the cluster were read again.

If the address asks for replicas, a call that writes, or reads for a write, counts once so many
replicas of its server have everything that the server had written by then. So a replica that takes
the place of its primary has all groups that offsets say are stored.
"""

import functools
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Protocol, TypeAlias

import attrs
import redis
from hiredis import pack_command
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.crc import key_slot
from redis.exceptions import (
    AskError,
    AuthenticationError,
    ClusterDownError,
    NoScriptError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    SlotNotCoveredError,
    TryAgainError,
)
from redis.retry import Retry

from narthex_stores.errors import PermanentError, TransientError
from narthex_stores.indexes.protocol import IndexFenced, IndexMissingError
from narthex_stores.indexes.redis.addresses import StoreAddress
from narthex_stores.indexes.redis.scripts import READ_GROUP, SCRIPTS, Script

Argument: TypeAlias = bytes | str | int
Reply: TypeAlias = Any
"""The reply of a server: bytes, an int, None or a list of them."""

TIMEOUT_S: Final = 10.0
_ROUNDS: Final = 3
_REPLICATED_WITHIN_S: Final = 2.0
_READS: Final = frozenset({READ_GROUP, "GET", "HGETALL", "HKEYS", "HMGET", "ZRANGEBYLEX"})
"""Calls that no write depends on."""
_PASSING: Final = (AskError, ClusterDownError, ReadOnlyError, TryAgainError)
"""Errors of a cluster whose slots have moved or are moving, `MovedError` included."""
_NO_REPLICAS: Final = "NOREPLICAS"
"""The beginning of the error of a server that accepts no writes without replicas."""
_UNREACHABLE: Final = (redis.ConnectionError, redis.TimeoutError, OSError)


@attrs.frozen
class ServerCall:
    """A script to run on one key, or a command.

    Attributes:
        what: The script, or the name of a command whose first argument is the key.
    """

    what: Script | str
    key: bytes
    arguments: Sequence[Argument] = ()

    def words(self) -> tuple[Argument, ...]:
        """Return the words of the protocol."""
        if isinstance(self.what, Script):
            return ("EVALSHA", self.what.digest, 1, self.key, *self.arguments)
        return (self.what, self.key, *self.arguments)


class Servers(Protocol):
    """Servers that hold keys."""

    def run(self, calls: Sequence[ServerCall]) -> list[Reply]:
        """Run calls, in one round trip unless slots move; return their replies in order.

        Raises:
            IndexFenced: A writer of a later epoch has taken the index over.
            IndexMissingError: The index was replaced by another one of its name.
            TransientError: A server did not reply; any of the calls may have taken effect.
            PermanentError: A server refused a call.
        """

    def one_on_each(self, keys: Sequence[bytes]) -> list[bytes]:
        """Return the first of these keys on each server; the first key stands for them all."""

    def names(self, key: bytes) -> str:
        """Return the address of the server that holds a key, for people."""

    def scan(self, pattern: bytes) -> Iterator[list[bytes]]:
        """Yield the keys that match a pattern, from all servers, in portions."""


@attrs.define(eq=False)
class _Round:
    calls: Sequence[ServerCall]
    replies: list[Reply]
    again: list[int] = attrs.field(factory=list)
    reason: Exception | None = None

    def repeat(self, places: Sequence[int], reason: Exception) -> None:
        self.again += places
        self.reason = reason


@attrs.frozen(eq=False)
class _Sent:
    """A connection on which calls were sent, and their places in the round.

    Attributes:
        replicas: For how many replicas the server then waits.
    """

    pool: redis.ConnectionPool
    connection: Any
    places: list[int]
    replicas: int = 0

    def give_up(self) -> None:
        """Close the connection, because replies may still come."""
        self.connection.disconnect()
        self.pool.release(self.connection)

    def require_replicas(self) -> None:
        """Read how many replicas have confirmed all calls.

        Raises:
            ConnectionError: They are too few.
        """
        confirmed = self.connection.read_response()
        if confirmed < self.replicas:
            raise redis.ConnectionError(f"{confirmed} of {self.replicas} replicas have the write")

    def load_scripts(self) -> None:
        """Let the server learn all scripts; it has none after a restart."""
        words = [("SCRIPT", "LOAD", script.source) for script in SCRIPTS]
        self.connection.send_packed_command(self.connection.pack_commands(words))
        for _ in words:
            self.connection.read_response()


class RedisServers:
    """One server, or all servers of the cluster that one belongs to.

    Attributes:
        round_trips: How many rounds of calls were made.
    """

    round_trips: int

    def __init__(self, address: StoreAddress, *, timeout_s: float = TIMEOUT_S) -> None:
        """Connect.

        Raises:
            TransientError: The server does not reply.
            PermanentError: It refuses the connection.
        """
        self.address = address
        self.round_trips = 0
        self._lock = threading.Lock()
        self._first: dict[bytes, list[bytes]] = {}
        self._options = _options(address, timeout_s)
        self._replicated_within_ms = int(min(_REPLICATED_WITHIN_S, timeout_s / 2) * 1000)
        self._cluster: RedisCluster | None = None
        with self._explained():
            self._single, is_cluster = self._first_that_replies()
            if is_cluster:
                self._cluster = RedisCluster(
                    startup_nodes=[ClusterNode(host, port) for host, port in address.servers],
                    require_full_coverage=False,
                    **self._options,
                )
        if len(address.servers) > 1 and not is_cluster:
            self.close()
            raise PermanentError(
                f"`{address}` names several servers, and the first that replies is not part of a "
                "cluster; name one server, or servers of one cluster"
            )

    def _first_that_replies(self) -> tuple[redis.Redis, bool]:
        """Return the client of a server, and whether the server is part of a cluster."""
        silent: Exception | None = None
        for host, port in self.address.servers:
            client = redis.Redis(host=host, port=port, **self._options)
            try:
                return client, client.info("cluster").get("cluster_enabled") == 1
            except AuthenticationError:
                raise
            except _UNREACHABLE as error:
                silent = error
        raise self._silent(silent) from silent

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except IndexMissingError:
            raise  # it is an `OSError` too
        except AuthenticationError as error:
            raise PermanentError(
                f"the index store at `{self.address}` refused the account "
                f"`{self.address.user or 'default'}`: {error}; set `NARTHEX_INDEX_STORE_PASSWORD`"
            ) from None
        except ResponseError as error:
            raise PermanentError(f"the index store at `{self.address}` refused: {error}") from None
        except (RedisError, OSError) as error:
            raise self._silent(error) from error

    def _silent(self, error: Exception | None) -> TransientError:
        return TransientError(
            f"the index store at `{self.address}` did not answer all of a call: {error}; "
            "it is safe to repeat the call once its servers are up"
        )

    def run(self, calls: Sequence[ServerCall]) -> list[Reply]:
        """Run calls, in one round trip unless slots move; return their replies in order."""
        replies: list[Reply] = [None] * len(calls)
        left = list(range(len(calls)))
        reason: Exception | None = None
        for _ in range(_ROUNDS):
            if not left:
                return replies
            made = _Round(calls, replies)
            with self._explained():
                if reason is not None:
                    self._read_slots()
                self._round(made, left)
            left, reason = sorted(set(made.again)), made.reason
        if left:
            raise self._silent(reason)
        return replies

    def _read_slots(self) -> None:
        if self._cluster is not None:
            with self._lock:
                self._cluster.nodes_manager.initialize()
                self._first.clear()

    def _pool(self, slot: int) -> redis.ConnectionPool:
        if self._cluster is None:
            return self._single.connection_pool
        node = self._cluster.nodes_manager.get_node_from_slot(slot)
        client = self._cluster.get_redis_connection(node)
        return client.connection_pool

    def _by_server(
        self, made: _Round, places: Sequence[int]
    ) -> dict[redis.ConnectionPool, list[int]]:
        if self._cluster is None:
            return {self._single.connection_pool: list(places)}
        slots: dict[int, list[int]] = {}
        for place in places:
            slots.setdefault(key_slot(made.calls[place].key), []).append(place)
        found: dict[redis.ConnectionPool, list[int]] = {}
        for slot, there in slots.items():
            try:
                found.setdefault(self._pool(slot), []).extend(there)
            except SlotNotCoveredError as error:
                made.repeat(there, error)
        return found

    def _round(self, made: _Round, places: Sequence[int]) -> None:
        self.round_trips += 1
        sent: list[_Sent] = []
        try:
            for pool, there in self._by_server(made, places).items():
                self._send(made, pool, there, sent)
            while sent:
                refused = self._receive(made, sent[-1])
                sent.pop()
                if refused:
                    raise _explain(refused[0])
        finally:
            # An error is raised here before all replies were read.
            for one in sent:
                one.give_up()

    def _send(
        self, made: _Round, pool: redis.ConnectionPool, places: list[int], sent: list[_Sent]
    ) -> None:
        words: list[Any] = [made.calls[place].words() for place in places]
        is_read = all(made.calls[place].what in _READS for place in places)
        replicas = 0 if is_read else self.address.replicas
        if replicas:
            words.append(("WAIT", replicas, self._replicated_within_ms))
        try:
            connection: Any = pool.get_connection()
        except AuthenticationError:
            raise
        except _UNREACHABLE as error:
            made.repeat(places, error)
            return
        one = _Sent(pool, connection, places, replicas)
        try:
            connection.send_packed_command([b"".join(map(pack_command, words))])
        except _UNREACHABLE as error:
            one.give_up()
            made.repeat(places, error)
        else:
            sent.append(one)

    @staticmethod
    def _receive(made: _Round, sent: _Sent) -> list[ResponseError]:
        """Read the replies of one server; return its refusals."""
        refused: list[ResponseError] = []
        is_known = True
        for number, place in enumerate(sent.places):
            try:
                made.replies[place] = sent.connection.read_response()
            except NoScriptError:
                is_known = False
                made.again.append(place)
            except _PASSING as error:
                made.repeat([place], error)
            except ResponseError as error:
                if not str(error).startswith(_NO_REPLICAS):
                    refused.append(error)
                else:
                    made.repeat([place], error)
            except _UNREACHABLE as error:
                sent.give_up()
                # Replies that came already are not confirmed.
                made.repeat(sent.places if sent.replicas else sent.places[number:], error)
                break
        else:
            _end_round(made, sent, is_known=is_known)
        return refused

    def one_on_each(self, keys: Sequence[bytes]) -> list[bytes]:
        """Return the first of these keys on each server; the first key stands for them all."""
        cluster = self._cluster
        if cluster is None:
            return list(keys[:1])
        known = self._first.get(keys[0])
        if known is not None:
            return known
        found: dict[str, bytes] = {}
        with self._explained():
            for key in keys:
                node = cluster.nodes_manager.get_node_from_slot(key_slot(key))
                found.setdefault(node.name, key)
        self._first[keys[0]] = list(found.values())
        return list(found.values())

    def names(self, key: bytes) -> str:
        """Return the address of the server that holds a key, for people."""
        if self._cluster is None:
            ((host, port),) = self.address.servers
            return f"{host}:{port}"
        with self._explained():
            return str(self._cluster.nodes_manager.get_node_from_slot(key_slot(key)).name)

    def scan(self, pattern: bytes) -> Iterator[list[bytes]]:
        """Yield the keys that match a pattern, from all servers, in portions."""
        with self._explained():
            for client in self._primaries():
                at = 0
                while True:
                    at, found = client.scan(at, match=pattern, count=1000)
                    if found:
                        yield [key for key in found if isinstance(key, bytes)]
                    if at == 0:
                        break

    def _primaries(self) -> list[redis.Redis]:
        cluster = self._cluster
        if cluster is None:
            return [self._single]
        self._read_slots()
        nodes = cluster.nodes_manager.get_nodes_by_server_type("primary")
        return [cluster.get_redis_connection(node) for node in nodes]

    def close(self) -> None:
        """Close all connections."""
        if self._cluster is not None:
            self._cluster.close()
        self._single.close()


def _end_round(made: _Round, sent: _Sent, *, is_known: bool) -> None:
    """Wait for replicas, load scripts that the server did not know, and return the connection."""
    try:
        if sent.replicas:
            sent.require_replicas()
        if not is_known:
            sent.load_scripts()
    except (*_UNREACHABLE, ResponseError) as error:
        sent.give_up()
        made.repeat(sent.places, error)
    else:
        sent.pool.release(sent.connection)


def _options(address: StoreAddress, timeout_s: float) -> dict[str, Any]:
    options: dict[str, Any] = {
        "username": address.user or None,
        "password": address.password or None,
        "socket_timeout": timeout_s,
        "socket_connect_timeout": timeout_s,
        "protocol": 2,
        # `run` decides what is repeated, and when.
        "retry": Retry(NoBackoff(), 0),
    }
    if address.is_encrypted:
        options |= {"ssl": True, "ssl_cert_reqs": "required", "ssl_check_hostname": True}
        if address.ca_file:
            options["ssl_ca_certs"] = address.ca_file
    return options


def _explain(error: ResponseError) -> Exception:
    text = str(error)
    if text.startswith("FENCED "):
        return IndexFenced(
            f"a writer of epoch {text.split()[1]} has taken over; one of an earlier epoch must stop"
        )
    if text.startswith("REPLACED"):
        return IndexMissingError("the index was removed, or replaced by another one of its name")
    return error


@functools.cache
def shared_servers(address: StoreAddress) -> RedisServers:
    """Return this process's connection to servers; threads share it."""
    return RedisServers(address)
