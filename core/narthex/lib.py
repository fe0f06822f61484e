"""Decorators inside classes: inputs and outputs, owners, expectations."""

from narthex import secrets
from narthex._sdk.datasets.pipelines import inputs
from narthex._sdk.declare.alerts import Freshness, QuarantineRate
from narthex._sdk.declare.expectation_functions import (
    expect_column_pair_values_A_to_be_greater_than_B,
    expect_column_pair_values_to_be_equal,
    expect_column_pair_values_to_be_in_set,
    expect_column_value_lengths_to_be_between,
    expect_column_value_lengths_to_equal,
    expect_column_values_to_be_between,
    expect_column_values_to_be_dateutil_parseable,
    expect_column_values_to_be_in_set,
    expect_column_values_to_be_in_type_list,
    expect_column_values_to_be_json_parseable,
    expect_column_values_to_be_null,
    expect_column_values_to_be_of_type,
    expect_column_values_to_match_json_schema,
    expect_column_values_to_match_regex,
    expect_column_values_to_match_regex_list,
    expect_column_values_to_match_strftime_format,
    expect_column_values_to_not_be_in_set,
    expect_column_values_to_not_be_null,
    expect_column_values_to_not_match_regex,
    expect_column_values_to_not_match_regex_list,
    expect_multicolumn_sum_to_equal,
)
from narthex._sdk.declare.expectations import expectations
from narthex._sdk.declare.metadata import meta
from narthex._sdk.features.extractors import outputs
from narthex.bucketing import bucketize
from narthex.data_files import DataFile, data_file

__all__ = [
    "DataFile",
    "Freshness",
    "QuarantineRate",
    "bucketize",
    "data_file",
    "expect_column_pair_values_A_to_be_greater_than_B",
    "expect_column_pair_values_to_be_equal",
    "expect_column_pair_values_to_be_in_set",
    "expect_column_value_lengths_to_be_between",
    "expect_column_value_lengths_to_equal",
    "expect_column_values_to_be_between",
    "expect_column_values_to_be_dateutil_parseable",
    "expect_column_values_to_be_in_set",
    "expect_column_values_to_be_in_type_list",
    "expect_column_values_to_be_json_parseable",
    "expect_column_values_to_be_null",
    "expect_column_values_to_be_of_type",
    "expect_column_values_to_match_json_schema",
    "expect_column_values_to_match_regex",
    "expect_column_values_to_match_regex_list",
    "expect_column_values_to_match_strftime_format",
    "expect_column_values_to_not_be_in_set",
    "expect_column_values_to_not_be_null",
    "expect_column_values_to_not_match_regex",
    "expect_column_values_to_not_match_regex_list",
    "expect_multicolumn_sum_to_equal",
    "expectations",
    "inputs",
    "meta",
    "outputs",
    "secrets",
]
