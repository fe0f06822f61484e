"""A job is what all of its shards are together."""

import attrs
import pytest

from narthex._base import Json
from narthex._ir import AssetKind, FeedSpec, LogShape, LogSpec, ResolvedAsset
from narthex_ledger import Desired, Epoch, JobView, Phase, ShardView, lag_of, phase_of, progress_of


def shard(phase: Phase, progress: Json = None, lag_ms: int | None = None) -> ShardView:
    return ShardView(
        shard=0,
        slot=0,
        slot_owner=None,
        slot_epoch=Epoch(1),
        seen_epoch=Epoch(1),
        seen_generation=1,
        phase=phase,
        lag_ms=lag_ms,
        caught_up_reports=0,
        progress=progress,
        backfill=None,
        reported_at=None,
    )


def job(*shards: ShardView) -> JobView:
    log = LogSpec(shape=LogShape.ROWS, keys=(), values=(), time_field="at")
    return JobView(
        asset=ResolvedAsset(
            asset_id=1,
            kind=AssetKind.INDEX_FEED,
            physical_name="",
            fingerprint=b"",
            spec=FeedSpec(dataset="D", log=log),
            needs=(),
        ),
        slot_space="default",
        desired=Desired.RUNNING,
        generation=1,
        spec_sha256=b"",
        checkpoint_incarnation=1,
        needs_backfill=False,
        backfilled_at=None,
        backfill_owner=None,
        backfill_epoch=Epoch(0),
        shards=tuple(attrs.evolve(one, shard=number) for number, one in enumerate(shards)),
    )


@pytest.mark.parametrize(
    ("phases", "phase"),
    [
        ((Phase.CAUGHT_UP, Phase.CAUGHT_UP), Phase.CAUGHT_UP),
        ((Phase.CAUGHT_UP, Phase.RUNNING), Phase.RUNNING),
        ((Phase.RUNNING, Phase.FAILED, Phase.CAUGHT_UP), Phase.FAILED),
        ((Phase.PENDING, Phase.CAUGHT_UP), Phase.PENDING),
        ((Phase.STOPPED, Phase.RUNNING), Phase.RUNNING),
    ],
)
def test_the_phase_is_that_of_the_shard_that_is_furthest_behind(
    phases: tuple[Phase, ...], phase: Phase
) -> None:
    assert phase_of(job(*map(shard, phases))) is phase


def test_counts_add_up_and_offsets_are_united() -> None:
    first: Json = {"offsets": {"t": {"0": 5}}, "behind": 1, "applied": 4, "newest_event_time": 9}
    second: Json = {"offsets": {"t": {"1": 7}}, "behind": 2, "applied": 3, "newest_event_time": 8}

    merged = progress_of(job(shard(Phase.RUNNING, first), shard(Phase.RUNNING, second)))

    assert merged == {
        "offsets": {"t": {"0": 5, "1": 7}},
        "behind": 3,
        "applied": 7,
        "newest_event_time": 9,
    }


def test_the_counts_of_an_expectation_add_up_by_minute() -> None:
    first: Json = {"expectations": {"a: b()": {"quarantined": 2, "minutes": {"1": 2}}}}
    second: Json = {
        "expectations": {
            "a: b()": {"quarantined": 3, "minutes": {"1": 1, "2": 2}},
            "c: d()": {"dropped": 1, "minutes": {"2": 1}},
        }
    }

    merged = progress_of(job(shard(Phase.RUNNING, first), shard(Phase.RUNNING, second)))

    assert merged == {
        "expectations": {
            "a: b()": {"quarantined": 5, "minutes": {"1": 3, "2": 2}},
            "c: d()": {"dropped": 1, "minutes": {"2": 1}},
        }
    }


def test_a_job_worked_when_the_last_of_its_shards_did() -> None:
    first, second = shard(Phase.RUNNING, {"succeeded_at": 90}), shard(Phase.RUNNING)
    third = shard(Phase.FAILED, {"succeeded_at": 60})

    assert progress_of(job(first, second, third)) == {"succeeded_at": 60}


def test_a_number_that_one_shard_does_not_know_is_unknown() -> None:
    known, unknown = shard(Phase.RUNNING, {"behind": 1}), shard(Phase.STARTING, {"behind": None})

    assert progress_of(job(known, unknown)) == {"behind": None}
    assert progress_of(job(shard(Phase.PENDING))) == {}


def test_an_error_of_any_shard_and_the_greatest_lag_are_shown() -> None:
    bad = shard(Phase.FAILED, {"error": "no space", "late_rows": [1]}, lag_ms=7)
    good = shard(Phase.RUNNING, {"error": None, "late_rows": [2]}, lag_ms=3)

    assert progress_of(job(good, bad)) == {"error": "no space", "late_rows": [2, 1]}
    assert lag_of(job(good, bad)) == 7
    assert lag_of(job(shard(Phase.PENDING))) is None
