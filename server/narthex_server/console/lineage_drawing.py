"""The lineage graph as boxes and curves, drawn by the page's template."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import attrs

from narthex_server.console.entity_status import EntityStatus
from narthex_server.console.graph_layout import PASSED, lay_out
from narthex_server.console.lineage_graph import EntityNode, Graph

BOX_WIDTH: Final = 220
BOX_HEIGHT: Final = 36
GAP_X: Final = 90
GAP_Y: Final = 10
MARGIN: Final = 12
MOST_LETTERS: Final = 28


@attrs.frozen(kw_only=True)
class Box:
    """An entity and its place in the picture.

    Attributes:
        label: The name, cut where it is too long for its box.
        number: Its number in the picture, by which curves name it.
        is_dimmed: Whether it is outside the path that is highlighted.
    """

    kind: str
    name: str
    label: str
    x: int
    y: int
    number: int = 0
    status: EntityStatus | None = None
    is_dimmed: bool = False


@attrs.frozen(kw_only=True)
class Curve:
    """A curve from a box to one that it feeds, and the numbers of both."""

    path: str
    start: int
    end: int
    is_dimmed: bool = False


@attrs.frozen(kw_only=True)
class Drawing:
    """A picture: its size, its boxes, and the curves between them."""

    width: int
    height: int
    boxes: tuple[Box, ...]
    curves: tuple[Curve, ...]
    box_width: int = BOX_WIDTH
    box_height: int = BOX_HEIGHT


def draw(
    graph: Graph,
    *,
    statuses: Mapping[EntityNode, EntityStatus] | None = None,
    highlighted: Collection[EntityNode] = (),
) -> Drawing:
    """Draw a graph; with `highlighted` nodes, all others and their curves are dimmed."""
    layout = lay_out(graph, box_height=BOX_HEIGHT, gap=GAP_Y)
    numbers = {node: number for number, node in enumerate(graph.nodes)}
    bright = frozenset(highlighted or graph.nodes)
    places = {
        node: Box(
            kind=node[0],
            name=node[1],
            label=node[1] if len(node[1]) <= MOST_LETTERS else f"{node[1][: MOST_LETTERS - 1]}…",
            x=MARGIN + column * (BOX_WIDTH + GAP_X),
            y=MARGIN + layout.tops[node],
            number=numbers.get(node, 0),
            status=(statuses or {}).get(node),
            is_dimmed=node not in bright,
        )
        for column, nodes in enumerate(layout.columns)
        for node in nodes
    }
    curves = [
        Curve(
            path=_curve([places[node] for node in way]),
            start=numbers[start],
            end=numbers[end],
            is_dimmed=not bright.issuperset({start, end}),
        )
        for (start, end), way in layout.ways.items()
    ]
    count = len(layout.columns)
    return Drawing(
        width=2 * MARGIN + count * (BOX_WIDTH + GAP_X) - (GAP_X if count else 0),
        height=MARGIN + max((_bottom(place) for place in places.values()), default=MARGIN),
        boxes=tuple(place for place in places.values() if place.kind != PASSED),
        curves=tuple(sorted(curves, key=lambda curve: not curve.is_dimmed)),
    )


def _middle(place: Box) -> int:
    return place.y + (GAP_Y if place.kind == PASSED else BOX_HEIGHT) // 2


def _bottom(place: Box) -> int:
    return place.y + (GAP_Y if place.kind == PASSED else BOX_HEIGHT)


def _curve(way: Sequence[Box]) -> str:
    """Return a curve from the first box's right to the last one's left, straight in between."""
    x, y = way[0].x + BOX_WIDTH, _middle(way[0])
    drawn = [f"M{x},{y}"]
    for place in way[1:]:
        to_x, to_y = place.x, _middle(place)
        middle = (x + to_x) // 2
        drawn.append(f"C{middle},{y} {middle},{to_y} {to_x},{to_y}")
        x, y = place.x + BOX_WIDTH, to_y
        if place.kind == PASSED:
            drawn.append(f"H{x}")
    return " ".join(drawn)
