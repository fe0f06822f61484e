"""A table of cases as one test, for tables of many cases of milliseconds each.

pytest's own parametrization makes a test of each case, which costs more than such a case.
"""

import functools
import inspect
from collections.abc import Callable, Collection
from typing import Any, Final

import pytest

TRACEBACKS: Final = 5
"""How many failures are shown whole; the others are named."""


def every(
    names: str | tuple[str, ...],
    cases: Collection[Any] | Callable[[], Collection[Any]],
    *,
    ids: Callable[[Any], object] = str,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test for every case; then fail with the names of all cases that failed.

    The form is that of `pytest.mark.parametrize`. All cases share the fixtures of the test.

    Args:
        names: The parameter of the test that is a case, or the parameters of which a case is a
            tuple.
        cases: The cases, or what makes them when the test runs.
        ids: Names a case.

    Raises:
        AssertionError: There is no case.
        BaseExceptionGroup: Cases failed.
    """
    parameters = (names,) if isinstance(names, str) else names

    def decorated(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(**fixtures: object) -> None:
            found = cases() if callable(cases) else cases
            assert len(found) > 0, "there is no case"
            failed: dict[str, BaseException] = {}
            for number, case in enumerate(found):
                values = (case,) if isinstance(names, str) else case
                try:
                    test(**dict(zip(parameters, values, strict=True)), **fixtures)
                except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - all are listed
                    name = f"{number}: {ids(case)}"
                    error.add_note(f"the case {name}")
                    failed[name] = error
            if failed:
                listed = "".join(f"\n  {name}" for name in failed)
                raise BaseExceptionGroup(
                    f"{len(failed)} of {len(found)} cases failed:{listed}\nthe first of them",
                    list(failed.values())[:TRACEBACKS],
                )

        signature = inspect.signature(test)
        others = [one for name, one in signature.parameters.items() if name not in parameters]
        run.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return run

    return decorated
