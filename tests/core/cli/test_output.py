"""Tables and facts on a terminal: aligned, and without anything that controls it."""

import pytest

from narthex.cli.output import cell, print_facts, print_json, print_line, print_table, table

HOSTILE = "\x1b[2Jgone\r\n\u202eevil\x07\x9b31m"
SHOWN = "\\x1b[2Jgone\\r\\n\\u202eevil\\x07\\x9b31m"


def test_words_are_on_the_left_and_numbers_on_the_right() -> None:
    lines = [*table(("name", "rows"), [["a", 5], ["long", 1200], ["none", None]])]

    assert lines == ["name  rows", "a        5", "long  1200", "none"]


def test_wide_and_combined_characters_are_aligned_as_a_terminal_shows_them() -> None:
    lines = [*table(("name", "x"), [["日本", "1"], ["e\u0301", "2"]])]

    assert lines == ["name  x", "日本  1", "e\u0301     2"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, ""), (True, "true"), (["a", 1], "a, 1"), ({"a": [1]}, '{"a": [1]}'), ([{}], "[{}]")],
)
def test_a_cell_is_read_by_people(value: object, shown: str) -> None:
    assert cell(value) == shown  # type: ignore[arg-type]


def test_nothing_that_is_printed_controls_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("a", HOSTILE), [[HOSTILE, {HOSTILE: HOSTILE}]], empty="")
    print_facts([(HOSTILE, HOSTILE)])
    print_line(HOSTILE)
    print_json({HOSTILE: HOSTILE})

    printed = capsys.readouterr().out
    assert printed.replace("\n", "").isprintable()
    assert printed.isascii()
    assert f"{SHOWN}  {SHOWN}\n{SHOWN}\n" in printed


def test_a_table_without_rows_is_a_sentence_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("a",), [], empty="there is nothing")

    assert capsys.readouterr() == ("", "there is nothing\n")


def test_facts_without_a_value_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    print_facts([("commit_id", "c"), ("error", None), ("n", 0)])

    assert capsys.readouterr().out == "commit id  c\nn          0\n"
