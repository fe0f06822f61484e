"""The evaluator that works on columns: Arrow and Polars, for questions and for tests.

It is an engine like any other: what it gives is what `narthex._expr.python` gives.
"""
