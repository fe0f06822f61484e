"""Statistics of features are those of pandas, and are enough to measure a drift of values."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from narthex._formats.arrow import array_of
from narthex._ir.facts import Cell
from narthex._ir.types import (
    Between,
    Bool,
    Bytes,
    DataType,
    Date,
    Datetime,
    Decimal,
    Float,
    Int,
    List,
    Optional,
    Str,
)
from narthex._training import FeatureStatistics, content_sha256, statistics_of

FLOATS = st.floats(-1e150, 1e150) | st.sampled_from([math.inf, -math.inf, 0.0])
INTS = st.integers(-(2**53), 2**53) | st.integers(0, 3)


def told(cells: Sequence[Cell], of: DataType, default: Cell = None) -> FeatureStatistics:
    half = len(cells) // 2
    parts = [array_of(cells[:half], of), array_of(cells[half:], of)]
    return statistics_of(pa.chunked_array(parts), of, default)


def require_percentiles(found: FeatureStatistics, values: Sequence[float]) -> None:
    ordered = sorted(values)
    assert len(found.percentiles) == (101 if ordered else 0)
    for place, value in enumerate(found.percentiles):
        assert value in ordered
        at_most = sum(one <= value for one in ordered)
        below = sum(one < value for one in ordered)
        assert at_most / len(ordered) >= place / 100 - 1e-12
        assert below / len(ordered) <= place / 100 + 1e-12


@given(st.lists(st.none() | FLOATS), st.none() | FLOATS)
def test_statistics_of_floats_are_those_of_pandas(
    cells: list[float | None], default: float | None
) -> None:
    found = told(cells, Optional(Float()), default)

    present = pd.Series([one for one in cells if one is not None], dtype="float64")
    finite = present[np.isfinite(present)]
    assert (found.rows, found.nulls) == (len(cells), len(cells) - len(present))
    assert found.not_finite == len(present) - len(finite)
    assert found.defaults == (None if default is None else int((present == default).sum()))
    if finite.empty:
        assert (found.mean, found.least, found.percentiles) == (None, None, ())
        return
    assert found.mean == pytest.approx(finite.mean(), rel=1e-9, abs=1e-9 * finite.abs().max())
    assert (found.least, found.greatest) == (finite.min(), finite.max())
    if len(finite) == 1:
        assert found.stddev is None
    else:
        assert found.stddev == pytest.approx(finite.std(), rel=1e-6, abs=1e-9 * finite.abs().max())
    require_percentiles(found, finite.tolist())


@given(st.lists(st.none() | INTS), INTS)
def test_statistics_of_ints_are_those_of_pandas(cells: list[int | None], default: int) -> None:
    found = told(cells, Optional(Int()), default)

    present = pd.Series([one for one in cells if one is not None], dtype="Int64")
    assert found.defaults == int((present == default).sum())
    assert found.distinct == present.nunique()
    assert dict(found.top).items() <= Counter(present.tolist()).items()
    assert [count for _, count in found.top] == present.value_counts().tolist()[:50]
    if not present.empty:
        assert (found.least, found.greatest) == (present.min(), present.max())
        assert found.mean == pytest.approx(present.astype("float64").mean())
        require_percentiles(found, [float(one) for one in present])


@given(st.lists(st.none() | st.sampled_from(["no", "se", "fi"]) | st.text(max_size=3)))
def test_texts_are_counted(cells: list[str | None]) -> None:
    found = told(cells, Optional(Str()), "no")

    counts = pd.Series([one for one in cells if one is not None], dtype=object).value_counts()
    assert found.defaults == int(counts.get("no", 0))
    assert (found.distinct, found.mean, found.percentiles) == (len(counts), None, ())
    listed = counts[["\0" not in value for value in counts.index]]
    assert [count for _, count in found.top] == listed.tolist()[:50]
    assert all(counts[value] == count for value, count in found.top)


@pytest.mark.parametrize(
    ("of", "cells", "expected"),
    [
        (Bool(), [True, True, False], {"distinct": 2, "top": ((True, 2), (False, 1))}),
        (Decimal(2), [150, 250], {"mean": 2.0, "least": "1.50", "greatest": "2.50", "distinct": 2}),
        (
            Date(),
            [0, 31, 31],
            {"least": "1970-01-01", "top": (("1970-02-01", 2), ("1970-01-01", 1))},
        ),
        (Datetime(), [1_500_000], {"least": "1970-01-01T00:00:01.500000Z", "distinct": None}),
        (Between(of=Int(), min=0, max=9), [3, 4], {"mean": 3.5, "least": 3}),
        (List(Int()), [(1,), ()], {"rows": 2, "least": None, "top": ()}),
        (Bytes(), [b"a"], {"rows": 1, "distinct": None}),
        (Float(), [], {"rows": 0, "mean": None, "percentiles": ()}),
        (Optional(Float()), [None, None], {"nulls": 2, "mean": None, "least": None}),
        (Int(), [2**62 + 1, 2**62 + 3], {"least": 2**62 + 1, "greatest": 2**62 + 3}),
    ],
)
def test_every_type_has_the_statistics_that_it_can_have(
    of: DataType, cells: list[Any], expected: dict[str, Any]
) -> None:
    found = told(cells, of)

    assert {name: getattr(found, name) for name in expected} == expected


def test_only_values_that_are_counted_and_equal_the_default_are_defaults() -> None:
    assert told([0, 5, 0, None], Optional(Int()), 0).defaults == 2
    assert told([0, 150], Decimal(2), 0).defaults == 1
    assert told([0, 5], Int()).defaults is None
    assert told([(), (1,)], List(Int()), ()).defaults is None


def stability_index(before: FeatureStatistics, after: FeatureStatistics) -> float:
    """Compute a population stability index over deciles, from the statistics alone."""
    edges = np.unique(before.percentiles[10:100:10])

    def shares(of: FeatureStatistics) -> Any:
        counts = np.histogram(of.percentiles, [-np.inf, *edges, np.inf])[0]
        return np.clip(counts / counts.sum(), 1e-4, None)

    was, now = shares(before), shares(after)
    return float(((now - was) * np.log(now / was)).sum())


def test_a_stability_index_is_computed_from_statistics_alone() -> None:
    random = np.random.default_rng(7)
    first, second = (random.normal(0.0, 1.0, 5000).tolist() for _ in range(2))
    moved = random.normal(1.0, 1.0, 5000).tolist()

    before = told(first, Float())

    assert stability_index(before, told(second, Float())) < 0.1
    assert stability_index(before, told(moved, Float())) > 0.25


def test_the_same_request_has_the_same_hash_in_any_order_of_columns() -> None:
    def content(**other: Any) -> bytes:
        request: dict[str, Any] = {
            "columns": {"F.a": [1, 2], "at": ["x", "y"]},
            "inputs": ["F.a"],
            "features": ["F.b", "F.c"],
            "timestamp_column": "at",
            "at": None,
        }
        request |= other
        return content_sha256(request.pop("columns"), **request)

    assert content() == content(columns={"at": ["x", "y"], "F.a": [1, 2]})
    others = [
        content(columns={"at": ["x", "y"], "F.a": [2, 1]}),
        content(columns={"at": ["x", "y"], "F.a": ["1", 2]}),
        content(features=["F.c", "F.b"]),
        content(inputs=[]),
        content(timestamp_column="F.a"),
        content(at={"D": {"log": {"0": 1}}}),
    ]
    assert len({content(), *others}) == 7
