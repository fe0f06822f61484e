"""Delta tables as sources: the changes that they keep of themselves, version by version."""

import json
from collections.abc import Mapping
from pathlib import Path

import polars as pl
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from narthex._base.records import to_plain
from narthex._formats.avro.codec import fact_codec
from narthex._ir.assets import ResolvedNeed
from narthex._ir.entities import Cdc, ColumnRef, Files, TableFormat, Where
from narthex._ir.expression_nodes import Call, Literal, Ref
from narthex._ir.facts import Fact, position
from narthex._ir.schema import Column
from narthex._ir.types import Float
from narthex.settings import Settings
from narthex_spark_apps.sources.files.delta_changes import (
    UnreadableTableError,
    arrived_rows,
    render_version,
    versions_of,
)
from narthex_spark_apps.sources.files.source import FileSource
from narthex_spark_apps.sources.row_rendering import RowRenderer
from narthex_spark_apps.sources.source_job import SourceJob
from tests.spark_apps import spark_jobs
from tests.spark_apps.conftest import Log

T0 = 1_357_000_000_000_000
TABLE = Files(name="lake", path="orders", format=TableFormat(kind="delta"))


def rows(*numbers: int, **other: object) -> pl.DataFrame:
    return pl.DataFrame(
        [{"id": n, "moment": T0 + n, "who": "ann", "amount": 2.5} | other for n in numbers]
    )


def write_story(path: str) -> None:
    """Insert three rows; change one, and the key of another; delete the third."""
    facts_of_versions = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(path, rows(1, 2, 3).to_arrow(), configuration=facts_of_versions)
    table = DeltaTable(path)
    table.update(predicate="id = 1", updates={"amount": "7.5", "moment": f"{T0 + 10}"})
    table.update(predicate="id = 2", updates={"id": "20", "moment": f"{T0 + 11}"})
    table.delete("id = 3")


def delta_job(*, needs: tuple[ResolvedNeed, ...] = (), where: Where | None = None) -> SourceJob:
    needed = needs or (
        spark_jobs.topic_need("output", "log"),
        spark_jobs.topic_need("quarantine", "refused"),
    )
    return spark_jobs.source_job(
        TABLE, needs=needed, preproc=(("at", ColumnRef("moment")),), where=where, cdc=Cdc.NATIVE
    )


def facts_of_versions(
    path: str, job: SourceJob, *, versions: int | None = None
) -> list[list[Fact]]:
    """Return the facts of each version, or of the first few; none of them may hold a refused
    row.
    """
    renderer = RowRenderer.of(
        json.dumps(to_plain(job.spec)), source_id="", output="log", quarantine="refused"
    )
    codec = fact_codec(job.spec.log)
    found = []
    for version in versions_of(path, {}, root=Path(path).parent)[:versions]:
        made = render_version(renderer, arrived_rows(version, {}, root=Path(path).parent))
        records = [record for one in made for record in one]
        assert {topic for topic, _, _ in records} <= {"log"}
        found.append([codec.decode(value) for _, _, value in records])
    return found


def shown(facts: list[Fact]) -> list[tuple[object, ...]]:
    return [(fact.key[0], fact.alive, fact.values[1] if fact.alive else None) for fact in facts]


def test_a_table_reports_inserts_updates_key_changes_and_deletes(tmp_path: Path) -> None:
    path = str(tmp_path / "orders")
    write_story(path)

    inserted, updated, moved, deleted = facts_of_versions(path, delta_job())

    assert sorted(shown(inserted)) == [(1, True, 2.5), (2, True, 2.5), (3, True, 2.5)]
    assert shown(updated) == [(1, True, 7.5)]
    assert updated[0].event_time == T0 + 10
    assert sorted(shown(moved)) == [(2, False, None), (20, True, 2.5)]
    assert shown(deleted) == [(3, False, None)]
    assert deleted[0].event_time > T0 + 3
    at = {fact.version for fact in inserted}
    assert at == {position("files:lake:orders", 0, 0, n) for n in range(3)}
    assert {fact.version[:-4] for fact in moved} == {position("files:lake:orders", 0, 2, 0)[:-4]}


def test_a_row_that_the_author_does_not_want_any_more_ends(tmp_path: Path) -> None:
    path = str(tmp_path / "orders")
    write_story(path)
    small = Where(Call("lt", (Ref("amount"), Literal(5.0, Float()))), (Column("amount", Float()),))

    _, updated, _, _ = facts_of_versions(path, delta_job(where=small))

    assert shown(updated) == [(1, False, None)]


def test_reading_a_version_again_gives_the_same_rows_in_the_same_places(tmp_path: Path) -> None:
    path = str(tmp_path / "orders")
    write_story(path)

    assert facts_of_versions(path, delta_job()) == facts_of_versions(path, delta_job())


def test_a_table_without_a_change_log_is_refused_with_a_remedy(tmp_path: Path) -> None:
    path = str(tmp_path / "orders")
    with pytest.raises(UnreadableTableError, match="is not a Delta table"):
        versions_of(path, {}, root=Path(path).parent)
    write_deltalake(path, rows(1).to_arrow())

    with pytest.raises(UnreadableTableError, match="enableChangeDataFeed"):
        arrived_rows(versions_of(path, {}, root=tmp_path)[0], {}, root=tmp_path)


@pytest.mark.spark
@pytest.mark.kafka
def test_a_job_reads_each_version_once_and_finds_the_next_ones(
    spark: SparkSession, platform: Settings, log: Log
) -> None:
    path = str(platform.files_root / "orders")
    write_story(path)
    needs = (
        spark_jobs.topic_need("output", log.topic("orders")),
        spark_jobs.topic_need("quarantine", log.topic("refused")),
        spark_jobs.checkpoint_need(Path(log.topic("checkpoint"))),
    )
    job = delta_job(needs=needs)
    memory = platform.checkpoint_dir / "files.json"
    source = FileSource(spark, job, settings=platform, memory=memory)

    first = [counted(source.read(version)) for version in source.unread()]
    write_deltalake(path, rows(4, amount=9999.0).to_arrow(), mode="append")
    second = [counted(source.read(version)) for version in source.unread()]

    assert first == [(3, 0), (1, 0), (2, 0), (1, 0)]
    assert second == [(1, 1)]
    assert source.unread() == ()
    found = fact_codec(job.spec.log).decode_many([v for _, v in log.records(job.output, count=7)])
    assert sorted(shown(found)) == sorted(
        shown(
            [
                fact
                for version in facts_of_versions(path, delta_job(), versions=4)
                for fact in version
            ]
        )
    )


def counted(counts: Mapping[str, int]) -> tuple[int, int]:
    return counts["rows"], counts["quarantined"]
