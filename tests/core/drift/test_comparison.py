"""Drift is found where a distribution has changed, and not where only the rows are others."""

import io
import zipfile
from collections.abc import Sequence

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import scipy  # it loads a submodule when it is used
from numpy.random import default_rng

from examples.flights.data import source_directory
from narthex._base.records import Json
from narthex._drift import (
    THRESHOLDS,
    DriftReference,
    FeatureDrift,
    FeatureKind,
    FeatureSummary,
    drift_of,
    merged_summary,
    summary_of,
)
from narthex._ir import Severity
from narthex._ir.types import Float, Optional, Str
from narthex._training.statistics import statistics_of


def training(values: Sequence[Json]) -> DriftReference:
    """Return the statistics that a training set would store of numbers or texts."""
    of = Str() if any(isinstance(value, str) for value in values) else Float()
    return DriftReference(statistics=statistics_of(pa.chunked_array([[*values]]), Optional(of)))


def numbers(values: Sequence[Json]) -> FeatureSummary:
    return summary_of(values, FeatureKind.NUMBER)


def texts(values: Sequence[Json]) -> FeatureSummary:
    return summary_of(values, FeatureKind.CATEGORY)


def metric(drift: FeatureDrift, name: str) -> float:
    (found,) = [one.value for one in drift.metrics if one.name == name]
    return found


@pytest.mark.parametrize(("moved", "severity"), [(0.0, None), (0.4, "warning"), (0.7, "critical")])
def test_a_moved_distribution_is_found(moved: float, severity: str | None) -> None:
    rng = default_rng(1)
    reference, live = rng.normal(0, 1, 20_000), rng.normal(moved, 1, 5000)

    drift = drift_of(training(reference.tolist()), numbers(live.tolist()), features=50)

    found = drift.severity
    assert (None if found is None else found.value) == severity
    assert {one.name for one in drift.metrics} == set(THRESHOLDS)
    assert metric(drift, "psi") == pytest.approx(moved**2, abs=0.05)
    assert metric(drift, "mean_shift") == pytest.approx(moved, abs=0.05)
    exact = scipy.stats.ks_2samp(reference, live).statistic
    assert metric(drift, "kolmogorov_smirnov") == pytest.approx(exact, abs=0.011)


@pytest.mark.parametrize("rows", [100, 300, 2000])
def test_few_rows_of_the_same_distribution_do_not_alert(rows: int) -> None:
    rng = default_rng(rows)
    forms = {
        "normal": lambda size: rng.normal(290, 5, size),
        "heavy": lambda size: rng.lognormal(0, 2, size),
        "counts": lambda size: np.array(rng.poisson(2, size), float),
        "flag": lambda size: np.array(rng.random(size) < 0.03, float),
        "mostly zero": lambda size: np.where(rng.random(size) < 0.6, 0.0, rng.exponential(3, size)),
    }
    alerts = [
        (name, drift.metrics)
        for name, form in forms.items()
        for _ in range(40)
        if (
            drift := drift_of(
                training(np.asarray(form(1000)).tolist()),
                numbers(np.asarray(form(rows)).tolist()),
                features=5,
            )
        ).severity
    ]

    assert alerts == []


def test_too_few_rows_are_not_compared() -> None:
    drift = drift_of(training([1.0] * 1000), numbers([9.0] * 99))

    assert (drift.is_compared, drift.severity, drift.rows) == (False, None, 99)


def test_nulls_and_undefined_numbers_count_as_missing() -> None:
    values = default_rng(2).normal(size=2000).tolist()

    drift = drift_of(training(values), numbers([None] * 60 + ["NaN"] * 60 + values[:1000]))

    (missing,) = [one for one in drift.metrics if one.name == "null_shift"]
    assert missing.severity is Severity.CRITICAL
    assert all(one.severity is None for one in drift.metrics if one is not missing)


def test_a_feature_that_is_null_everywhere_is_compared_by_its_nulls() -> None:
    drift = drift_of(training([1.0, 2.0] * 500), numbers([None] * 500))

    assert [one.name for one in drift.metrics] == ["null_shift"]
    assert drift.severity is Severity.CRITICAL


def test_a_constant_that_changes_is_found_above_and_below() -> None:
    for value in (4.0, 6.0):
        drift = drift_of(training([5.0] * 1000), numbers([value] * 1000))

        assert drift.severity is Severity.CRITICAL
        assert metric(drift, "kolmogorov_smirnov") == 1.0
        assert "mean_shift" not in {one.name for one in drift.metrics}
    same = drift_of(training([5.0] * 1000), numbers([5.0] * 1000))
    assert same.severity is None


def test_a_frequent_value_that_disappears_is_found() -> None:
    rng = default_rng(3)
    reference = np.where(rng.random(5000) < 0.3, 0, rng.exponential(3, 5000))

    drift = drift_of(training(reference.tolist()), numbers(rng.exponential(3, 2000).tolist()))

    assert drift.severity is Severity.CRITICAL
    assert metric(drift, "kolmogorov_smirnov") == pytest.approx(0.3, abs=0.05)


