"""The lineage graph as boxes and curves: laid out in layers here, drawn by the page's template.

Inputs are left of what they feed. A curve that passes a layer has a place of its own there, so
that none runs behind a box. Within a layer, boxes are placed near their inputs, so that few
curves cross; the same graph always results in the same picture.
"""

import itertools
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Final, TypeAlias

import attrs

from narthex_server.catalog.responses import Lineage

BOX_WIDTH: Final = 220
BOX_HEIGHT: Final = 34
GAP_X: Final = 90
GAP_Y: Final = 14
MARGIN: Final = 12
MOST_LETTERS: Final = 28
SWEEPS: Final = 4
FEATURE: Final = "feature"
PASSED: Final = ""
"""The kind of a place that has no box: a curve passes the layer there."""

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


@attrs.frozen(kw_only=True)
class Box:
    """An entity and its place in the picture.

    Attributes:
        label: The name, cut where it is too long for its box.
    """

    kind: str
    name: str
    label: str
    x: int
    y: int


@attrs.frozen(kw_only=True)
class Drawing:
    """A picture: its size, its boxes, and the paths between them."""

    width: int
    height: int
    boxes: tuple[Box, ...]
    curves: tuple[str, ...]
    box_width: int = BOX_WIDTH
    box_height: int = BOX_HEIGHT


def read(lineage: Lineage) -> Graph:
    """Return the graph of the API's answer about lineage."""
    edges = tuple(
        ((edge["kinds"][0], edge["from"]), (edge["kinds"][1], edge["to"]))
        for edge in lineage["edges"]
    )
    nodes = dict.fromkeys(node for edge in edges for node in edge)
    return Graph(nodes=tuple(nodes), edges=edges)


def by_featureset(graph: Graph) -> Graph:
    """Return a graph with one node for all features of a featureset."""
    united = {
        node: ("featureset", node[1].rpartition(".")[0]) if node[0] == FEATURE else node
        for node in graph.nodes
    }
    edges = dict.fromkeys((united[start], united[end]) for start, end in graph.edges)
    return Graph(
        nodes=tuple(dict.fromkeys(united.values())),
        edges=tuple((start, end) for start, end in edges if start != end),
    )


def picked(graph: Graph, name: str) -> Graph:
    """Return the part of a graph upstream and downstream of an entity; empty if it is unknown.

    The name of a featureset also picks all of its features.
    """
    chosen = [
        (kind, of)
        for kind, of in graph.nodes
        if of == name or (kind == FEATURE and of.rpartition(".")[0] == name)
    ]
    members = set(chosen)
    for neighbours in (graph.before, graph.after):
        reached = [*chosen]
        seen = set(reached)
        while reached:
            more = [other for other in neighbours[reached.pop()] if other not in seen]
            seen.update(more)
            reached += more
        members |= seen
    return Graph(
        nodes=tuple(node for node in graph.nodes if node in members),
        edges=tuple(edge for edge in graph.edges if edge[0] in members and edge[1] in members),
    )


def draw(graph: Graph) -> Drawing:
    """Lay a graph out."""
    layer = _layers(graph)
    ways = {edge: _way(edge, layer) for edge in dict.fromkeys(graph.edges)}
    passed = {node: at for way in ways.values() for node, at in way}
    steps = [pair for way in ways.values() for pair in itertools.pairwise(node for node, _ in way)]
    whole = Graph(nodes=tuple(passed | layer), edges=tuple(steps))
    columns = _ordered(whole, passed | layer)
    boxes = {
        node: Box(
            kind=node[0],
            name=node[1],
            label=node[1] if len(node[1]) <= MOST_LETTERS else f"{node[1][: MOST_LETTERS - 1]}…",
            x=MARGIN + column * (BOX_WIDTH + GAP_X),
            y=MARGIN + row * (BOX_HEIGHT + GAP_Y),
        )
        for column, nodes in enumerate(columns)
        for row, node in enumerate(nodes)
    }
    tallest = max((len(nodes) for nodes in columns), default=0)
    return Drawing(
        width=2 * MARGIN + len(columns) * (BOX_WIDTH + GAP_X) - (GAP_X if columns else 0),
        height=2 * MARGIN + tallest * (BOX_HEIGHT + GAP_Y) - (GAP_Y if tallest else 0),
        boxes=tuple(box for box in boxes.values() if box.kind != PASSED),
        curves=tuple(_curve([boxes[node] for node, _ in way]) for way in ways.values()),
    )


def _way(
    edge: tuple[EntityNode, EntityNode], layer: Mapping[EntityNode, int]
) -> list[tuple[EntityNode, int]]:
    """Return the nodes of an edge by layer: its ends, and one place in each layer between."""
    start, end = edge
    name = f"{start[0]} {start[1]} → {end[0]} {end[1]}"
    between = range(layer[start] + 1, layer[end])
    places = [((PASSED, f"{name} {at}"), at) for at in between]
    return [(start, layer[start]), *places, (end, layer[end])]


def _layers(graph: Graph) -> dict[EntityNode, int]:
    """Put each node one layer after the last of what feeds it.

    Featuresets may feed each other; then an edge of each cycle leads back.
    """
    waits_for = {node: len(graph.before[node]) for node in graph.nodes}
    layer = dict.fromkeys(graph.nodes, 0)
    ready = [node for node, count in waits_for.items() if not count]
    placed: set[EntityNode] = set()
    left = iter(graph.nodes)
    while len(placed) < len(layer):
        # Without a node whose inputs are all placed, a cycle is left: it begins at its first node.
        node = ready.pop() if ready else next(node for node in left if node not in placed)
        placed.add(node)
        for other in graph.after[node]:
            if other in placed:
                continue
            layer[other] = max(layer[other], layer[node] + 1)
            waits_for[other] -= 1
            if not waits_for[other]:
                ready.append(other)
    return layer


def _ordered(graph: Graph, layer: Mapping[EntityNode, int]) -> list[list[EntityNode]]:
    """Order each layer by the places of its neighbours, forth and back several times."""
    columns: list[list[EntityNode]] = [[] for _ in range(max(layer.values(), default=-1) + 1)]
    for node in graph.nodes:
        columns[layer[node]].append(node)
    for sweep in range(SWEEPS):
        forth = sweep % 2 == 0
        place = {node: row for nodes in columns for row, node in enumerate(nodes)}
        for nodes in columns if forth else reversed(columns):
            nodes.sort(key=lambda node: _middle(graph, node, place, forth=forth))
            place |= {node: row for row, node in enumerate(nodes)}
    return columns


def _middle(
    graph: Graph, node: EntityNode, place: Mapping[EntityNode, int], *, forth: bool
) -> float:
    rows = [place[other] for other in (graph.before[node] if forth else graph.after[node])]
    return sum(rows) / len(rows) if rows else float(place[node])


def _curve(way: Sequence[Box]) -> str:
    """Return a curve from the first box's right to the last one's left, straight in between."""
    x, y = way[0].x + BOX_WIDTH, way[0].y + BOX_HEIGHT // 2
    drawn = [f"M{x},{y}"]
    for box in way[1:]:
        to_x, to_y = box.x, box.y + BOX_HEIGHT // 2
        middle = (x + to_x) // 2
        drawn.append(f"C{middle},{y} {middle},{to_y} {to_x},{to_y}")
        x, y = box.x + BOX_WIDTH, to_y
        if box.kind == PASSED:
            drawn.append(f"H{x}")
    return " ".join(drawn)
