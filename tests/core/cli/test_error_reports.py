"""Errors on a terminal: the author's line, a mark below the name, and a file for a traceback."""

import re
import sys
from pathlib import Path

import pytest

from narthex import cli
from narthex._base.origin import Origin
from narthex.cli import error_reports
from narthex.cli.error_reports import excerpt, has_colour, shown_error
from narthex.errors import ColumnNotFound, NarthexError

LINE = '    payments.filter(col("amont") > 0.0)'


def error_at(file: Path, line: int, message: str) -> NarthexError:
    return ColumnNotFound(message, origin=Origin(file=str(file), line=line), hint="mend it")


def test_the_line_is_shown_with_a_mark_below_what_is_wrong_in_it(tmp_path: Path) -> None:
    file = tmp_path / "features.py"
    file.write_text(f"\n{LINE}\n")

    shown = shown_error(error_at(file, 2, "in `filter`: column `amont` not found"))

    assert shown.splitlines()[1:5] == [
        f"  --> {file}:2",
        "  |",
        f"2 | {LINE}",
        f"  | {' ' * LINE.index('amont')}^^^^^",
    ]
    assert shown.endswith("hint: mend it")


def test_nothing_is_marked_if_the_line_has_nothing_that_is_named(tmp_path: Path) -> None:
    file = tmp_path / "features.py"
    file.write_text(f"{LINE}\n")

    assert excerpt(error_at(file, 1, "`mount` is not known")) == ("  |", f"1 | {LINE}")


@pytest.mark.parametrize(("name", "line"), [("gone.py", 1), ("features.py", 9), ("secret.txt", 1)])
def test_a_place_that_is_not_on_this_machine_has_no_excerpt(
    tmp_path: Path, name: str, line: int
) -> None:
    (tmp_path / "features.py").write_text(LINE)
    (tmp_path / "secret.txt").write_text("nx_secret")

    error = error_at(tmp_path / name, line, "`x` is wrong")

    assert excerpt(error) == ()
    assert shown_error(error) == error.render()


class Terminal:
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environment", "shown"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
)
def test_a_terminal_shows_colours_unless_they_are_not_wanted(
    environment: dict[str, str], shown: bool
) -> None:
    assert has_colour(Terminal(), environment) is shown  # type: ignore[arg-type]
    assert not has_colour(sys.__stderr__ or sys.stderr, {"NO_COLOR": "1"})


def test_colours_add_nothing_to_the_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "features.py"
    file.write_text(f"{LINE}\n")
    error = error_at(file, 1, "in `filter`: column `amont` not found")
    plain = shown_error(error)
    monkeypatch.setattr(error_reports, "has_colour", lambda *_: True)

    coloured = shown_error(error)

    assert coloured != plain
    assert re.sub(r"\x1b\[\d+m", "", coloured) == plain


def test_an_unforeseen_error_is_reported_with_a_file_and_without_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr(sys, "argv", ["narthex", "check", "x.py"])
    monkeypatch.setattr(cli, "make_app", lambda: lambda: 1 // 0)

    with pytest.raises(SystemExit) as ended:
        cli.main()

    told = capsys.readouterr().err
    assert ended.value.code == 3
    assert "ZeroDivisionError" in told
    assert "Traceback" not in told
    log = Path(told.rpartition("with the file ")[2].strip())
    assert log.parent == tmp_path
    assert log.read_text().startswith("narthex check x.py\nTraceback")


def test_the_file_of_an_unforeseen_error_has_no_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(
        sys, "argv", ["narthex", "commits", "--token", "nx_one", "--token=nx_two", "--json"]
    )

    error_reports.log_crash(ValueError("x"))

    (log,) = tmp_path.iterdir()
    assert log.read_text().startswith("narthex commits --token … --token=… --json\n")
