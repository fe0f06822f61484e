"""User code travels as text with everything that it reaches."""

import math
import os
import re
import textwrap
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from types import FunctionType
from typing import Any

import attrs
import numpy as np
import pandas as pd
import pytest

from narthex._base.origin import Origin
from narthex._ir.code import UserCode
from narthex._sdk.closure import find_breaches, requirements_of, resolve, verify
from narthex.cli.projects.author_files import load_file
from narthex.errors import (
    CodeDisagrees,
    CodeForbidden,
    CodeNotCarried,
    CodeNotFound,
    DefinitionErrors,
)

HERE = Origin(file="here.py", line=1)

LIMIT = 10
FACTORS = {"a": 1, "b": 2}
PATTERN = re.compile(r"\d+")
PRICE = Decimal("1.50")
LATER = LIMIT * 2 + FACTORS["a"]
CHANGED: dict[str, int] = {}
BUILT = [n for n in range(int(math.pow(2, 2)))]  # noqa: C416
TWICE = 1
TWICE = TWICE + 1


class Options:
    depth = 3

    def apply(self, n: int) -> int:
        return n + self.depth + LIMIT


def helper(x: Any, k: int = LIMIT) -> Any:
    """Add to it."""
    return x + k + deeper(x)


def deeper(x: Any) -> Any:
    return x * LATER


def reaches_all(df: pd.DataFrame) -> Any:
    # a comment
    matched = PATTERN.match("1") is not None
    return helper(df["x"]) + np.abs(Options().apply(1)) + int(matched) + int(PRICE)


def countdown(n: int) -> int:
    return countdown(n - 1) if n else 0


def _resolve(function: object) -> UserCode:
    return resolve(function, what="`f`", origin=HERE)


def _run(code: UserCode) -> Callable[..., Any]:
    scope: dict[str, Any] = {}
    exec(code.source, scope)  # noqa: S102 (the text is this file's own)
    found: Callable[..., Any] = scope[code.entry]
    return found


def test_captured_code_has_its_references_and_the_same_results() -> None:
    frame = pd.DataFrame({"x": [1, 2, 3]})

    code = _resolve(reaches_all)

    assert _run(code)(frame).tolist() == reaches_all(frame).tolist()
    assert code.source.index("LATER =") < code.source.index("def deeper")
    assert code.source.index("def deeper") < code.source.index("def helper")
    assert "CHANGED" not in code.source
    assert verify(code) == ()


def test_two_lambdas_of_one_line_are_distinguished() -> None:
    pair = (lambda df: df["a"] + 1, lambda df: df["a"] + 2)

    first, second = map(_resolve, pair)

    assert first.source.endswith("lambda df: df['a'] + 1\n")
    assert second.source.endswith("lambda df: df['a'] + 2\n")
    assert first.source != second.source


def test_a_lambda_of_several_lines_travels_whole() -> None:
    several = lambda df: (  # noqa: E731
        df["a"]
        # commented
        + LIMIT
    )

    assert _run(_resolve(several))({"a": 1}) == 11


def test_a_function_that_calls_itself_travels() -> None:
    assert _run(_resolve(countdown))(3) == 0


def test_literals_of_an_enclosing_function_are_captured() -> None:
    def above(limit: int) -> FunctionType:
        return lambda df: df["a"] > limit  # type: ignore[return-value]

    assert _run(_resolve(above(5)))({"a": 6})
    assert _resolve(above(5)).source != _resolve(above(6)).source


def test_the_versions_of_imported_libraries_travel() -> None:
    code = _resolve(reaches_all)

    names = {requirement.distribution: requirement.version for requirement in code.requires}
    assert names["numpy"] == np.__version__
    assert names["pandas"] == pd.__version__
    assert requirements_of("import json\n") == tuple(
        r for r in code.requires if r in requirements_of("")
    )


def _uses_clock(df: Any) -> Any:
    import time  # noqa: PLC0415

    return time.time() + df  # noqa: TID251


def _draws(df: Any) -> Any:
    return df + np.random.rand(3)  # noqa: NPY002


def _seeded(df: Any) -> Any:
    return df + np.random.default_rng(7).random()


def _opens(df: Any) -> Any:
    return open("x").read() + df  # noqa: PTH123


def _changes(df: Any) -> Any:
    CHANGED["x"] = df
    return df


def _reaches_built(df: Any) -> Any:
    return df + BUILT[0]


def _reaches_twice(df: Any) -> Any:
    return df + TWICE


def _reaches_nothing(df: Any) -> Any:
    return df + not_there  # type: ignore[name-defined]  # noqa: F821


def _names_a_local_like_a_builtin(df: Any, id: int) -> Any:
    hash = id + 1  # noqa: A001
    return df + hash


