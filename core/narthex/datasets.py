"""Datasets: typed logs of rows, and the pipelines that fill them."""

from narthex._sdk.datasets.aggregates import (
    Average,
    Count,
    Distinct,
    ExpDecaySum,
    FirstK,
    LastK,
    Max,
    Min,
    Quantile,
    Stddev,
    Sum,
)
from narthex._sdk.datasets.datasets import Dataset, dataset, index
from narthex._sdk.datasets.pipelines import pipeline
from narthex._sdk.datasets.steps import Groups, Rows
from narthex._sdk.declare.fields import Field, field

__all__ = [
    "Average",
    "Count",
    "Dataset",
    "Distinct",
    "ExpDecaySum",
    "Field",
    "FirstK",
    "Groups",
    "LastK",
    "Max",
    "Min",
    "Quantile",
    "Rows",
    "Stddev",
    "Sum",
    "dataset",
    "field",
    "index",
    "pipeline",
]
