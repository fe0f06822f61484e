"""Classify the outcomes of the peer's tests: expected and unexpected failures."""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import attrs

from tests.peer.outcomes import PeerOutcome

COUNT: Final = 150
LEAST_SHARE: Final = 0.97
KINDS: Final = ("decision", "bug", "internals")


@attrs.frozen(kw_only=True)
class Reason:
    """The reason why a test of the peer cannot pass here.

    Attributes:
        kind: `decision`: our semantics differ on purpose; `bug`: it pins a defect of the peer;
            `internals`: it looks behind the public interface.
        sentence: The details.
    """

    kind: str
    sentence: str

    def __attrs_post_init__(self) -> None:
        if self.kind not in KINDS or not self.sentence.endswith("."):
            raise ValueError(f"a reason is one of {KINDS} and a sentence, found {self}")


@attrs.frozen(kw_only=True)
class Verdict:
    """All tests, sorted by how they ended and whether that was to be expected."""

    passed: tuple[str, ...]
    explained: Mapping[str, Reason]
    unexplained: Mapping[str, PeerOutcome]
    passed_though_listed: tuple[str, ...]
    listed_but_absent: tuple[str, ...]

    @property
    def count(self) -> int:
        """How many tests ran."""
        return len(self.passed) + len(self.explained) + len(self.unexplained)

    def objections(self) -> Iterator[str]:
        """Say everything that is wrong; nothing means that all is well."""
        if self.count != COUNT:
            yield f"{self.count} tests ran; there are {COUNT}"
        if len(self.passed) < LEAST_SHARE * COUNT:
            yield f"{len(self.passed)} of {COUNT} pass; {LEAST_SHARE:.0%} must"
        for test in self.unexplained:
            yield f"{test} does not pass and is not listed"
        for test in self.passed_though_listed:
            yield f"{test} is listed but passes: take it off the list"
        for test in self.listed_but_absent:
            yield f"{test} is listed but does not exist"


def load_reasons(file: Path) -> dict[str, Reason]:
    """Read the list: a table for each test, with `kind` and `sentence`."""
    with file.open("rb") as stream:
        return {test: Reason(**found) for test, found in tomllib.load(stream).items()}


def judge(outcomes: Mapping[str, PeerOutcome], reasons: Mapping[str, Reason]) -> Verdict:
    """Sort the outcomes by whether a reason is listed. A skipped test has not passed."""
    passed = tuple(test for test, outcome in outcomes.items() if outcome.ended == "passed")
    others = {test: outcome for test, outcome in outcomes.items() if outcome.ended != "passed"}
    return Verdict(
        passed=passed,
        explained={test: reasons[test] for test in others if test in reasons},
        unexplained={test: found for test, found in others.items() if test not in reasons},
        passed_though_listed=tuple(test for test in passed if test in reasons),
        listed_but_absent=tuple(test for test in reasons if test not in outcomes),
    )