def test_categories_are_compared_by_the_frequent_values_and_the_rest() -> None:
    rng = default_rng(5)
    known = [f"c{one}" for one in rng.zipf(1.6, 20_000) % 300]
    same = [f"c{one}" for one in rng.zipf(1.6, 2000) % 300]
    other = [*same[:1000], *(f"new{one}" for one in range(1000))]

    control, drift = (drift_of(training(known), texts(live)) for live in (same, other))

    assert [one.name for one in drift.metrics] == ["null_shift", "psi", "jensen_shannon"]
    assert control.severity is None
    assert drift.severity is Severity.CRITICAL


def test_a_pinned_window_is_as_good_a_reference_as_a_training_set() -> None:
    rng = default_rng(6)
    window = merged_summary(numbers(rng.normal(290, 5, 900).tolist()) for _ in range(24))
    pinned = DriftReference(
        statistics=window.statistics(), dropped_bits=window.numbers.dropped_bits
    )
    assert pinned.dropped_bits > 0

    same = drift_of(pinned, numbers(rng.normal(290, 5, 900).tolist()))
    moved = drift_of(pinned, numbers(rng.normal(294, 5, 900).tolist()))

    assert same.severity is None
    assert moved.severity is Severity.CRITICAL
    assert metric(moved, "mean_shift") == pytest.approx(0.8, abs=0.1)


@pytest.fixture(scope="module")
def flights() -> pl.DataFrame:
    """The flights of January and July 2013, with the weather at their departures."""
    directory = source_directory()
    with zipfile.ZipFile(directory / "flights.csv.zip") as archive:
        raw = pl.read_csv(io.BytesIO(archive.read("flights.csv")), null_values=["NA"])
    weather = pl.read_csv(directory / "weather.csv", null_values=["NA"], infer_schema_length=None)
    observed = weather.select("origin", "time_hour", "temp", "visib").unique(
        ["origin", "time_hour"]
    )
    return raw.filter(pl.col("month").is_in([1, 7])).join(
        observed, on=["origin", "time_hour"], how="left", maintain_order="left"
    )


MEASURES = ("temp", "visib", "dep_delay", "air_time", "distance", "carrier", "origin")


def of_flights(rows: pl.DataFrame, name: str) -> list[Json]:
    column = rows[name]
    return (column if column.dtype == pl.String else column.cast(pl.Float64)).to_list()


def compared(reference: pl.DataFrame, live: pl.DataFrame) -> dict[str, FeatureDrift]:
    return {
        name: drift_of(
            training(of_flights(reference, name)),
            (texts if name in {"carrier", "origin"} else numbers)(of_flights(live, name)),
            features=len(MEASURES),
        )
        for name in MEASURES
    }


def test_july_differs_from_january_in_the_weather_and_not_in_the_timetable(
    flights: pl.DataFrame,
) -> None:
    january, july = (flights.filter(pl.col("month") == month) for month in (1, 7))

    found = compared(january, july)

    assert found["temp"].severity is Severity.CRITICAL
    for name in ("distance", "carrier", "origin"):
        assert found[name].severity is None, found[name]
    for name in ("temp", "dep_delay", "air_time", "distance"):
        left, right = (
            rows[name].drop_nulls().cast(pl.Float64).to_numpy() for rows in (january, july)
        )
        exact = scipy.stats.ks_2samp(left, right).statistic
        assert metric(found[name], "kolmogorov_smirnov") == pytest.approx(exact, abs=0.011), name
        shift = (right.mean() - left.mean()) / left.std(ddof=1)
        assert metric(found[name], "mean_shift") == pytest.approx(shift, rel=1e-9), name
    for name in ("carrier", "origin"):
        names = sorted(set(january[name]))
        shares = [
            np.array([(rows[name] == one).sum() for one in names], dtype=float)
            for rows in (january, july)
        ]
        exact = scipy.spatial.distance.jensenshannon(*shares, base=2)
        assert metric(found[name], "jensen_shannon") == pytest.approx(exact, abs=0.01), name


def test_one_half_of_january_does_not_differ_from_the_other(flights: pl.DataFrame) -> None:
    january = flights.filter(pl.col("month") == 1).sample(fraction=1.0, shuffle=True, seed=3)
    half = january.height // 2

    found = compared(january[:half], january[half : half + 2000])

    assert {name: drift.severity for name, drift in found.items()} == dict.fromkeys(MEASURES)


def test_an_injected_shift_is_found_in_its_feature_only(flights: pl.DataFrame) -> None:
    january = flights.filter(pl.col("month") == 1).sample(fraction=1.0, shuffle=True, seed=4)
    half = january.height // 2
    live = january[half : half + 1000].with_columns(pl.col("distance") * 1.5)

    found = compared(january[:half], live)

    assert found.pop("distance").severity is Severity.CRITICAL
    assert {drift.severity for drift in found.values()} == {None}
