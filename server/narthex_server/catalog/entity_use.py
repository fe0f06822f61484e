"""When the entities of a branch were last used: read by a query, or the input of what was."""

import datetime as dt
from collections.abc import Collection, Iterable, Mapping
from graphlib import TopologicalSorter

import attrs

from narthex_ledger import LastRead, ReadEntity
from narthex_server.definitions.data_flow import EntityNode


@attrs.frozen(kw_only=True)
class EntityUse:
    """The newest read of an entity, or of what is computed from it.

    Attributes:
        read_at: When that was; None if no read is known.
        through: The entity that the query asked for or looked up; itself, or one downstream.
        counted_since: Since when its reads and those of all that is computed from it are counted;
            None if that has not begun.
        is_written: Whether a sink writes its rows, or those of what is computed from it.
    """

    read_at: dt.datetime | None = None
    through: EntityNode | None = None
    counted_since: dt.datetime | None = None
    is_written: bool = False

    def is_unused(self, since: dt.datetime) -> bool:
        """Return whether no read since an instant is known, and no sink writes it."""
        return not self.is_written and (self.read_at is None or self.read_at < since)

    def is_certain(self, since: dt.datetime) -> bool:
        """Return whether all reads since an instant are counted."""
        return self.counted_since is not None and self.counted_since <= since


def uses_of(
    nodes: Iterable[EntityNode],
    edges: Iterable[tuple[EntityNode, EntityNode]],
    reads: Mapping[ReadEntity, LastRead],
    *,
    written: Collection[str],
) -> dict[EntityNode, EntityUse]:
    """Return the use of each entity.

    Args:
        nodes: The datasets and features of a branch.
        edges: Its lineage, in the direction of the data.
        reads: When they were last read.
        written: The datasets that sinks write.
    """
    order: TopologicalSorter[EntityNode] = TopologicalSorter(dict.fromkeys(nodes, ()))
    after: dict[EntityNode, list[EntityNode]] = {}
    for start, end in edges:
        order.add(start, end)
        after.setdefault(start, []).append(end)
    known = {(kind.value, name): read for (kind, name), read in reads.items()}
    found: dict[EntityNode, EntityUse] = {}
    for node in order.static_order():
        own = known.get(node)
        found[node] = _use(
            EntityUse(
                read_at=None if own is None else own.read_at,
                through=None if own is None or own.read_at is None else node,
                counted_since=None if own is None else own.counted_since,
                is_written=node[0] == "dataset" and node[1] in written,
            ),
            [found[end] for end in after.get(node, ())],
        )
    return found


def _use(own: EntityUse, users: Iterable[EntityUse]) -> EntityUse:
    """Return the use of an entity with those of what is computed from it."""
    for user in users:
        if user.read_at is not None and (own.read_at is None or user.read_at > own.read_at):
            own = attrs.evolve(own, read_at=user.read_at, through=user.through)
        if own.counted_since is None or user.counted_since is None:
            own = attrs.evolve(own, counted_since=None)
        elif user.counted_since > own.counted_since:
            own = attrs.evolve(own, counted_since=user.counted_since)
        if user.is_written:
            own = attrs.evolve(own, is_written=True)
    return own
