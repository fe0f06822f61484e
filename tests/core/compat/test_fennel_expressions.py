"""Expressions under `import fennel`: errors that are built-in, and series as Fennel's were."""

from datetime import UTC, datetime
from typing import Optional

import pandas as pd
import pytest

from narthex.compat.expressions import InvalidExprException, col, from_epoch, lit, when
from narthex.expr import Expr

INTS = pd.DataFrame({"a": [1, -7]})


@pytest.mark.parametrize("kind", [ValueError, TypeError, InvalidExprException])
def test_a_mistake_is_each_error_that_fennel_raised(kind: type[Exception]) -> None:
    with pytest.raises(kind, match="column `b` not found"):
        col("b").typeof({"a": int})
    with pytest.raises(kind, match="both sides of `\\+`"):
        (col("a") + "x").eval(INTS, {"a": int})
    with pytest.raises(kind, match="`log` got the base -1"):
        col("a").num.log(-1)
    with pytest.raises(kind, match="`when"):
        _ = when(col("a") > 1).otherwise
    with pytest.raises(kind, match="zone"):
        _ = col("a").dt.with_tz("Nowhere/X").hour


def test_series_have_numpys_dtypes_unless_a_value_is_null() -> None:
    def evaluated(expression: Expr, schema: object) -> pd.Series:  # type: ignore[type-arg]
        frame = pd.DataFrame({"a": [4, None if schema is not int else 9]})
        series: pd.Series = expression.eval(frame, {"a": schema})  # type: ignore[type-arg, assignment, arg-type]
        return series

    whole = evaluated(1 + col("a"), int)
    optional = evaluated(col("a") + 1, Optional[int])  # noqa: UP045
    filled = evaluated(col("a").fillnull(0), Optional[int])  # noqa: UP045
    instants = evaluated(from_epoch(col("a"), unit="second"), Optional[int])  # noqa: UP045
    chosen = evaluated(when(col("a") > 5).then("much").otherwise("little"), int)

    assert (whole.dtype, whole.tolist()) == ("int64", [5, 10])
    assert (optional.dtype, optional.tolist()) == ("object", [5, pd.NA])
    assert (filled.dtype, filled.tolist()) == ("int64", [4, 0])
    assert instants.dtype == "datetime64[ns, UTC]"
    assert instants.tolist() == [datetime(1970, 1, 1, 0, 0, 4, tzinfo=UTC), pd.NaT]
    assert (chosen.dtype, chosen.tolist()) == ("object", ["little", "much"])


@pytest.mark.parametrize(
    "expression", [col("a") // 0, col("a").num.pow(-2), lit(1) % (col("a") - 1), lit(None)]
)
def test_a_null_of_a_type_that_is_not_optional_is_an_error(expression: Expr) -> None:
    with pytest.raises(ValueError, match="is not optional, and is null"):
        expression.eval(INTS, {"a": int})


def test_text_that_cannot_be_parsed_is_an_error() -> None:
    frame = pd.DataFrame({"a": ["1", "x"]})

    for target in (int, float, Optional[int]):  # noqa: UP045
        with pytest.raises(ValueError, match="failed to evaluate"):
            col("a").str.parse(target).eval(frame, {"a": str})  # type: ignore[arg-type]
    assert col("a").str.parse(int).eval(frame.head(1), {"a": str}).tolist() == [1]
