"""Raw rows pass preproc, then `where`, then types; all reasons are reported at once."""

import attrs
import pytest

from narthex._base.records import Json
from narthex._ir.entities import (
    Cdc,
    ColumnRef,
    Computed,
    Constant,
    Source,
    WebhookEndpoint,
    Where,
)
from narthex._ir.expression_nodes import Call, Literal, Ref
from narthex._ir.schema import Column, Field, Role, Schema
from narthex._ir.types import Bool, Datetime, Float, Int, Str
from narthex._runtime.ingest.row_parser import (
    FilteredRow,
    ParsedRow,
    RejectedRow,
    RowOutcome,
    parse_row,
)

DAY_US = 86_400_000_000
SCHEMA = Schema(
    (
        Field(name="user", type=Str()),
        Field(name="amount", type=Float()),
        Field(name="shop", type=Str()),
        Field(name="at", type=Datetime(), role=Role.TIMESTAMP),
    )
)
SOURCE = Source(
    connector=WebhookEndpoint(webhook="shop", endpoint="orders"),
    disorder_us=0,
    cdc=Cdc.APPEND,
    preproc=(
        ("shop", Constant("oslo")),
        ("at", ColumnRef("ordered_at")),
        (
            "amount",
            Computed(
                expression=Call("div", (Ref("cents"), Literal(100, Int()))),
                schema=(Column("cents", Int()),),
            ),
        ),
    ),
    where=Where(expression=Call("not", (Ref("test"),)), schema=(Column("test", Bool()),)),
)
ROW: dict[str, Json] = {
    "user": "ann",
    "cents": 250,
    "ordered_at": "1970-01-02T00:00:00Z",
    "test": False,
}


def admitted(source: Source = SOURCE, **changed: Json) -> RowOutcome:
    return parse_row(source, SCHEMA, {**ROW, **changed}, now_us=0)


def reasons(found: RowOutcome) -> dict[str, str]:
    assert isinstance(found, RejectedRow)
    return {problem.field: problem.reason for problem in found.problems}


def test_preproc_gives_fields_from_constants_other_columns_and_expressions() -> None:
    assert admitted(unknown="ignored") == ParsedRow(
        cells={"user": "ann", "amount": 2.5, "shop": "oslo", "at": DAY_US}
    )


def test_a_row_that_where_does_not_want_is_left_out_before_its_types_are_looked_at() -> None:
    assert admitted(test=True, user=7) == FilteredRow()


def test_where_on_an_untyped_column_is_a_problem() -> None:
    assert set(reasons(admitted(test="perhaps"))) == {"test"}


@pytest.mark.parametrize(
    ("since_us", "until_us", "is_wanted"),
    [
        (DAY_US, None, True),
        (DAY_US + 1, None, False),
        (None, DAY_US + 1, True),
        (None, DAY_US, False),
    ],
)
def test_since_is_inclusive_and_until_is_not(
    since_us: int | None, until_us: int | None, *, is_wanted: bool
) -> None:
    found = admitted(attrs.evolve(SOURCE, since_us=since_us, until_us=until_us))

    assert isinstance(found, ParsedRow) is is_wanted
    assert is_wanted or found == FilteredRow()


def test_every_problem_of_a_row_is_named_at_once() -> None:
    found = reasons(admitted(user=7, ordered_at="yesterday"))

    assert set(found) == {"user", "at"}
    assert "yesterday" in found["at"]


def test_a_column_that_is_not_there_is_null_and_refused_where_null_may_not_be() -> None:
    row = {name: value for name, value in ROW.items() if name != "user"}

    found = reasons(parse_row(SOURCE, SCHEMA, row, now_us=0))

    assert found == {"user": "found null; the column is `str`, not Optional"}


def test_a_mistyped_input_of_a_computed_field_is_named() -> None:
    assert set(reasons(admitted(cents="many"))) == {"cents"}
