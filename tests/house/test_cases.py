"""One test of many cases runs all of them, and names each that fails."""

import pytest

from tests.cases import TRACEBACKS, every

NUMBERS = tuple(range(20))


def test_every_case_runs_and_each_failure_is_named() -> None:
    ran = []

    @every("number", NUMBERS, ids=lambda number: f"<{number}>")
    def is_small(number: int) -> None:
        ran.append(number)
        assert number < 12

    with pytest.raises(BaseExceptionGroup) as raised:
        is_small()

    assert ran == [*NUMBERS]
    assert "8 of 20 cases failed" in raised.value.message
    assert [number for number in NUMBERS if f"<{number}>" in raised.value.message] == [
        *range(12, 20)
    ]
    assert len(raised.value.exceptions) == TRACEBACKS
    assert raised.value.exceptions[0].__notes__ == ["the case 12: <12>"]


def test_a_failure_of_pytest_is_listed() -> None:
    @every("number", (1, 0))
    def is_refused(number: int) -> None:
        with pytest.raises(ZeroDivisionError):
            assert 1 / number

    with pytest.raises(BaseExceptionGroup, match=r"1 of 2 cases failed:\n  0: 1\n"):
        is_refused()


def test_a_table_without_a_case_fails() -> None:
    @every("number", list)
    def never(number: int) -> None:
        raise NotImplementedError(number)

    with pytest.raises(AssertionError, match="there is no case"):
        never()


@every(("number", "square"), lambda: [(number, number**2) for number in NUMBERS])
def test_a_case_has_several_values_beside_the_fixtures(
    number: int, square: int, request: pytest.FixtureRequest
) -> None:
    assert square == number * number
    assert request.node.name == "test_a_case_has_several_values_beside_the_fixtures"
