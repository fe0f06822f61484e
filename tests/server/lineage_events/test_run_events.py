"""Events of the ledger become events of OpenLineage without a ledger, in milliseconds."""

import datetime as dt
from typing import Any
from uuid import UUID

import attrs
import pytest
from openlineage.client.serde import Serde

from narthex._compiler import compile_blueprint
from narthex._ir import AssetBlueprint, AssetKind, ResolvedAsset, ResolvedNeed, SourceJobSpec
from narthex._ir.types import Decimal, Int, List, OneOf, Optional, Regex, Struct, StructField
from narthex_ledger import EventView, LineageCommit
from narthex_server.lineage_events.dataset_names import LineageNames
from narthex_server.lineage_events.facets import assertion_facets, dataset_facets, reason_of
from narthex_server.lineage_events.run_events import (
    Happening,
    PhysicalJob,
    run_events,
)
from tests.server.lineage_events.typed_events import assert_valid
from tests.server.shop import shop_definitions

NOON = dt.datetime(2026, 5, 1, 12, tzinfo=dt.UTC)
COMMIT = UUID(int=1)
NAMES = LineageNames(
    install_id="tests000",
    namespace="narthex",
    kafka="broker:9092,other:9092",
    files_root="/files",
    history_dir="s3://lake/history",
)


def happened(transition: str, detail: Any = None, **parts: Any) -> Happening:
    fields = {"commit_id": COMMIT, "asset_id": None, "actor": "ann", "fence": None}
    event = EventView(
        event_id=1,
        at=NOON,
        transition=transition,
        detail=detail or {},
        **fields | {name: parts.pop(name) for name in tuple(parts) if name in fields},
    )
    return Happening(event=event, commit=parts.pop("commit", commit()), **parts)


def commit(**parts: Any) -> LineageCommit:
    values: dict[str, Any] = {
        "commit_id": COMMIT,
        "branch": "main",
        "kind": "deploy",
        "promotion": None,
        "manifest_id": COMMIT,
        "error": None,
        "is_cancelled": False,
    }
    return LineageCommit(**values | parts)


def events(happening: Happening) -> list[dict[str, Any]]:
    made = [Serde.to_dict(one) for one in run_events(happening, NAMES, {}).events]
    for one in made:
        assert_valid(one)
    return made


def states(happening: Happening) -> list[tuple[str, str]]:
    return [(one["job"]["name"], one["eventType"]) for one in events(happening)]


def jobs() -> dict[str, PhysicalJob]:
    """Return the jobs of the shop by path, with names as the ledger would give them."""
    assets = compile_blueprint(shop_definitions()).assets
    numbers = {asset.ref: number for number, asset in enumerate(assets, start=1)}
    names = {ref: f"nx_{number}" for ref, number in numbers.items()}
    by_ref: dict[Any, AssetBlueprint] = {asset.ref: asset for asset in assets}
    return {
        asset.paths[0]: PhysicalJob(
            asset=ResolvedAsset(
                asset_id=numbers[asset.ref],
                kind=asset.kind,
                physical_name=names[asset.ref],
                fingerprint=asset.fingerprint,
                spec=asset.spec,
                needs=tuple(
                    ResolvedNeed(
                        role=need.role,
                        kind=need.asset.kind,
                        asset_id=numbers[need.asset],
                        physical_name=names[need.asset],
                        spec=by_ref[need.asset].spec,
                    )
                    for need in asset.needs
                ),
            ),
            path=asset.paths[0],
            commit_id=COMMIT,
            branch="main",
            commit_kind="deploy",
        )
        for asset in assets
        if asset.kind in {AssetKind.STREAM_JOB, AssetKind.INDEX_FEED, AssetKind.HISTORY_FEED}
    }


