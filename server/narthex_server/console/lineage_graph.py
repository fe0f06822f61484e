"""The lineage as a graph of nodes and edges, and its parts: by featureset, of one entity."""

from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from typing import Final, TypeAlias

import attrs

from narthex_server.catalog.responses import Lineage

FEATURE: Final = "feature"
FEATURESET: Final = "featureset"

EntityNode: TypeAlias = tuple[str, str]
"""Kind and name: a dataset and a source may have the same name."""


@attrs.frozen(kw_only=True)
class Graph:
    """The nodes and edges of the lineage.

    Attributes:
        nodes: In the order of the definitions.
        edges: From an input to what it feeds.
    """

    nodes: tuple[EntityNode, ...]
    edges: tuple[tuple[EntityNode, EntityNode], ...]

    @cached_property
    def after(self) -> Mapping[EntityNode, list[EntityNode]]:
        """The nodes that each node feeds."""
        found: dict[EntityNode, list[EntityNode]] = {node: [] for node in self.nodes}
        for start, end in self.edges:
            found[start].append(end)
        return found

    @cached_property
    def before(self) -> Mapping[EntityNode, list[EntityNode]]:
        """The nodes that feed each node."""
        found: dict[EntityNode, list[EntityNode]] = {node: [] for node in self.nodes}
        for start, end in self.edges:
            found[end].append(start)
        return found

    def restricted(self, members: Collection[EntityNode]) -> "Graph":
        """Return the part of these nodes, with the edges between them."""
        return Graph(
            nodes=tuple(node for node in self.nodes if node in members),
            edges=tuple(one for one in self.edges if one[0] in members and one[1] in members),
        )


def read(lineage: Lineage) -> Graph:
    """Return the graph of the API's answer about lineage."""
    edges = tuple(
        ((edge["kinds"][0], edge["from"]), (edge["kinds"][1], edge["to"]))
        for edge in lineage["edges"]
    )
    nodes = dict.fromkeys(node for edge in edges for node in edge)
    return Graph(nodes=tuple(nodes), edges=edges)


def featureset_of(node: EntityNode) -> EntityNode:
    """Return the featureset of a feature; any other node itself."""
    return (FEATURESET, node[1].rpartition(".")[0]) if node[0] == FEATURE else node


def by_featureset(graph: Graph, *, apart: Collection[EntityNode] = ()) -> Graph:
    """Return a graph with one node for the features of a featureset, except those `apart`."""
    united = {node: node if node in apart else featureset_of(node) for node in graph.nodes}
    edges = dict.fromkeys((united[start], united[end]) for start, end in graph.edges)
    return Graph(
        nodes=tuple(dict.fromkeys(united.values())),
        edges=tuple((start, end) for start, end in edges if start != end),
    )


def chosen(graph: Graph, name: str) -> tuple[EntityNode, ...]:
    """Return the nodes of this name; the name of a featureset also chooses its features."""
    return tuple(node for node in graph.nodes if name in {node[1], featureset_of(node)[1]} and name)


def path_of(graph: Graph, name: str, *, has_users: bool = True) -> frozenset[EntityNode]:
    """Return an entity with all that it is computed from, up to sources; empty if it is unknown.

    With `has_users`, also all that is computed from it.
    """
    start = chosen(graph, name)
    found = _reached(start, graph.before)
    return found | _reached(start, graph.after) if has_users else found


def picked(graph: Graph, name: str, *, has_users: bool = True) -> Graph:
    """Return the part of a graph that is the path of an entity; empty if it is unknown."""
    return graph.restricted(path_of(graph, name, has_users=has_users))


def _reached(
    start: Iterable[EntityNode], neighbours: Mapping[EntityNode, list[EntityNode]]
) -> frozenset[EntityNode]:
    left = list(start)
    seen = set(left)
    while left:
        more = [other for other in neighbours[left.pop()] if other not in seen]
        seen.update(more)
        left += more
    return frozenset(seen)
