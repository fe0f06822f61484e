"""Parts of the console's pages: links, the drawing of a graph, the blockers of a commit."""

import itertools
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narthex_server.commits.commit_blockers import commit_blockers, has_ended
from narthex_server.console.graph_layout import crossings, lay_out
from narthex_server.console.lineage_drawing import BOX_HEIGHT, BOX_WIDTH, draw
from narthex_server.console.lineage_graph import (
    Graph,
    by_featureset,
    picked,
    read,
)
from narthex_server.console.rendering import PageLocation, mood, number, short, when
from narthex_server.definitions.data_flow import flow
from tests.server.many_entities import project

EDGES_OF_200 = tuple(flow(project(85, 86)))
NODES_OF_200 = tuple(dict.fromkeys(node for edge in EDGES_OF_200 for node in edge))
NAMES = [f"n{number}" for number in range(12)]


def lineage(pairs: list[tuple[str, str]]) -> dict[str, Any]:
    return {
        "nodes": [],
        "edges": [{"from": a, "to": b, "kinds": ["dataset", "dataset"]} for a, b in pairs],
    }


graphs = st.lists(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES))
    .map(lambda pair: (min(pair), max(pair)))
    .filter(lambda pair: pair[0] != pair[1]),
    unique=True,
).map(lambda pairs: read(lineage(pairs)))


@given(graphs)
def test_inputs_are_drawn_left_of_outputs_and_boxes_do_not_overlap(graph: Any) -> None:
    drawing = draw(graph)

    at = {(box.kind, box.name): box for box in drawing.boxes}
    assert set(at) == set(graph.nodes)
    assert all(at[start].x + BOX_WIDTH < at[end].x for start, end in graph.edges)
    boxes = sorted(drawing.boxes, key=lambda box: (box.x, box.y))
    for one, other in itertools.pairwise(boxes):
        assert one.x != other.x or one.y + BOX_HEIGHT < other.y
    assert all(box.x + BOX_WIDTH < drawing.width for box in boxes)
    assert all(box.y + BOX_HEIGHT < drawing.height for box in boxes)
    assert len(drawing.curves) == len(graph.edges)
    lay_out.cache_clear()
    assert drawing == draw(graph)


@given(graphs)
def test_no_curve_runs_behind_a_box(graph: Any) -> None:
    """Bows stay between two columns; what is straight has a place of its own in its column."""
    drawing = draw(graph)

    for curve in drawing.curves:
        at = 0
        for kind, numbers in re.findall(r"([MCH])([-\d, ]+)", curve.path):
            (*_, to) = places = [int(one) for one in re.findall(r"\d+", numbers)]
            match kind:
                case "M":
                    at, height = places
                case "C":
                    end, to_height = places[-2:]
                    assert not [b for b in drawing.boxes if at < b.x + BOX_WIDTH and b.x < end]
                    at, height = end, to_height
                case _:
                    column = [b for b in drawing.boxes if at < b.x + BOX_WIDTH and b.x < to]
                    assert not [b for b in column if b.y <= height <= b.y + BOX_HEIGHT]
                    at = to


def test_curves_go_from_the_middle_of_a_right_edge_to_that_of_a_left_one() -> None:
    drawing = draw(read(lineage([("a", "b")])))

    (start, end), middle = drawing.boxes, BOX_HEIGHT // 2
    (curve,) = drawing.curves
    assert curve.path.startswith(f"M{start.x + BOX_WIDTH},{start.y + middle} ")
    assert curve.path.endswith(f" {end.x},{end.y + middle}")


def test_two_chains_do_not_cross() -> None:
    drawing = draw(read(lineage([("a", "y"), ("b", "x"), ("y", "p"), ("x", "q")])))

    rows = {box.name: box.y for box in drawing.boxes}
    assert rows["a"] == rows["y"] == rows["p"]
    assert rows["b"] == rows["x"] == rows["q"]


def test_a_project_of_200_entities_has_few_crossings_and_short_curves() -> None:
    """The order of the definitions has three times as many crossings, and curves as high."""
    graph = by_featureset(Graph(nodes=NODES_OF_200, edges=EDGES_OF_200))
    layout = lay_out(graph, box_height=BOX_HEIGHT, gap=10)
    steps = Graph(
        nodes=tuple(node for column in layout.columns for node in column),
        edges=tuple(pair for way in layout.ways.values() for pair in itertools.pairwise(way)),
    )
    climbs = [abs(layout.tops[start] - layout.tops[end]) for start, end in steps.edges]

    assert len(graph.nodes) == 200
    assert crossings(layout.columns, steps.after) <= 2100
    assert sum(climbs) / len(graph.edges) <= 360
    same = by_featureset(Graph(nodes=NODES_OF_200, edges=EDGES_OF_200))
    assert lay_out(same, box_height=BOX_HEIGHT, gap=10) is layout
    lay_out.cache_clear()
    assert lay_out(graph, box_height=BOX_HEIGHT, gap=10) == layout


def test_crossings_are_counted() -> None:
    a, b, x, y = (("dataset", name) for name in "abxy")

    assert crossings([[a, b], [x, y]], {a: [y], b: [x], x: [], y: []}) == 1
    assert crossings([[b, a], [x, y]], {a: [y], b: [x], x: [], y: []}) == 0
    assert crossings([[a, b], [x, y]], {a: [x, y], b: [x, y], x: [], y: []}) == 1
    assert crossings([[a, b], [x]], {a: [x], b: [x], x: []}) == 0


