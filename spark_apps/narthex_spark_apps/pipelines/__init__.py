"""Pipelines without state: expressions as Spark plans, joins and user code as Python.

`spark_plan` compiles a pipeline to Spark columns. `join_stage` runs what Spark cannot render on
records, by the steps of `narthex._runtime.steps`. Start with `spark_plan`.
"""
