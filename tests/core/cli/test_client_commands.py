"""The command line: data on stdout, progress on stderr, and exit codes by cause."""

import json
import sys
from pathlib import Path

import pytest

from narthex import cli
from narthex._base.origin import Origin
from narthex.errors import (
    ColumnNotFound,
    CommitFailed,
    DefinitionError,
    DefinitionErrors,
    NarthexError,
    Refused,
    RowsNotContained,
    Unreachable,
    catalogue,
    raise_all,
    render_report,
)

SOUND = """
from datetime import datetime
from narthex.connectors import Webhook, source
from narthex.datasets import dataset

__owner__ = "a@b.co"

@source(Webhook("w").endpoint("e"), disorder="1h", cdc="append")
@dataset
class Orders:
    amount: float
    at: datetime
"""
BROKEN = """
from datetime import datetime
from narthex.connectors import Webhook, source
from narthex.datasets import dataset, field

@dataset
class One:
    amount: set
    at: datetime

@source(Webhook("w").endpoint("e"), disorder="x", cdc="append")
@dataset(version=0)
class Two:
    amount: int
"""


def _run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["narthex", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return int(ended.value.code or 0)


def _file(tmp_path: Path, text: str) -> str:
    path = tmp_path / "features.py"
    path.write_text(text)
    return str(path)


def test_a_valid_file_is_reported_as_valid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(monkeypatch, "check", _file(tmp_path, SOUND)) == 0

    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == "1 dataset, 0 featuresets: sound\n"


def test_check_collects_the_mistakes_of_a_whole_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    assert _run(monkeypatch, "check", _file(tmp_path, BROKEN)) == 1

    told = capsys.readouterr().err
    assert "[NX103] field `amount`: `set`" in told
    assert "  --> features.py:8" in told
    assert "[NX107] version `0`" in told
    assert "[NX110] dataset `Two` has no event-time field" in told
    assert "[NX102] `disorder`" in told
    assert told.endswith("4 mistakes\n")


def test_mistakes_may_be_had_as_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(monkeypatch, "check", _file(tmp_path, BROKEN), "--json") == 1

    found = json.loads(capsys.readouterr().out)["errors"]
    assert [error["code"] for error in found] == ["NX103", "NX102", "NX107", "NX110"]
    assert found[0]["line"] == 8


@pytest.mark.parametrize(
    ("text", "says"),
    [("import nothing_of_that_name", "ModuleNotFoundError"), ("def f(:", "SyntaxError")],
)
def test_an_unreadable_file_is_reported_with_its_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    text: str,
    says: str,
) -> None:
    assert _run(monkeypatch, "check", _file(tmp_path, f"\n\n{text}\n")) == 1

    told = capsys.readouterr().err
    assert "[NX954]" in told
    assert says in told
    assert "features.py:3" in told


def test_a_command_line_that_is_wrong_exits_with_two(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(monkeypatch, "query") == 2
    assert "Missing argument" in capsys.readouterr().err


def test_a_server_that_is_not_there_exits_with_three(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = _file(tmp_path, SOUND)

    assert _run(monkeypatch, "commit", file, "--url", "http://127.0.0.1:1") == 3

    assert "[NX951]" in capsys.readouterr().err


def test_a_commit_of_a_broken_file_sends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = _file(tmp_path, BROKEN)

    assert _run(monkeypatch, "commit", file, "--url", "http://127.0.0.1:1") == 1

    assert "4 mistakes" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Refused("x", status_code=400), 1),
        (Refused("x", status_code=503), 3),
        (Unreachable("x"), 3),
        (CommitFailed("x"), 1),
        (RowsNotContained("x"), 3),
        (ColumnNotFound("x"), 1),
    ],
)
def test_exit_codes_distinguish_causes(error: NarthexError, code: int) -> None:
    assert cli._whose(error) == code  # noqa: SLF001


def test_an_error_is_rendered_with_code_place_and_hint() -> None:
    error = ColumnNotFound(
        "column `amuont` is not in the input; it has `amount`, `user_id`",
        origin=Origin(file="features/fraud.py", line=12),
        hint="did you mean `amount`?",
    )

    assert str(error) == (
        "[NX202] column `amuont` is not in the input; it has `amount`, `user_id`\n"
        "  --> features/fraud.py:12\n"
        "\n"
        "hint: did you mean `amount`?"
    )


def test_errors_are_raised_together_in_source_order() -> None:
    first = ColumnNotFound("one", origin=Origin(file="a.py", line=2))
    second = ColumnNotFound("two", origin=Origin(file="a.py", line=10))

    with pytest.raises(DefinitionErrors) as raised:
        raise_all([second, first])
    raise_all([])

    assert raised.value.exceptions_flat() == (first, second)
    assert str(raised.value) == render_report([first, second])
    assert str(raised.value).endswith("2 mistakes")


def test_every_error_has_a_code_of_its_own_and_a_page() -> None:
    classes = catalogue()

    assert len(classes) > 50
    for code, cls in classes.items():
        assert code.startswith("NX")
        assert cls.__doc__
        assert cls.__doc__.split("\n")[0].endswith((".", "."))
    seen: list[type[NarthexError]] = [NarthexError]
    for cls in seen:
        seen += cls.__subclasses__()
    assert len(seen) == len(classes)
    assert issubclass(classes["NX202"], DefinitionError)


NOT_YET = (
    SOUND
    + """
@source(
    S3("far", role_arn="arn:aws:iam::1:role/reader").bucket("far", prefix="readings"),
    disorder="1h",
    cdc="append",
)
@dataset
class Readings:
    amount: float
    at: datetime
"""
).replace("import Webhook", "import S3, Webhook")


def test_check_lists_unsupported_definitions_apart_from_mistakes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    assert _run(monkeypatch, "check", _file(tmp_path, NOT_YET)) == 0

    told = capsys.readouterr().err
    assert told.startswith("2 datasets, 0 featuresets: sound\n\nvalid, but the platform does not")
    assert "files behind a role of AWS are not read yet" in told
    assert "[NX901]" in told
    assert "--> features.py:14" in told


def test_unsupported_definitions_are_listed_separately_in_json_and_after_mistakes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(monkeypatch, "check", _file(tmp_path, NOT_YET), "--json") == 0

    told = json.loads(capsys.readouterr().out)
    assert told["errors"] == []
    assert [(one["code"], one["line"]) for one in told["not_carried_out"]] == [("NX901", 14)]

    wrong = NOT_YET.replace("amount: float", "amount: set", 1)
    assert _run(monkeypatch, "check", _file(tmp_path, wrong), "--json") == 1
    told = json.loads(capsys.readouterr().out)
    assert told["errors"]
    assert told["not_carried_out"] == []


def test_lines_that_are_not_rows_are_all_named_and_none_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"amount": 1}\n\n{"amount":\n[1]\n{}\n')

    code = _run(monkeypatch, "log", "w", "e", "--rows", str(rows), "--url", "http://127.0.0.1:1")

    told = capsys.readouterr().err
    assert code == 1
    assert "no row was sent" in told
    assert "line 3 is not JSON" in told
    assert "line 4 is not a JSON object with fields" in told
    assert "line 5 is not a JSON object with fields" in told
    assert "line 1" not in told
    assert "Traceback" not in told


def test_a_file_without_rows_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text("\n")

    assert _run(monkeypatch, "log", "w", "e", "--rows", str(rows)) == 1
    assert "there are no rows" in capsys.readouterr().err
