"""Measure the cost of an expression by row and by column; print a table and one line of JSON.

    python -m bench.expressions [--rows 100000]

Reports CPU time of the process, the best of three, on the same random rows. The bench first
compares both ways cell by cell; a wrong result is void. A query of fewer than `COLUMNAR_ROWS` rows
is evaluated by row.
"""

import argparse
from collections.abc import Mapping
from random import Random  # noqa: TID251 - seeded below

import attrs
import polars as pl

from bench.figures import best_s, load_average, report_result, show
from narthex._expr.polars.columns import COLUMNAR_ROWS, cells_of, frame_of
from narthex._expr.polars.evaluation import evaluate
from narthex._expr.python import prepare
from narthex._expr.typing import infer
from narthex._ir.facts import Cell
from narthex._ir.types import DataType, Datetime, Decimal, Float, Int, List, Optional, Str
from narthex.expr import Expr, col, lit, var, when

SCHEMA: Mapping[str, DataType] = {
    "amount": Int(),
    "discount": Optional(Float()),
    "price": Decimal(2),
    "name": Str(),
    "at": Datetime(),
    "items": List(Int()),
}
ASKED: Mapping[str, Expr] = {
    "arithmetic": (col("amount") * 3 + 7) % 11,
    "floats, nulls": col("amount") * col("discount").fillnull(0.0) / 3.0,
    "a case": when(col("amount") > lit(500)).then("high").when(col("amount") > lit(50)).then("low"),
    "logic": (col("amount") > lit(10)) & (col("discount") < lit(0.5)) | (col("name") == "user-7"),
    "text": col("name").str.upper().str.contains("ER-1"),
    "parts of an instant": col("at").dt.hour + col("at").dt.day,
    "in a time zone": col("at").dt.with_tz("America/New_York").hour,
    "a decimal": col("price") * 2 + 1,
    "an item of a list": col("items").list.at(0).fillnull(0) + 1,
    "each item of a list": col("items").list.map("item", var("item") * 2).list.sum(),
}


@attrs.frozen(kw_only=True)
class Cost:
    """The cost of one expression, in microseconds per row."""

    name: str
    by_row_us: float
    by_column_us: float
    same: bool

    @property
    def ratio(self) -> float:
        """The cost by row, divided by the cost by column."""
        return self.by_row_us / self.by_column_us


def columns_of(rows: int, seed: int = 5) -> dict[str, list[Cell]]:
    """Return columns of random cells."""
    rng = Random(seed)  # noqa: S311 - reproducible, not secret
    return {
        "amount": [rng.randrange(1000) for _ in range(rows)],
        "discount": [None if rng.random() < 0.1 else rng.random() for _ in range(rows)],  # noqa: PLR2004
        "price": [rng.randrange(1_000_000) for _ in range(rows)],
        "name": [f"user-{rng.randrange(1000)}" for _ in range(rows)],
        "at": [1_700_000_000_000_000 + rng.randrange(10**13) for _ in range(rows)],
        "items": [tuple(range(rng.randrange(5))) for _ in range(rows)],
    }


def measure(
    name: str, written: Expr, columns: Mapping[str, list[Cell]], frame: pl.DataFrame
) -> Cost:
    """Measure one expression on an existing frame, as a server would."""
    prepared = prepare(written.node, SCHEMA)
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    by_row = [prepared(row, None) for row in rows]
    by_column = cells_of(evaluate(written.node, frame, SCHEMA), infer(written.node, SCHEMA))
    row_s = best_s(lambda: [prepared(row, None) for row in rows])
    column_s = best_s(lambda: evaluate(written.node, frame, SCHEMA))
    return Cost(
        name=name,
        by_row_us=row_s / len(rows) * 1e6,
        by_column_us=column_s / len(rows) * 1e6,
        same=by_row == by_column,
    )


def main() -> int:
    """Measure all expressions; exit with 1 if rows and columns differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    rows = parser.parse_args().rows
    columns = columns_of(rows)
    frame = frame_of(columns, SCHEMA)
    costs = [measure(name, written, columns, frame) for name, written in ASKED.items()]
    show(
        f"expressions on {rows} rows, microseconds a row (columns from {COLUMNAR_ROWS} rows on)",
        ["expression", "by row", "by column", "ratio", "same"],
        [
            (
                one.name,
                f"{one.by_row_us:.2f}",
                f"{one.by_column_us:.3f}",
                f"{one.ratio:.1f}",
                "yes" if one.same else "NO",
            )
            for one in costs
        ],
    )
    figures = {one.name: {"row_us": one.by_row_us, "column_us": one.by_column_us} for one in costs}
    report_result(
        "expressions", {"rows": rows, "load_average": load_average(), "expressions": figures}
    )
    return 0 if all(one.same for one in costs) else 1


if __name__ == "__main__":
    raise SystemExit(main())