def test_a_source_is_beside_what_it_feeds() -> None:
    drawing = draw(read(lineage([("a", "b"), ("b", "c"), ("c", "d"), ("source", "d")])))

    at = {box.name: box.x for box in drawing.boxes}
    assert at["source"] == at["c"] > at["b"]


def test_of_one_entity_only_what_it_comes_from_and_leads_to_is_drawn() -> None:
    graph = read(lineage([("a", "b"), ("b", "c"), ("x", "c"), ("b", "d"), ("x", "y")]))

    assert {name for _, name in picked(graph, "c").nodes} == {"a", "b", "c", "x"}
    assert {name for _, name in picked(graph, "b").nodes} == {"a", "b", "c", "d"}
    assert picked(graph, "b").edges == tuple(e for e in graph.edges if e[0][1] in {"a", "b"})
    assert picked(graph, "nobody").nodes == ()


def test_featuresets_that_feed_each_other_are_drawn() -> None:
    a, b, c = (("feature", name) for name in ("A.x", "B.y", "A.z"))
    graph = by_featureset(Graph(nodes=(a, b, c), edges=((a, b), (b, c))))
    drawing = draw(graph)

    assert graph.nodes == (("featureset", "A"), ("featureset", "B"))
    assert len(graph.edges) == len(drawing.curves) == 2
    assert sorted(box.name for box in drawing.boxes) == ["A", "B"]


def test_nothing_is_drawn_of_nothing_and_a_long_name_is_cut() -> None:
    nothing = draw(read(lineage([])))
    long = draw(read(lineage([("a" * 100, "b")])))

    assert (nothing.boxes, nothing.curves) == ((), ())
    assert [len(box.label) for box in long.boxes] == [28, 1]
    assert long.boxes[0].name == "a" * 100


def test_links_work_below_any_prefix_and_name_their_branch() -> None:
    home = PageLocation(path="/console", branch="main")
    page = PageLocation(path="/console/commits/1", branch="a/b &c")

    assert home.to("jobs") == "console/jobs?branch=main"
    assert page.to("jobs") == "../../console/jobs?branch=a%2Fb+%26c"
    assert page.to("lineage", of="x?y") == "../../console/lineage?branch=a%2Fb+%26c&of=x%3Fy"
    assert page.twin("commits") == "../../api/v1/commits?branch=a%2Fb+%26c"
    assert page.to("commits", branch="other") == "../../console/commits?branch=other"
    assert (home.name, page.name) == ("commits", "commits")


def test_values_are_rendered_for_people() -> None:
    assert when("2026-03-01T10:00:00.123+02:00") == "2026-03-01 08:00:00"
    assert (when(None), when("")) == ("", "")
    assert (short("0123456789"), short(None)) == ("01234567", "")
    assert (number(1234567), number(0), number(None)) == ("1,234,567", "0", "")
    assert [mood(one) for one in ("live", "ABORTED", "APPLYING")] == [
        "good",
        "bad",
        "wait",
    ]


def commit(state: str, **more: Any) -> dict[str, Any]:
    return {"commit_id": "c1", "state": state, "approval": {"needed": False}, "assets": []} | more


ASSETS = [
    {"label": "a", "kind": "index", "state": "live", "attempt": 1, "last_error": None},
    {"label": "b", "kind": "history", "state": "creating", "attempt": 4, "last_error": "no disk"},
    {"label": "c", "kind": "index", "state": "planned", "attempt": 0, "last_error": None},
]
JOBS = {
    "ready": False,
    "waiting_for": [
        {"job": "j", "phase": "running", "why": "is running", "error": None},
        {"job": "k", "phase": "failed", "why": "its backfill failed", "error": "no file"},
    ],
}


@pytest.mark.parametrize(
    ("shown", "readiness", "reasons"),
    [
        (
            commit("APPLYING", assets=ASSETS),
            {},
            ["b (history), after 4 tries: no disk", "c (index), to be created"],
        ),
        (commit("COMMITTED"), JOBS, ["j: is running", "k: its backfill failed: no file"]),
        (
            commit("COMMITTED", approval={"needed": True}),
            {},
            ["a person, who approves it in the console, in Airflow or with `narthex approve c1`"],
        ),
        (commit("COMMITTED"), {"ready": False, "waiting_for": []}, ["jobs that you may not read"]),
        (commit("COMMITTED"), {"ready": True, "waiting_for": []}, []),
        (commit("READY"), {}, []),
        (commit("FINALIZED", approval={"needed": True}), JOBS, []),
    ],
)
def test_a_commit_page_shows_the_blockers_of_the_ledger(
    shown: dict[str, Any], readiness: dict[str, Any], reasons: list[str]
) -> None:
    assert list(commit_blockers(shown, readiness)) == reasons


@pytest.mark.parametrize("state", ["QUEUED", "ABORTING"])
def test_a_commit_without_assets_shows_its_blockers(state: str) -> None:
    assert len(commit_blockers(commit(state), {})) == 1


@pytest.mark.parametrize(
    ("state", "ended"),
    [("FINALIZED", True), ("ABORTED", True), ("REJECTED", True), ("COMMITTED", False)],
)
def test_a_commit_has_ended_when_nothing_more_happens_to_it(state: str, ended: bool) -> None:
    assert has_ended(commit(state)) is ended
