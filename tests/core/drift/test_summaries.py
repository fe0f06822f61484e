"""Summaries of features: they merge, survive storage, and have the statistics of training sets."""

import itertools
import json
import zlib
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from numpy.random import default_rng

from narthex._drift import (
    FeatureKind,
    FeatureSummary,
    InvalidSummaryError,
    kind_of,
    merged_summary,
    summary_of,
)
from narthex._drift.category_counts import MOST_LISTED
from narthex._ir.types import Bool, Date, Datetime, Decimal, Float, Int, List, Optional, Str
from narthex._training.statistics import statistics_of


def test_each_type_is_counted_in_one_way() -> None:
    kinds = {
        FeatureKind.NUMBER: (Int(), Float(), Decimal(2), Optional(Float())),
        FeatureKind.CATEGORY: (Str(), Bool(), Date(), Optional(Str())),
        FeatureKind.OPAQUE: (Datetime(), List(Int())),
    }

    assert {kind: {kind_of(of) for of in types} for kind, types in kinds.items()} == {
        kind: {kind} for kind in kinds
    }


@pytest.mark.parametrize("kind", FeatureKind)
def test_hours_merge_to_the_summary_of_the_day(kind: FeatureKind) -> None:
    rng = default_rng(2)
    number = kind is FeatureKind.NUMBER
    values = rng.normal(0, 3, 6000).round(3).tolist() if number else rng.integers(0, 900, 6000)
    rows = [None if rng.random() < 0.1 else v if number else f"v{v}" for v in values]
    rows += ["NaN", "-Infinity"] if number else ["x" * 500]

    parts = [summary_of(rows[at : at + 500], kind) for at in range(0, len(rows), 500)]
    rng.shuffle(parts)
    stored = [FeatureSummary.decoded(part.encoded()) for part in parts]

    assert stored == parts
    assert merged_summary(stored) == summary_of(rows, kind)


def test_the_statistics_of_a_summary_are_those_of_a_training_set() -> None:
    rng = default_rng(4)
    numbers = [None if one % 9 == 0 else int(one) for one in rng.poisson(40, 3000)]
    texts = [f"city {one}" for one in rng.zipf(1.5, 3000) % 40]

    counted = summary_of(numbers, FeatureKind.NUMBER).statistics()
    named = summary_of(texts, FeatureKind.CATEGORY).statistics()

    exact = statistics_of(pa.chunked_array([numbers]), Optional(Int()))
    assert counted.percentiles == exact.percentiles
    assert (counted.rows, counted.nulls, counted.distinct) == (3000, exact.nulls, exact.distinct)
    assert counted.mean == pytest.approx(exact.mean, rel=1e-14)
    assert counted.stddev == pytest.approx(exact.stddev, rel=1e-12)
    assert dict(counted.top) == dict(exact.top)
    of_texts = statistics_of(pa.chunked_array([texts]), Str())
    assert sorted(named.top) == sorted(of_texts.top)
    assert named.distinct == of_texts.distinct


def test_values_that_a_part_does_not_list_are_few() -> None:
    rng = default_rng(6)
    values = [f"v{one}" for one in rng.zipf(1.3, 40_000) % 20_000]
    parts = [
        summary_of(values[at : at + 10_000], FeatureKind.CATEGORY)
        for at in range(0, len(values), 10_000)
    ]

    found = merged_summary(parts).categories

    exact = Counter(values)
    assert found.rows == len(values)
    for value, count in found.listed[:50]:
        assert 0 <= exact[json.loads(value)] - count <= len(values) / (MOST_LISTED + 1)
    assert found.estimated_distinct == pytest.approx(len(exact), rel=0.03)


def test_decimals_count_as_numbers() -> None:
    counted = summary_of(["1.50", "-2.25", None], FeatureKind.NUMBER)

    assert counted.numbers.values == (-2.25, 1.5)
    assert (counted.rows, counted.nulls, counted.values) == (3, 1, 2)


def test_a_text_among_numbers_and_summaries_of_two_kinds_are_refused() -> None:
    with pytest.raises(InvalidSummaryError, match="not a number"):
        summary_of(["tea"], FeatureKind.NUMBER)
    with pytest.raises(InvalidSummaryError, match="2 kinds"):
        merged_summary([summary_of([1], kind) for kind in (FeatureKind.NUMBER, FeatureKind.OPAQUE)])


@pytest.mark.parametrize(
    "stored",
    [
        b"",
        b"tea",
        zlib.compress(b"{}"),
        zlib.compress(b'{"kind": "tea", "rows": 1, "nulls": 0, "not_finite": 0}'),
        zlib.compress(b'{"kind": "opaque", "rows": -1, "nulls": 0, "not_finite": 0}'),
        zlib.compress(b'{"kind": "opaque"' + b" " * (1 << 22) + b"}"),
    ],
)
def test_a_malformed_summary_is_refused(stored: bytes) -> None:
    with pytest.raises(InvalidSummaryError):
        FeatureSummary.decoded(stored)


def test_a_histogram_has_few_bins_that_count_every_number() -> None:
    values = default_rng(8).normal(290, 5, 20_000)

    bins = summary_of(values.tolist(), FeatureKind.NUMBER).histogram()

    assert 10 <= len(bins) <= 64
    assert sum(count for _, count in bins) == len(values)
    for (least, count), (greater, _) in itertools.pairwise(bins):
        assert count == np.count_nonzero((values >= least) & (values < greater))
    assert summary_of(["tea"], FeatureKind.CATEGORY).histogram() == []


def test_a_summary_is_small() -> None:
    values = default_rng(8).normal(290, 5, 20_000)

    assert len(summary_of(values.tolist(), FeatureKind.NUMBER).encoded()) < 48_000
    assert len(summary_of(np.round(values).tolist(), FeatureKind.NUMBER).encoded()) < 1000
