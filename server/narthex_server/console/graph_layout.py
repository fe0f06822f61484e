"""The layout of a graph in columns: few crossings, short curves, the same for the same graph.

Inputs are left of what they feed. A curve that passes a column has a place of its own there. The
order within columns is the best of several sweeps, by the number of crossings. The heights are
then the nearest ones to the neighbours' at which no two places of a column overlap.
"""

import bisect
import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import attrs

from narthex_server.console.lineage_graph import EntityNode, Graph

SWEEPS: Final = 24
ALIGNMENTS: Final = 16
KEPT: Final = 16
"""How many layouts are kept."""

PASSED: Final = ""
"""The kind of a place that has no box: a curve passes the column there."""

Edge: TypeAlias = tuple[EntityNode, EntityNode]
Columns: TypeAlias = list[list[EntityNode]]


@attrs.frozen(kw_only=True)
class Layout:
    """The places of the nodes of a graph.

    Attributes:
        columns: The nodes of each column, from the top, with the places that curves pass.
        tops: The upper end of each place, in pixels; the least is 0.
        ways: The places of each edge, from its start to its end.
    """

    columns: Columns
    tops: Mapping[EntityNode, int]
    ways: Mapping[Edge, tuple[EntityNode, ...]]


@functools.lru_cache(maxsize=KEPT)
def lay_out(graph: Graph, *, box_height: int, gap: int) -> Layout:
    """Lay a graph out; a place that a curve passes is as high as a gap.

    The last layouts are kept: a graph is the same until a commit changes it.
    """
    layer = _layers(graph)
    ways: dict[Edge, tuple[EntityNode, ...]] = {}
    for edge in dict.fromkeys(graph.edges):
        ways[edge] = _way(edge, layer)
        first = layer[edge[0]]
        layer |= {node: first + at for at, node in enumerate(ways[edge]) if node[0] == PASSED}
    steps = [pair for way in ways.values() for pair in itertools.pairwise(way)]
    whole = Graph(nodes=tuple(layer), edges=tuple(steps))
    columns = _ordered(whole, layer)
    heights = {node: gap if node[0] == PASSED else box_height for node in layer}
    return Layout(columns=columns, tops=_tops(whole, columns, heights, gap), ways=ways)


def crossings(columns: Columns, after: Mapping[EntityNode, Sequence[EntityNode]]) -> int:
    """Count the pairs of curves between neighbouring columns that cross."""
    place = {node: row for nodes in columns for row, node in enumerate(nodes)}
    count = 0
    for nodes in columns:
        seen: list[int] = []
        for node in nodes:
            ends = sorted(place[other] for other in after[node])
            count += sum(len(seen) - bisect.bisect_right(seen, end) for end in ends)
            for end in ends:
                bisect.insort(seen, end)
    return count


def _way(edge: Edge, layer: Mapping[EntityNode, int]) -> tuple[EntityNode, ...]:
    """Return the places of an edge: its ends, and one place in each column between."""
    start, end = edge
    name = f"{start[0]} {start[1]} → {end[0]} {end[1]}"
    between = range(layer[start] + 1, layer[end])
    return (start, *((PASSED, f"{name} {at}") for at in between), end)


def _layers(graph: Graph) -> dict[EntityNode, int]:
    """Put each node one column after the last of what feeds it.

    A node without inputs is one column before the first that it feeds. Featuresets may feed each
    other; then an edge of each cycle leads back.
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
    for node in graph.nodes:
        if not graph.before[node]:
            layer[node] = min((layer[other] for other in graph.after[node]), default=1) - 1
    return layer


def _ordered(graph: Graph, layer: Mapping[EntityNode, int]) -> Columns:
    """Order each column by the places of its neighbours, forth and back; return the best order."""
    columns: Columns = [[] for _ in range(max(layer.values(), default=-1) + 1)]
    for node in graph.nodes:
        columns[layer[node]].append(node)
    best, least = [[*nodes] for nodes in columns], crossings(columns, graph.after)
    for sweep in range(SWEEPS):
        neighbours = graph.before if sweep % 2 == 0 else graph.after
        place = {node: row for nodes in columns for row, node in enumerate(nodes)}
        for nodes in columns if sweep % 2 == 0 else reversed(columns):
            nodes.sort(key=lambda node: _mean([place[n] for n in neighbours[node]], place[node]))
            place |= {node: row for row, node in enumerate(nodes)}
        count = crossings(columns, graph.after)
        if count < least:
            best, least = [[*nodes] for nodes in columns], count
    return best


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _tops(
    graph: Graph, columns: Columns, heights: Mapping[EntityNode, int], gap: int
) -> dict[EntityNode, int]:
    """Move the places of each column to the heights of their neighbours, forth and back."""
    middle: dict[EntityNode, float] = {}
    for nodes in columns:
        middle |= _apart(nodes, dict.fromkeys(nodes, 0.0), heights, gap)
    for turn in range(ALIGNMENTS):
        is_last = turn >= ALIGNMENTS - 2  # then places are moved to both sides' heights
        sides = [graph.before] if turn % 2 == 0 else [graph.after]
        if is_last:
            sides = [graph.before, graph.after]
        for nodes in columns if turn % 2 == 0 else reversed(columns):
            wanted = {
                node: _mean([middle[other] for side in sides for other in side[node]], middle[node])
                for node in nodes
            }
            middle |= _apart(nodes, wanted, heights, gap)
    tops = {node: round(at - heights[node] / 2) for node, at in middle.items()}
    highest = min(tops.values(), default=0)
    return {node: top - highest for node, top in tops.items()}


def _apart(
    nodes: Sequence[EntityNode],
    wanted: Mapping[EntityNode, float],
    heights: Mapping[EntityNode, int],
    gap: int,
) -> dict[EntityNode, float]:
    """Return the middles nearest to the wanted ones, by squares, that keep order and distance.

    Neighbours that would overlap move together: this is isotonic regression.
    """
    offsets = [0.0]
    for one, other in itertools.pairwise(nodes):
        offsets.append(offsets[-1] + (heights[one] + heights[other]) / 2 + gap)
    blocks: list[tuple[float, int]] = []
    for node, offset in zip(nodes, offsets, strict=False):
        total, count = wanted[node] - offset, 1
        while blocks and blocks[-1][0] / blocks[-1][1] >= total / count:
            total, count = total + blocks[-1][0], count + blocks[-1][1]
            blocks.pop()
        blocks.append((total, count))
    starts = [total / count for total, count in blocks for _ in range(count)]
    return {
        node: start + offset for node, start, offset in zip(nodes, starts, offsets, strict=False)
    }
