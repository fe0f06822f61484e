"""The writers report the newest generation of a feed: a promotion waits for it."""

from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from narthex._ir.types import Int
from narthex.settings import Settings
from narthex_spark_apps.supervision.runner import JobLoop
from narthex_spark_apps.supervision.runner_messages import (
    DesiredAssignments,
    Report,
    RunnerMessage,
    WorkAssignment,
)
from narthex_spark_apps.writers.history_writer import HistoryWriter
from narthex_spark_apps.writers.index_writer import IndexWriter
from tests.spark_apps.writers import test_history_writer, test_index_feed


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Return settings of a broker that is down."""
    return Settings(
        home=tmp_path,
        install_id="testtest",
        ledger_dsn="",
        kafka="127.0.0.1:1",
        server_url="",
        token="",
        index_dir=tmp_path / "index",
        history_dir=str(tmp_path / "history"),
        checkpoint_dir=tmp_path / "checkpoints",
        files_root=tmp_path / "files",
        jars_dir=tmp_path / "jars",
    )


def test_an_index_writer_reports_the_newest_generation(settings: Settings) -> None:
    feed = test_index_feed.open_feed(settings, Int())
    feed.stop()
    sent: list[RunnerMessage] = []
    loop = JobLoop(IndexWriter(settings), send=sent.append)

    assert generations(loop.turn, loop.report, sent, feed.assignment) == [1, 2]


def test_a_history_writer_reports_the_newest_generation(settings: Settings) -> None:
    feed = test_history_writer.open_feed(settings, disorder_us=None)
    sent: list[RunnerMessage] = []
    loop = JobLoop(HistoryWriter(settings), send=sent.append)

    assert generations(loop.turn, loop.report, sent, feed.assignment) == [1, 2]


def generations(
    turn: Callable[[DesiredAssignments], None],
    report: Callable[[], None],
    sent: list[RunnerMessage],
    assignment: WorkAssignment,
) -> list[int]:
    """Assign two generations of one epoch; return those that are reported after each."""
    reported = []
    for generation in (1, 2):
        newest = attrs.evolve(assignment, generation=generation)
        turn(DesiredAssignments(assignments=(newest,), turn=generation))
        sent.clear()
        report()
        reported += [message.generation for message in sent if isinstance(message, Report)]
    return reported
