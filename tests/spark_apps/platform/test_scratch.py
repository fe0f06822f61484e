"""Temporary files of drivers: each has a directory, and those of killed ones are deleted."""

import subprocess
import sys
from pathlib import Path

from narthex._processes import process_of
from narthex_spark_apps.platform.scratch import scratch_directory


def test_a_process_has_one_directory(tmp_path: Path) -> None:
    root = tmp_path / "spark"

    first = scratch_directory(root)
    (first / "file").touch()

    assert scratch_directory(root) == first
    assert [path.name for path in first.iterdir()] == ["file"]


def test_directories_of_ended_processes_are_deleted_and_no_others(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as running:
        process = process_of(running.pid)
        assert process is not None
        of_running = tmp_path / f"{process.pid}-{process.start}"
        of_earlier = tmp_path / f"{process.pid}-{process.start - 1}"
        foreign = tmp_path / "warehouse"
        for path in (of_running, of_earlier, foreign):
            path.mkdir()
            (path / "file").touch()

        mine = scratch_directory(tmp_path)

        assert set(tmp_path.iterdir()) == {of_running, foreign, mine}
        running.kill()
    assert scratch_directory(tmp_path) == mine
    assert set(tmp_path.iterdir()) == {foreign, mine}
