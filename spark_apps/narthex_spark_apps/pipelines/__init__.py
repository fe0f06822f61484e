"""Pipelines without state: expressions as Spark plans, joins and user code as Python.

`spark_plan` compiles a pipeline to Spark columns. `python_plan` runs the same steps on single
rows, for what Spark cannot render; `join_stage` runs it on a live topic. Start with `spark_plan`.
"""
