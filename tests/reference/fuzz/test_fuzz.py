"""The search finds a fault, the same in every run, and writes it as a program."""

import json
import runpy
from pathlib import Path

import pytest

from narthex_reference.engines import UnknownEngineError, engine_named, reference
from narthex_reference.fuzz import main, search

WRONG = "tests.reference.fuzz.wrong_engine:ForgetsLateRows"


def test_the_reference_does_not_differ_from_itself(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--n", "20", "--seed", "7"])

    told = json.loads(capsys.readouterr().out)
    assert code == 0
    assert told["differ"] is None
    assert told["projects"] == 20
    assert told["seeds"] == [7, 7]


def test_a_seed_gives_the_same_projects_again() -> None:
    once = search(5, 10, judge=reference, engine=reference)
    again = search(5, 10, judge=reference, engine=reference)

    assert once.steps == again.steps
    assert once.tried == 10


@pytest.mark.slow
def test_an_engine_that_forgets_late_rows_is_found_with_a_program(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["--n", "100", "--seed", "3", "--engine", WRONG, "--programs", str(tmp_path)])

    told = json.loads(capsys.readouterr().out)
    assert code == 1
    # An early row and a late one, each sent and arrived.
    assert Path(told["differ"]).read_text().count("Fact(") == 4
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(told["differ"], run_name="__main__")
    assert ended.value.code == 1
    assert "but means" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["nothing", "nowhere.to:be_found", "json:nothing"])
def test_an_engine_that_is_not_there_is_refused(name: str) -> None:
    with pytest.raises(UnknownEngineError):
        engine_named(name)
