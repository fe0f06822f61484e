import os
from pathlib import Path

from narthex._processes import Process, find_process, is_alive, load_process, process_of


def me() -> Process:
    process = process_of(os.getpid())
    assert process is not None
    return process


def test_a_process_of_the_same_pid_but_another_start_is_another() -> None:
    assert is_alive(me())
    assert not is_alive(Process(pid=me().pid, start=me().start - 1))


def test_a_process_comes_back_from_its_file(tmp_path: Path) -> None:
    me().store(tmp_path / "child.pid")

    assert load_process(tmp_path / "child.pid") == me()
    assert load_process(tmp_path / "missing.pid") is None


def test_a_file_with_other_content_has_no_process(tmp_path: Path) -> None:
    for content in ("", "17", '{"pid": "x"}'):
        (tmp_path / "child.pid").write_text(content)

        assert load_process(tmp_path / "child.pid") is None


def test_a_process_is_in_the_session_of_its_group_leader() -> None:
    running = find_process(os.getpid())

    assert running is not None
    assert running.session == os.getsid(0)
