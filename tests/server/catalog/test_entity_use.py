"""The use of entities through the lineage, as values."""

import datetime as dt

from narthex_ledger import LastRead, ReadEntity, ReadKind
from narthex_server.catalog.entity_use import EntityUse, uses_of
from narthex_server.definitions.data_flow import EntityNode

NOW = dt.datetime(2026, 5, 1, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)
RAW, CLEAN, SIDE = ("dataset", "Raw"), ("dataset", "Clean"), ("dataset", "Side")
KEY, TOTAL, SHARE = ("feature", "F.key"), ("feature", "F.total"), ("feature", "F.share")
NODES: list[EntityNode] = [RAW, CLEAN, SIDE, KEY, TOTAL, SHARE]
EDGES: list[tuple[EntityNode, EntityNode]] = [
    (("source", "webhook:a/b"), RAW),
    (RAW, CLEAN),
    (RAW, SIDE),
    (CLEAN, TOTAL),
    (KEY, TOTAL),
    (TOTAL, SHARE),
]


def uses(*written: str, **days_ago: float) -> dict[EntityNode, EntityUse]:
    """Return the uses of entities that were read some days ago; all are counted for 90 days."""
    reads: dict[ReadEntity, LastRead] = {
        (ReadKind(kind), name): LastRead(
            counted_since=NOW - 90 * DAY,
            read_at=NOW - days_ago[name.lower().removeprefix("f.")] * DAY
            if name.lower().removeprefix("f.") in days_ago
            else None,
        )
        for kind, name in NODES
    }
    return uses_of(NODES, EDGES, reads, written=written)


def test_a_read_uses_all_inputs_and_the_newest_read_counts() -> None:
    found = uses(share=2, clean=5, side=40)

    assert {node: found[node].through for node in NODES} == {
        RAW: SHARE,
        CLEAN: SHARE,
        SIDE: SIDE,
        KEY: SHARE,
        TOTAL: SHARE,
        SHARE: SHARE,
    }
    assert found[RAW].read_at == NOW - 2 * DAY
    assert uses(raw=1, share=2)[RAW].through == RAW
    unused = {node for node in NODES if found[node].is_unused(NOW - 30 * DAY)}
    assert unused == {SIDE}


def test_nothing_downstream_is_used_by_a_read_of_its_input() -> None:
    found = uses(raw=1)

    assert {node for node in NODES if not found[node].is_unused(NOW - 30 * DAY)} == {RAW}


def test_a_dataset_with_a_sink_is_used_with_its_inputs() -> None:
    found = uses("Side")

    assert {node for node in NODES if not found[node].is_unused(NOW - 30 * DAY)} == {RAW, SIDE}
    assert found[SIDE].read_at is None


def test_an_unread_entity_is_certain_if_it_was_counted_in_the_whole_span() -> None:
    assert uses()[RAW].is_certain(NOW - 30 * DAY)
    assert not uses()[RAW].is_certain(NOW - 91 * DAY)
    assert not EntityUse().is_certain(NOW - 30 * DAY)
    assert EntityUse().is_unused(NOW)


def test_an_input_is_counted_since_the_youngest_that_is_computed_from_it() -> None:
    counted = {RAW: 90, CLEAN: 90, SIDE: 90, KEY: 90, TOTAL: 3}
    reads: dict[ReadEntity, LastRead] = {
        (ReadKind(kind), name): LastRead(counted_since=NOW - days * DAY, read_at=None)
        for (kind, name), days in counted.items()
    }
    share = {(ReadKind.FEATURE, "F.share"): LastRead(counted_since=NOW - 9 * DAY, read_at=None)}

    found = uses_of(NODES, EDGES, reads | share, written=())
    assert {node: found[node].is_certain(NOW - 30 * DAY) for node in NODES} == {
        node: node == SIDE for node in NODES
    }
    assert found[RAW].counted_since == NOW - 3 * DAY
    assert uses_of(NODES, EDGES, reads, written=())[RAW].counted_since is None
