"""Each deliberate fault is one edit of the product that can be made, and has tests to find it."""

import ast
import re
from collections import Counter

import pytest

from tests.faults.__main__ import TIERS, Finding, are_enough
from tests.faults.faults import ROOT, Fault, MisplacedFaultError, all_faults
from tests.faults.faulty_copy import judged

FAULTS = all_faults()
PROMISES = {
    "docs/reference/windows.md",
    "docs/reference/operators.md",
    "docs/reference/aggregates.md",
    "docs/reference/types.md",
    "docs/reliability.md",
    "docs/security.md",
}
"""The pages of which some promise must have a fault."""


def names(fault: Fault) -> str:
    return fault.name


def flat(text: str) -> str:
    """Return a text without its line breaks."""
    return " ".join(text.split())


def test_the_list_has_forty_faults_of_all_promises() -> None:
    kinds = Counter(fault.kind for fault in FAULTS)

    assert len({fault.name for fault in FAULTS}) == len(FAULTS) == 40
    assert kinds.keys() == {"semantics", "reliability", "security"}
    assert min(kinds.values()) >= 8, kinds
    assert {fault.page for fault in FAULTS} >= PROMISES
    places = {(fault.file, fault.was, fault.now) for fault in FAULTS}
    assert len(places) == len(FAULTS)


@pytest.mark.parametrize("fault", FAULTS, ids=names)
def test_a_fault_is_one_edit_after_which_the_file_can_be_read(fault: Fault) -> None:
    text = (ROOT / fault.file).read_text(encoding="utf-8")

    changed = fault.put_into(text)

    assert changed != text
    assert not fault.file.startswith(("tests/", "docs/"))
    if fault.file.endswith(".py"):
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(text))


@pytest.mark.parametrize("fault", FAULTS, ids=names)
def test_a_fault_breaks_a_promise_of_its_page(fault: Fault) -> None:
    assert flat(fault.promise) in flat((ROOT / fault.page).read_text(encoding="utf-8"))


@pytest.mark.parametrize("fault", FAULTS, ids=names)
def test_the_tests_that_find_a_fault_exist(fault: Fault) -> None:
    missing = [test for test in fault.found_by if not exists(test)]

    assert fault.found_by
    assert missing == []


def exists(test: str) -> bool:
    file, _, name = test.partition("::")
    path = ROOT / file
    if not path.name.startswith("test_") or not path.is_file():
        return False
    found = re.search(rf"^ *def {name}\(", path.read_text(encoding="utf-8"), re.MULTILINE)
    return not name or found is not None


def test_a_fault_without_its_place_or_with_two_is_reported() -> None:
    (fault, *_) = FAULTS

    for text in ("", fault.was * 2):
        with pytest.raises(MisplacedFaultError):
            fault.put_into(text)


def test_make_test_and_this_measurement_have_the_same_tiers() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (short,) = re.findall(r"^SHORT := (.*)$", makefile, re.MULTILINE)

    assert short == TIERS["make test"]


@pytest.mark.parametrize(
    ("status", "output", "failed"),
    [
        (1, "FAILED tests/a.py::test_b[c - d] - assert 1 == 2\n", "tests/a.py::test_b[c - d]"),
        (1, "FAILED tests/a.py::test_b\n", "tests/a.py::test_b"),
        (1, "FAILED tests/a.py::test_b - NameError: name 'c' is not defined\n", ""),
        (1, "ERROR tests/a.py::test_b - OSError\n", ""),
        (2, "ERROR tests/a.py - SyntaxError: invalid syntax\n", ""),
        (3, "the broker has ended\n", ""),
    ],
)
def test_only_a_test_that_failed_finds_a_fault(status: int, output: str, failed: str) -> None:
    run = judged(status, output)

    assert run.failed == failed
    assert not run.is_green
    assert run.message or failed


def test_a_run_without_failures_finds_nothing() -> None:
    assert judged(0, "3 passed").is_green
    assert judged(5, "no tests ran").is_green
    assert "no Redis" in judged(0, "SKIPPED [2] tests/a.py: no Redis\n3 passed").message


def test_all_faults_must_be_found_and_nine_in_ten_by_make_test() -> None:
    def findings(*counts: int) -> list[Finding]:
        tiers = [
            tier for tier, n in zip((*TIERS, "not found"), counts, strict=True) for _ in range(n)
        ]
        return [
            Finding(fault=FAULTS[0], tier=tier, test="", message="", seconds=0.0) for tier in tiers
        ]

    assert are_enough(findings(36, 4, 0))
    assert not are_enough(findings(35, 5, 0))
    assert not are_enough(findings(39, 0, 1))
