"""In a pipeline `now()` is the row's event time, anywhere in an expression."""

import pytest

from narthex._expr.now import at_event_time
from narthex._expr.python import evaluate
from narthex._ir.facts import Cell
from narthex._ir.types import Bool, Datetime, List
from narthex.expr import Expr, col, lit, now, when

TYPES = {"made": Datetime(), "ok": Bool(), "times": List(Datetime())}
ROW: dict[str, Cell] = {"made": 7_000_000, "ok": False, "times": (5_000_000,)}


@pytest.mark.parametrize(
    ("written", "value"),
    [
        (now(), 7_000_000),
        (now().dt.since(col("made")), 0),
        (when(col("ok")).then(lit(1)).otherwise(now().dt.since_epoch()), 7),
        (when(now() == col("made")).then(now().dt.since_epoch()).otherwise(lit(0)), 7),
        (lit(3), 3),
    ],
)
def test_now_is_the_event_time(written: Expr, value: Cell) -> None:
    assert evaluate(at_event_time(written.node, "made"), ROW, TYPES) == value
