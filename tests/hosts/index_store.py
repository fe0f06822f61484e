"""The Redis cluster of the hosts: each has a primary, and replicas of the other ones' primaries.

A write counts once one replica has it, so writing goes on without one of the three hosts.

A host that was lost comes back with empty servers. An operator's steps follow, with Redis' own
commands: the others forget the lost servers, the new ones become replicas, and take over a primary
where their host has none.
"""

from collections.abc import Callable, Iterable, Mapping

import attrs
import redis
from redis.crc import key_slot

from narthex._base import Backoff
from tests.chaos.plant import wait_until
from tests.hosts.machines import Host
from tests.redis_servers import RedisNode, cluster_options, form_cluster

PORTS = (6379, 6380, 6381)
REPLICAS = 2
CONFIRMED_BY = 1
_BUS = 10_000
_NODE_TIMEOUT_MS = 5_000
"""Longer than a busy machine keeps a server from its turn, shorter than a cable is cut."""
WITHIN_S = 60.0
_PROMOTED_WITHIN_S = 6.0
PRIMARY, IN_STEP = "master", "connected"
_POLL = Backoff(first_s=0.05, greatest_s=0.2)


@attrs.frozen(kw_only=True)
class Member:
    """A server as the others see it.

    Attributes:
        address: Host and port.
        primary: The id of the primary whose replica it is; empty for a primary.
        is_linked: Whether it is reached, and has no order to fail or to be introduced.
        slots: The slots of the keys that it holds as a primary.
    """

    number: str
    address: str
    primary: str
    is_linked: bool
    slots: tuple[range, ...]

    @property
    def has_slots(self) -> bool:
        return bool(self.slots)

    @property
    def host(self) -> str:
        """The address of its host."""
        return self.address.rpartition(":")[0]


def members_of(text: str) -> list[Member]:
    """Read the reply to `CLUSTER NODES`."""
    lines = (line.split() for line in text.splitlines())
    return [
        Member(
            number=words[0],
            address=words[1].partition("@")[0],
            primary="" if words[3] == "-" else words[3],
            is_linked=words[7] == "connected"
            and not {"fail", "fail?", "handshake", "noaddr"} & set(words[2].split(",")),
            slots=tuple(_slots_of(word) for word in words[8:] if not word.startswith("[")),
        )
        for words in lines
    ]


def _slots_of(word: str) -> range:
    first, _, last = word.partition("-")
    return range(int(first), int(last or first) + 1)


def nodes_of(host: Host) -> list[RedisNode]:
    """Return the servers of a host."""
    return [
        RedisNode(
            home=host.disk / f"redis-{port}",
            port=port,
            options=(
                *cluster_options(port + _BUS),
                *("--cluster-node-timeout", str(_NODE_TIMEOUT_MS), "--protected-mode", "no"),
            ),
            host=host.address,
        )
        for port in PORTS
    ]


