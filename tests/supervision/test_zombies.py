"""A process that was stopped while another took its work over: what it writes then is refused."""

import signal
from pathlib import Path

import pytest

from narthex._ir.assets import AssetKind, FeedSpec, SourceJobSpec
from narthex_ledger import JobView
from tests.spark_processes import signal_session
from tests.supervision.plant import Installation
from tests.supervision.zombies import driver, jobs_of, take_over

pytestmark = [pytest.mark.postgres, pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]


def is_index_of(job: JobView, dataset: str) -> bool:
    return isinstance(job.asset.spec, FeedSpec) and job.asset.spec.dataset == dataset


def is_source_of(job: JobView, dataset: str) -> bool:
    return isinstance(job.asset.spec, SourceJobSpec) and job.asset.spec.dataset == dataset


def test_an_index_refuses_a_fenced_writer(plant: Installation, tmp_path: Path) -> None:
    epochs = take_over(plant)
    stages = jobs_of(plant, AssetKind.STREAM_JOB)
    feeds = jobs_of(plant, AssetKind.INDEX_FEED)
    (spend,) = [job for job in feeds if is_index_of(job, "Spend")]
    with (
        driver(plant, stages, epochs=epochs, at=tmp_path),
        driver(plant, feeds, epochs=epochs, at=tmp_path) as old,
    ):
        for number in range(20):
            plant.order(number)
        plant.wait_exact()
        signal_session(old.group.process, signal.SIGSTOP)
        with driver(plant, feeds, epochs=take_over(plant), at=tmp_path) as new:
            for number in range(20, 40):
                plant.order(number)
            plant.wait_exact()

            signal_session(old.group.process, signal.SIGCONT)
            for number in range(40, 60):
                plant.order(number)
            old.wait_for(lambda r: r.phase == "failed", spend, "the zombie is refused")

            plant.wait_exact()
            assert "must stop" in old.story.read_text()
            assert "IndexFenced" in old.story.read_text()
            assert "IndexFenced" not in new.story.read_text()


def test_a_checkpoint_refuses_a_fenced_stage(plant: Installation, tmp_path: Path) -> None:
    epochs = take_over(plant)
    stages = jobs_of(plant, AssetKind.STREAM_JOB)
    feeds = jobs_of(plant, AssetKind.INDEX_FEED)
    (orders,) = [job for job in stages if is_source_of(job, "Orders")]
    with (
        driver(plant, feeds, epochs=epochs, at=tmp_path),
        driver(plant, stages, epochs=epochs, at=tmp_path) as old,
    ):
        for number in range(20):
            plant.order(number)
        plant.wait_exact()
        signal_session(old.group.process, signal.SIGSTOP)
        with driver(plant, stages, epochs=take_over(plant), at=tmp_path):
            for number in range(20, 40):
                plant.order(number)
            plant.wait_exact()

            signal_session(old.group.process, signal.SIGCONT)
            for number in range(40, 60):
                plant.order(number)
            old.wait_for(
                lambda r: r.phase == "failed" and "Fenced" in str(r.progress["error"]),
                orders,
                "the zombie is refused",
            )

            plant.wait_exact()
            assert "must stop" in old.story.read_text()
