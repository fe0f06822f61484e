"""Pipelines without state: expressions as Spark plans, joins and user code as Python.

`spark_plan` compiles a pipeline to Spark columns. `python_pipeline` runs what Spark cannot render,
by the steps of `narthex._runtime.steps`: in Spark's Python workers for bounded runs, and for live
runs in `join_stage`, which also processes corrections. Start with `spark_plan`.
"""
