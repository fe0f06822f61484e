"""Frames as authors' code is given them, and what becomes of its results."""

from datetime import UTC, date, datetime

import pandas as pd
import pyarrow as pa
import pytest

from narthex._runtime.workers.worker_columns import WrongResultError, frame, table

PLACE = pa.struct([("name", pa.string()), ("parts", pa.list_(pa.struct([("n", pa.int64())])))])


def outputs(**types: pa.DataType) -> list[list[object]]:
    return [
        [name, pa.schema([pa.field("", of)]).serialize().to_pybytes().hex()]
        for name, of in types.items()
    ]


def test_members_of_structs_are_attributes_at_any_depth() -> None:
    rows = pa.table(
        {
            "place": pa.array([{"name": "a", "parts": [{"n": 1}]}, None], PLACE),
            "places": pa.array([[{"name": "b", "parts": None}], []], pa.list_(PLACE)),
            "known": pa.array(
                [[("x", {"n": 2})], None], pa.map_(pa.string(), PLACE[1].type.value_type)
            ),
        }
    )

    made = frame(rows)

    assert made["place"][0].parts[0].n == 1
    assert made["place"][0].as_json() == {"name": "a", "parts": [{"n": 1}]}
    assert made["place"][1] is None
    assert made["places"][0][0].name == "b"
    assert made["known"][0]["x"].n == 2


def test_structs_come_back_as_they_were_given() -> None:
    rows = pa.table({"place": pa.array([{"name": "a", "parts": [{"n": 1}]}], PLACE)})

    back = table(frame(rows)["place"], outputs(place=PLACE), index=pd.RangeIndex(1))

    assert back.column("place").to_pylist() == rows.column("place").to_pylist()


def test_a_bool_is_a_number_where_one_is_declared_but_a_number_is_not_a_bool() -> None:
    truths = pd.Series([True, False, pd.NA], dtype="boolean")

    made = table(truths, outputs(n=pa.int64()), index=truths.index)

    assert made.column("n").to_pylist() == [1, 0, None]
    with pytest.raises(WrongResultError, match="is of type `int64`, not `bool`"):
        table(pd.Series([1, 0, 1]), outputs(b=pa.bool_()), index=truths.index)


def test_a_result_in_another_order_is_put_back_into_the_order_of_its_rows() -> None:
    numbers = pd.Series([3, 1, 2])
    by_row = numbers.sort_values()

    made = table(by_row, outputs(n=pa.int64()), index=numbers.index)
    both = table(pd.DataFrame({"n": by_row}), outputs(n=pa.int64()), index=numbers.index)

    assert made.column("n").to_pylist() == both.column("n").to_pylist() == [3, 1, 2]


@pytest.mark.parametrize("labels", [[7, 8, 9], [0, 0, 1], ["a", "b", "c"]])
def test_a_result_with_labels_that_are_not_of_its_rows_is_taken_as_it_comes(
    labels: list[object],
) -> None:
    numbers = pd.Series([3, 1, 2], index=labels)

    made = table(numbers, outputs(n=pa.int64()), index=pd.RangeIndex(3))

    assert made.column("n").to_pylist() == [3, 1, 2]


@pytest.mark.parametrize(
    ("of", "lists"),
    [
        (pa.float64(), [[1.5, float("inf")], None, [], [-0.0]]),
        (pa.float64(), [[1.5, None], None]),
        (pa.int64(), [[2**63 - 1], [], [1, 2]]),
        (pa.bool_(), [[True, False], None]),
        (pa.string(), [["é", ""], [], None]),
        (pa.binary(), [[b"x"], None]),
        (pa.date32(), [[date(2024, 2, 29)], []]),
        (pa.timestamp("us", tz="UTC"), [[datetime(2024, 2, 29, tzinfo=UTC)], None]),
    ],
)
def test_lists_are_pythons_lists_of_pythons_values_and_come_back(
    of: pa.DataType, lists: list[list[object] | None]
) -> None:
    rows = pa.table({"a": pa.array(lists, pa.list_(of))})
    sliced = pa.concat_tables([rows, rows]).slice(1, len(lists))

    made = frame(rows)["a"]
    again = frame(sliced)["a"]
    back = table(made, outputs(a=pa.list_(of)), index=made.index)

    assert made.tolist() == lists
    assert again.tolist() == [*lists[1:], lists[0]]
    kinds = [type(one) for value in made if value is not None for one in value]
    assert kinds == [type(one) for value in lists if value is not None for one in value]
    assert back.column("a").to_pylist() == lists


def test_whole_numbers_beside_nulls_in_lists_are_exact() -> None:
    large = 2**60 + 1
    numbers = pa.list_(pa.int64())
    given = pa.table(
        {
            "flat": pa.array([[1, None, large], [large], None], numbers),
            "deep": pa.array([[[None, large]], [], None], pa.list_(numbers)),
            "by_name": pa.array(
                [{"a": None, "b": large}, {}, None], pa.map_(pa.string(), pa.int64())
            ),
        }
    )

    made = frame(given)

    assert [None if one is None else list(one) for one in made["flat"]] == [
        [1, None, large],
        [large],
        None,
    ]
    assert list(made["deep"][0][0]) == [None, large]
    assert made["by_name"][0] == {"a": None, "b": large}