@pytest.mark.parametrize(
    ("function", "error", "says"),
    [
        (_uses_clock, CodeForbidden, "`time.time`, which reads the clock"),
        (_draws, CodeForbidden, "`numpy.random.rand`, which draws at random"),
        (_opens, CodeForbidden, "`open`, which reaches a file"),
        (_changes, CodeNotCarried, "`CHANGED`, which is changed"),
        (_reaches_built, CodeNotCarried, "`BUILT`"),
        (_reaches_twice, CodeNotCarried, "`TWICE`, which is bound more than once"),
        (_reaches_nothing, CodeNotCarried, "`not_there`, which is not defined"),
        (len, CodeNotFound, "is not a plain function"),
        (FunctionType(compile("1", "<made>", "eval"), {}), CodeNotFound, "cannot be read"),
    ],
)
def test_code_that_cannot_be_captured_is_refused_by_name(
    function: object, error: type[Exception], says: str
) -> None:
    with pytest.raises(DefinitionErrors) as raised:
        _resolve(function)

    found = raised.value.exceptions_flat()[0]
    assert type(found) is error
    assert says in str(raised.value)


def test_a_forbidden_call_is_reported_at_its_own_line() -> None:
    with pytest.raises(DefinitionErrors) as raised:
        _resolve(_draws)

    (found,) = raised.value.exceptions_flat()
    assert found.origin.file.endswith("test_closure.py")
    assert found.origin.line == _draws.__code__.co_firstlineno + 1


@pytest.mark.parametrize("function", [_seeded, _names_a_local_like_a_builtin])
def test_deterministic_code_can_be_captured(function: object) -> None:
    assert find_breaches(_resolve(function).source) == ()


def test_the_text_does_not_depend_on_the_position_of_the_code(tmp_path: Path) -> None:
    text = 'K = 3\ndef helper(x):\n    return x + K\nf = lambda df: helper(df["a"])\n'
    (tmp_path / "apart.py").write_text("K = 3\ndef helper(x):\n    return x + K\n")
    (tmp_path / "whole_one.py").write_text(text + _dataset_of("f"))
    (tmp_path / "whole_two.py").write_text(
        '# moved\nfrom apart import helper\n\n\nf = lambda df: helper(df["a"])\n' + _dataset_of("f")
    )

    one, two = (load_file(tmp_path / name) for name in ("whole_one.py", "whole_two.py"))

    assert one.errors == two.errors == ()
    assert _filter_code(one).source == _filter_code(two).source


def test_a_file_that_was_written_again_at_once_is_read_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "shop_written_twice.py"
    found = []
    for limit in (3, 4):
        path.write_text(f"f = lambda df: df['a'] > {limit}\n{_dataset_of('f')}", encoding="utf-8")
        os.utime(path, (1_800_000_000, 1_800_000_000 + limit / 10))
        found.append(_filter_code(load_file(path)).source[-2:])

    assert found == ["3\n", "4\n"]


def _dataset_of(function: str) -> str:
    return textwrap.dedent(
        f"""
        from datetime import datetime
        from narthex.datasets import dataset, pipeline
        from narthex.lib import inputs
        @dataset
        class A:
            a: int
            at: datetime
        @dataset
        class B:
            a: int
            at: datetime
            @pipeline
            @inputs(A)
            def p(cls, a):
                return a.filter({function})
        """
    )


def _filter_code(file: Any) -> UserCode:
    (pipeline,) = file.definitions().datasets[1].pipelines
    found = pipeline.terminal.predicate
    assert isinstance(found, UserCode)
    return found


@pytest.mark.parametrize(
    "source",
    [
        "def f(df):\n    nonlocal x\n    return x\n",
        "def f(df, df):\n    return df\n",
        "def f(df):\n    return " + "-" * 50_000 + "1\n",
    ],
)
def test_received_code_that_python_cannot_read_is_refused(source: str) -> None:
    (error,) = verify(UserCode(entry="f", source=source, python="3.11"))

    assert isinstance(error, CodeForbidden)


def test_code_that_was_tampered_with_is_refused() -> None:
    code = _resolve(reaches_all)

    (worse,) = verify(attrs.evolve(code, source=code.source + "import os\n"))
    twice = verify(attrs.evolve(code, source=code.source + "LATER = 1\n"))
    (unbound,) = verify(attrs.evolve(code, entry="elsewhere"))

    assert isinstance(worse, CodeForbidden)
    assert [(type(error), "`LATER`, which is bound more" in str(error)) for error in twice] == [
        (CodeNotCarried, True)
    ]
    assert isinstance(unbound, CodeDisagrees)
