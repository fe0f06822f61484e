"""The contents of a plan, without a database."""

from collections import Counter

from narthex._ir.assets import AssetKind
from narthex_ledger import CommitPlan, PlannedAsset, preferred_engines, stored_plan
from narthex_ledger.commits.creation import slot_of
from narthex_ledger.model.plans import jobs_to_backfill
from tests.ledger.world import FLIGHTS, ORDERS

EMPTY = CommitPlan(base_seq=3, create=(), share=(), release=(), backfill=(), flip=())
ALL = frozenset((a.kind, a.fingerprint) for a in (*ORDERS, *FLIGHTS))


def planned(fingerprint: bytes, label: str = "x") -> PlannedAsset:
    return PlannedAsset(kind=AssetKind.INDEX, fingerprint=fingerprint, label=label, paths=(label,))


def made(**assets: tuple[PlannedAsset, ...]) -> CommitPlan:
    return CommitPlan(
        base_seq=3,
        create=assets.get("create", ()),
        share=assets.get("share", ()),
        release=(),
        backfill=(),
        flip=(),
    )


def test_a_plan_is_hashed_by_its_effects() -> None:
    one = planned(b"1" * 32)

    assert made(create=(one,)).sha256 != made(share=(one,)).sha256
    assert made(create=(one,)).sha256 == made(create=(planned(b"1" * 32, "renamed"),)).sha256
    assert made(create=(one,)).sha256 != EMPTY.sha256


def test_a_plan_does_not_depend_on_the_order_of_its_assets() -> None:
    one, two = planned(b"1" * 32), planned(b"2" * 32)

    assert made(create=(one, two)).sha256 == made(create=(two, one)).sha256


def test_a_plan_is_read_back_as_it_was_stored() -> None:
    plan = made(create=(planned(b"1" * 32),))

    assert stored_plan(plan.plain()) == plan


def test_a_new_endpoint_starts_empty_and_files_are_read() -> None:
    due = jobs_to_backfill((*ORDERS, *FLIGHTS), created=ALL)

    assert {fingerprint for _, fingerprint in due} == {FLIGHTS[2].fingerprint}


def test_a_new_job_on_an_old_topic_works_off_its_past() -> None:
    ingest = (ORDERS[0].kind, ORDERS[0].fingerprint)

    due = jobs_to_backfill(ORDERS, created=ALL - {ingest})

    assert {fingerprint for _, fingerprint in due} == {ORDERS[3].fingerprint}


def test_a_slot_is_the_same_for_ever() -> None:
    assert [slot_of(asset_id, shard=0, slots=16) for asset_id in range(1, 6)] == [
        slot_of(asset_id, shard=0, slots=16) for asset_id in range(1, 6)
    ]
    assert {slot_of(asset_id, shard=0, slots=4) for asset_id in range(100)} == {0, 1, 2, 3}


def test_engines_share_the_slots_evenly() -> None:
    for engines in range(1, 9):
        found = preferred_engines("s", 64, {f"engine-{number}": 1.0 for number in range(engines)})
        sizes = Counter(found).values()
        assert len(sizes) == engines
        assert max(sizes) - min(sizes) <= 1

    by_weight = Counter(preferred_engines("s", 64, {"large": 3.0, "small": 1.0}))
    assert by_weight == {"large": 48, "small": 16}


def test_when_an_engine_goes_little_else_moves_than_its_slots() -> None:
    before = preferred_engines("s", 64, {"a": 1.0, "b": 1.0, "c": 1.0})
    after = preferred_engines("s", 64, {"a": 1.0, "b": 1.0})

    moved = [now for then, now in zip(before, after, strict=True) if then not in {now, "c"}]
    assert set(before) == {"a", "b", "c"}
    assert len(moved) <= 4
    assert preferred_engines("s", 2, {}) == (None, None)