@attrs.frozen
class IndexStore:
    """The servers of all hosts, by the name of the host."""

    nodes: Mapping[str, list[RedisNode]]

    @classmethod
    def of(cls, hosts: Iterable[Host]) -> "IndexStore":
        """Return the servers of hosts."""
        return cls({host.name: nodes_of(host) for host in hosts})

    @property
    def url(self) -> str:
        """The address of the index store in the settings of an installation."""
        servers = ",".join(_address(node) for nodes in self.nodes.values() for node in nodes)
        return f"redis://{servers}?replicas={CONFIRMED_BY}"

    def form(self) -> None:
        """Make the running servers a cluster."""
        # By port first: so the primaries are on different hosts.
        by_port = zip(*self.nodes.values(), strict=True)
        form_cluster([node for nodes in by_port for node in nodes], replicas=REPLICAS)

    def host_of(self, key: bytes) -> str:
        """Return the name of the host that has the primary of a key."""
        slot = key_slot(key)
        names = {nodes[0].host: name for name, nodes in self.nodes.items()}
        return next(names[m.host] for m in self._members() if any(slot in r for r in m.slots))

    def readmit(self, host: str) -> None:
        """Add the empty servers of a host that was lost, in place of those that it had."""
        others = [node for name, nodes in self.nodes.items() if name != host for node in nodes]
        new = self.nodes[host]
        # The new servers have their addresses, so the lost ones may have none any more.
        gone = [member for member in _ask(others[0]) if not member.is_linked]
        for node in others:
            for member in gone:
                _forget(node, member)
        for node in new:
            node.connect().execute_command("CLUSTER", "MEET", others[0].host, others[0].port)
        self._wait(self._is_complete, "all servers of the index store know each other")
        for node in new:
            alone = _with_fewest_replicas(_ask(node))
            with node.connect() as client:
                client.execute_command("CLUSTER", "REPLICATE", alone.number)
            self._wait(
                lambda n=node, a=alone: self._is_replica_for_all(n, a), f"{node.url} is a replica"
            )
        self.balance()

    def balance(self) -> None:
        """Wait until all servers are reached, and give each host a primary of its own."""
        self._wait(self._is_complete, "all servers of the index store are reached")
        self._wait(self._has_balance, "each host has a primary of the index store")

    def _has_balance(self) -> bool:
        """Whether each host has a primary; if not, take a step towards it."""
        crowded = _crowded(self._members())
        for nodes in self.nodes.values():
            if not any(_ask_role(node) == PRIMARY for node in nodes):
                for node in nodes:
                    if _own(node).primary in crowded:
                        _promote(node)
                        break
                return False
        return True

    def _is_replica_for_all(self, node: RedisNode, primary: Member) -> bool:
        """Whether a replica is in step with a primary, and all servers know it."""
        views = (_ask(other) for nodes in self.nodes.values() for other in nodes)
        return _ask_role(node) == IN_STEP and all(
            any(m.address == _address(node) and m.primary == primary.number for m in view)
            for view in views
        )

    def _members(self) -> list[Member]:
        for nodes in self.nodes.values():
            try:
                return _ask(nodes[0])
            except redis.RedisError:
                continue
        raise redis.ConnectionError("no server of the index store replies")

    def _is_complete(self) -> bool:
        number = sum(map(len, self.nodes.values()))
        try:
            seen = [_ask(node) for nodes in self.nodes.values() for node in nodes]
        except redis.RedisError:
            return False
        return all(len(view) == number and all(m.is_linked for m in view) for view in seen)

    @staticmethod
    def _wait(happens: Callable[[], bool], what: str) -> None:
        wait_until(happens, within_s=WITHIN_S, what=what)


def _ask(node: RedisNode) -> list[Member]:
    with node.connect() as client:
        # The client would parse the reply, and lose the state of the link.
        client.set_response_callback("CLUSTER NODES", lambda reply, **_: reply)
        reply = client.execute_command("CLUSTER NODES")
    return members_of(reply.decode() if isinstance(reply, bytes) else str(reply))


def _ask_role(node: RedisNode) -> str:
    """Return `PRIMARY`, or the state of a replica's link to its primary: `IN_STEP` if it works."""
    with node.connect() as client:
        client.set_response_callback("ROLE", lambda reply, **_: reply)
        role, *rest = client.execute_command("ROLE")
    return PRIMARY if role == PRIMARY.encode() else bytes(rest[2]).decode()


def _own(node: RedisNode) -> Member:
    return next(one for one in _ask(node) if one.address == _address(node))


def _address(node: RedisNode) -> str:
    return f"{node.host}:{node.port}"


def _promote(node: RedisNode) -> bool:
    """Make a replica the primary; a server gives up after some seconds, so this is repeated."""
    if _ask_role(node) == IN_STEP:
        with node.connect() as client:
            client.execute_command("CLUSTER", "FAILOVER")
    return _POLL.until(lambda: _ask_role(node) == PRIMARY, within_s=_PROMOTED_WITHIN_S)


def _crowded(members: list[Member]) -> set[str]:
    """Return the primaries that are on one host with others."""
    hosts = [one.host for one in members if one.has_slots]
    return {one.number for one in members if one.has_slots and hosts.count(one.host) > 1}


def _with_fewest_replicas(members: list[Member]) -> Member:
    followed = [one.primary for one in members]
    primaries = [one for one in members if one.has_slots]
    return min(primaries, key=lambda one: followed.count(one.number))


def _forget(node: RedisNode, member: Member) -> None:
    try:
        node.connect().execute_command("CLUSTER", "FORGET", member.number)
    except redis.ResponseError as error:
        if "Unknown node" not in str(error):
            raise
