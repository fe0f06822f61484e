"""The evaluator that works on columns, with Arrow and Polars, for queries and for tests.

It is an engine like any other: its results equal those of `narthex._expr.python`.
"""