@pytest.mark.parametrize(
    ("transition", "parts", "expected"),
    [
        ("QUEUED", {}, [("main.commit", "START")]),
        ("promoted", {}, [("main.commit", "COMPLETE")]),
        ("REJECTED", {}, [("main.commit", "FAIL")]),
        ("ABORTING", {}, [("main.commit", "FAIL")]),
        ("ABORTING", {"is_cancelled": True}, [("main.commit", "ABORT")]),
        ("FINALIZED", {"promotion": "DONE"}, []),
        ("FINALIZED", {"promotion": "SUPERSEDED"}, [("main.commit", "FAIL")]),
        ("rollback", {"kind": "rollback", "promotion": "DONE"}, [("main.rollback", "START")]),
        (
            "rollback",
            {"kind": "rollback"},
            [("main.rollback", "START"), ("main.rollback", "COMPLETE")],
        ),
        (
            "clone",
            {"kind": "clone", "promotion": "DONE"},
            [("main.clone", "START"), ("main.clone", "COMPLETE")],
        ),
        ("COMMITTED", {}, []),
    ],
)
def test_a_commit_ends_once(
    transition: str, parts: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    assert states(happened(transition, commit=commit(**parts))) == expected


def test_all_events_of_a_commit_have_one_run_that_no_other_commit_and_installation_has() -> None:
    def run_of(one: Happening, names: LineageNames = NAMES) -> str:
        return run_events(one, names, {}).events[0].run.runId

    start = happened("QUEUED")
    assert run_of(start) == run_of(happened("promoted"))
    other = happened("QUEUED", commit=commit(commit_id=UUID(int=2)))
    elsewhere = attrs.evolve(NAMES, install_id="tests001")
    assert len({run_of(start), run_of(other), run_of(start, elsewhere)}) == 3


def test_a_live_job_runs_from_its_creation_until_it_is_retired() -> None:
    job = jobs()["job/Spend/pipeline/by_user"]
    asset_id = job.asset.asset_id
    made = [
        *events(happened("live", asset_id=asset_id, jobs=(job,))),
        *events(happened("live", {"resurrected": True}, asset_id=asset_id, jobs=(job,))),
        *events(happened("jobs_started", [asset_id], jobs=(job,))),
        *events(happened("destroying", commit_id=None, commit=None, jobs=(job,))),
    ]

    assert [one["eventType"] for one in made] == ["START", "RUNNING", "ABORT"]
    assert len({one["run"]["runId"] for one in made}) == 1
    assert {one["job"]["name"] for one in made} == {"main.Spend.pipeline.by_user"}
    facet = made[0]["job"]["facets"]["jobType"]
    assert (facet["processingType"], facet["integration"], facet["jobType"]) == (
        "STREAMING",
        "NARTHEX",
        "PIPELINE",
    )


def test_a_feed_reads_its_dataset_and_writes_a_table() -> None:
    feed = jobs()["dataset/Spend/history_feed"]
    (made,) = events(happened("live", jobs=(feed,)))

    (read,), (written,) = made["inputs"], made["outputs"]
    assert (read["namespace"], read["name"]) == ("narthex://tests000", "main.Spend")
    assert written["namespace"] == "s3://lake"
    assert written["name"].startswith("history/nx_")
    (link,) = read["facets"]["symlinks"]["identifiers"]
    assert link["namespace"] == "kafka://broker:9092"


def test_a_bounded_source_runs_in_backfills_only() -> None:
    job = jobs()["job/Orders/source/0"]
    spec = job.asset.spec
    assert isinstance(spec, SourceJobSpec)
    bounded = attrs.evolve(spec, trigger=type(spec.trigger).BOUNDED)
    only = attrs.evolve(job, asset=attrs.evolve(job.asset, spec=bounded))

    assert states(happened("live", jobs=(only,))) == []
    assert states(happened("backfill_claimed", fence=1, jobs=(only,))) == [
        ("main.Orders.source.0.backfill", "START")
    ]


def test_a_job_that_is_destroyed_ends_its_backfill_too() -> None:
    job = jobs()["job/Spend/pipeline/by_user"]
    happening = happened("destroying", jobs=(job,))
    made = run_events(happening, NAMES, {job.asset.asset_id: 3})

    assert [one.job.name for one in made.events] == [
        "main.Spend.pipeline.by_user.backfill",
        "main.Spend.pipeline.by_user",
    ]
    assert {one.eventType.value for one in made.events if one.eventType} == {"ABORT"}
    assert made.backfills == {}


def test_only_the_platforms_own_words_of_an_error_are_sent() -> None:
    assert reason_of({"reason": "stale_base", "detail": "ann@x.y"}) == "stale_base"
    assert reason_of({"reason": "Row ann@x.y is wrong"}) == ""
    assert reason_of("row ann@x.y") == ""
    (made,) = events(happened("REJECTED", commit=commit(error={"reason": "ann@x.y"})))
    assert made["run"]["facets"]["errorMessage"]["message"] == (
        f"It failed. `console/commits/{COMMIT}` shows why."
    )


def test_types_are_named_without_the_values_that_they_allow() -> None:
    spend = next(one for one in shop_definitions().datasets if one.name == "Spend")
    first = spend.schema.fields[0]

    def shown(of: Any) -> Any:
        schema = attrs.evolve(spend.schema, fields=(attrs.evolve(first, type=of),))
        (field,) = Serde.to_dict(dataset_facets(schema)["schema"])["fields"]
        return field["type"]

    assert shown(OneOf(Int(), (41, 42))) == "int"
    assert shown(Optional(List(Regex("secret.*")))) == "Optional[List[str]]"
    assert shown(Decimal(2)) == "Decimal[2]"
    assert shown(Struct("Place", (StructField("x", OneOf(Int(), (41,))),))) == "Place"


def test_tags_and_owners_are_sent_where_they_are_declared() -> None:
    orders = next(one for one in shop_definitions().datasets if one.name == "Orders")
    user = attrs.evolve(
        orders.schema.fields[0],
        metadata=attrs.evolve(orders.schema.fields[0].metadata, tags=("pii",)),
    )
    tagged = attrs.evolve(
        orders,
        schema=attrs.evolve(orders.schema, fields=(user, *orders.schema.fields[1:])),
        metadata=attrs.evolve(orders.metadata, tags=("gold",), owner="", description=""),
    )
    facets = dataset_facets(tagged.schema, definition=tagged)

    tags = Serde.to_dict(facets["tags"])["tags"]
    assert [(one["key"], one.get("field")) for one in tags] == [
        ("gold", None),
        ("pii", "user"),
    ]
    assert {"ownership", "documentation"}.isdisjoint(facets)


def test_an_expectation_of_two_columns_is_asserted_of_both() -> None:
    facets = assertion_facets(
        {
            "expectations": [
                {"kind": "pair", "arguments": {"column_A": "a", "column_B": "b"}, "success": True},
                {"kind": "all", "arguments": {"column_list": ["a", "c"]}, "success": False},
                "not an expectation",
            ]
        }
    )

    assertions = Serde.to_dict(facets["dataQualityAssertions"])["assertions"]
    found = [(one["assertion"], one["column"], one["success"]) for one in assertions]
    assert found == [
        ("pair", "a", True),
        ("pair", "b", True),
        ("all", "a", False),
        ("all", "c", False),
    ]
    assert assertion_facets({"expectations": []}) == {}
    assert assertion_facets(None) == {}
