"""Datasets: typed logs of rows, and the pipelines that fill them."""

from narthex.declare.aggregates import (
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
from narthex.declare.datasets import Dataset, dataset, index
from narthex.declare.fields import Field, field
from narthex.declare.pipelines import pipeline
from narthex.declare.steps import Groups, Rows

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
