"""How the outcomes of the peer's tests are judged."""

import hashlib
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.peer import wheel
from tests.peer.outcomes import PeerOutcome
from tests.peer.release_day import move
from tests.peer.verdict import COUNT, Reason, judge, load_reasons

REASONS = Path(__file__).with_name("reasons.toml")
REASON = Reason(kind="bug", sentence="It pins a defect.")


def outcomes(failed: int = 0, count: int = COUNT) -> dict[str, PeerOutcome]:
    return {
        f"test_{number}": PeerOutcome("failed" if number < failed else "passed")
        for number in range(count)
    }


def test_all_is_well_when_every_failure_is_listed() -> None:
    verdict = judge(outcomes(failed=2), {"test_0": REASON, "test_1": REASON})

    assert list(verdict.objections()) == []


def test_an_unlisted_failure_is_reported() -> None:
    verdict = judge(outcomes(failed=1), {})

    assert list(verdict.objections()) == ["test_0 does not pass and is not listed"]


def test_a_listed_test_that_passes_is_reported() -> None:
    verdict = judge(outcomes(), {"test_7": REASON})

    assert list(verdict.objections()) == ["test_7 is listed but passes: take it off the list"]


def test_a_listed_test_that_does_not_exist_is_reported() -> None:
    verdict = judge(outcomes(), {"test_gone": REASON})

    assert list(verdict.objections()) == ["test_gone is listed but does not exist"]


def test_a_skipped_test_has_not_passed() -> None:
    found = outcomes() | {"test_3": PeerOutcome("skipped")}

    assert list(judge(found, {}).objections()) == ["test_3 does not pass and is not listed"]


def test_missing_tests_are_reported() -> None:
    assert list(judge(outcomes(count=149), {}).objections()) == ["149 tests ran; there are 150"]


def test_too_few_passing_tests_are_reported() -> None:
    reasons = {f"test_{number}": REASON for number in range(5)}

    assert list(judge(outcomes(failed=5), reasons).objections()) == ["145 of 150 pass; 97% must"]
    del reasons["test_4"]
    assert list(judge(outcomes(failed=4), reasons).objections()) == []


@pytest.mark.parametrize(
    ("kind", "sentence"), [("mood", "We did not like it."), ("bug", "no sentence")]
)
def test_a_reason_has_a_known_kind_and_a_sentence(kind: str, sentence: str) -> None:
    with pytest.raises(ValueError, match="a reason is one of"):
        Reason(kind=kind, sentence=sentence)


def test_the_list_can_be_read_and_is_short() -> None:
    assert len(load_reasons(REASONS)) <= COUNT * 0.03


def test_the_present_can_be_moved_and_comes_back() -> None:
    before = datetime.now(UTC)

    undo = move(timedelta(days=-400))
    moved, naive = datetime.now(UTC), datetime.now()  # noqa: DTZ005 (it is what is looked at)
    undo()

    assert timedelta(days=399) < before - moved < timedelta(days=401)
    assert moved.tzinfo is UTC
    assert naive.tzinfo is None
    assert datetime.now(UTC) >= before


def test_only_the_tests_of_a_wheel_are_unpacked(tmp_path: Path) -> None:
    file = tmp_path / "peer.whl"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("fennel/__init__.py", "")
        archive.writestr("fennel/client_tests/test_a.py", "")
        archive.writestr("fennel/client_tests/data/a.csv", "")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "old.py").touch()

    wheel.unpack(file, tmp_path / "out")

    laid = {str(p.relative_to(tmp_path / "out")) for p in (tmp_path / "out").rglob("*.*")}
    assert laid == {"fennel/client_tests/test_a.py", "fennel/client_tests/data/a.csv"}


def test_a_wheel_of_another_hash_is_refused(tmp_path: Path) -> None:
    (tmp_path / wheel.FILE).write_bytes(b"something else")

    with pytest.raises(wheel.WrongWheel, match=hashlib.sha256(b"something else").hexdigest()):
        wheel.fetch(tmp_path)
