"""A source of an installed kind runs by the code of the platform's own polled sources."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from narthex._base import to_micros
from narthex._formats.avro.codec import fact_codec
from narthex.settings import Settings
from narthex_spark_apps.jobs.start import input_topics, polling_source
from narthex_spark_apps.platform.author_places import ForbiddenPlaceError
from narthex_spark_apps.platform.optional_clients import ClientMissingError
from narthex_spark_apps.sources.source_job import SourceJob
from narthex_stores import LogProducer
from tests.connectors.installing import installed
from tests.spark_apps import spark_jobs
from tests.spark_apps.conftest import Log

COARSE_US = 30_000_000
COLUMNS = ["id", "at", "who", "amount"]


@pytest.fixture
def line_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Install the package `line-files`."""
    with installed(tmp_path_factory.mktemp("site")):
        import line_files  # noqa: PLC0415 (it is installed just above)

        yield line_files


def job_of(line_files: Any, path: str, log: Log) -> SourceJob:
    needs = (
        spark_jobs.topic_need("output", log.topic("orders")),
        spark_jobs.topic_need("quarantine", log.topic("refused")),
        spark_jobs.checkpoint_need(Path(log.topic("checkpoint"))),
    )
    return spark_jobs.source_job(line_files.LineFiles("l").path(path, COLUMNS), needs=needs)


def read(job: SourceJob, platform: Settings) -> dict[str, int]:
    found = polling_source(job.asset, platform)
    assert found is not None
    with LogProducer(platform.kafka) as producer:
        counts = found.read(producer)
    found.close()
    return counts


@pytest.mark.kafka
def test_rows_of_an_installed_kind_become_facts_and_bad_ones_go_to_the_quarantine(
    line_files: Any, platform: Settings, log: Log
) -> None:
    file = platform.files_root / "orders.txt"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("1|2024-05-01T00:00:00Z|ann|2.5\nno cells\n2|2024-05-01T00:00:01Z|bob|1.5\n")
    job = job_of(line_files, "orders.txt", log)

    first = read(job, platform)
    with file.open("a") as more:
        more.write("3|2024-05-01T00:00:02Z|cid|4.5\n")
    second = read(job, platform)

    assert input_topics(job.asset) == ()
    assert first == {"rows": 3, "quarantined": 1, "left_out": 0}
    assert second == {"rows": 1, "quarantined": 0, "left_out": 0}
    facts = fact_codec(job.spec.log).decode_many(
        [value for _, value in log.records(job.output, count=3)]
    )
    assert [fact.key for fact in facts] == [(1,), (2,), (3,)]
    ((_, refused),) = log.records(job.quarantine, count=1)
    assert json.loads(refused)["reason"] == "a line lacks cells"


@pytest.mark.kafka
def test_a_polled_source_that_fails_still_reports_when_it_last_worked(
    line_files: Any, platform: Settings, log: Log
) -> None:
    file = platform.files_root / "orders.txt"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("1|2024-05-01T00:00:00Z|ann|2.5\n")
    begin_us = to_micros(datetime.now(UTC))

    with spark_jobs.live(job_of(line_files, "orders.txt", log), platform) as running:
        worked = spark_jobs.wait_caught_up(running, 0).progress
        file.unlink()
        file.mkdir()
        spark_jobs.wait_until(
            lambda: running.report().progress["error"] is not None, within_s=60, so_far=worked
        )
        failed = running.report().progress
    file.rmdir()

    assert worked["rows"] == 1
    assert "is not a plain file" in str(failed["error"])
    for progress in (worked, failed):
        succeeded = progress["succeeded_at"]
        assert isinstance(succeeded, int)
        assert succeeded > begin_us - COARSE_US


@pytest.mark.kafka
def test_a_job_of_an_installed_kind_opens_no_path_outside_the_files_root(
    line_files: Any, platform: Settings, log: Log
) -> None:
    job = job_of(line_files, "../outside.txt", log)

    with pytest.raises(ForbiddenPlaceError, match="cannot be read or written"):
        polling_source(job.asset, platform)


@pytest.mark.kafka
def test_a_missing_client_is_reported_with_the_requirement_of_its_kind(
    tmp_path: Path, platform: Settings, log: Log
) -> None:
    (tmp_path / "needy_kind.py").write_text(
        "import attrs\nfrom line_files import KIND as LINES\n"
        "KIND = attrs.evolve(LINES, source=attrs.evolve(LINES.source, reader='line_client:Read'))\n"
    )
    with installed(tmp_path, "needy", {"line_files": "needy_kind:KIND"}):
        import line_files  # noqa: PLC0415 (it is importable just above)

        job = job_of(line_files, "orders.txt", log)
        with pytest.raises(
            ClientMissingError,
            match=r"`line_client` is not installed; install it with `line-files\[reader\]`",
        ):
            polling_source(job.asset, platform)
