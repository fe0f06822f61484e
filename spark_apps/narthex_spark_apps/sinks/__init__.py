"""Sink jobs: the changes of a dataset log are written to a target.

`changes` derives changes from facts, `sink_stage` runs a sink, and `sink_job` opens it with its
target. Each target has a module: `kafka`, `http`, `postgres`, `snowflake`, `delta`. `envelopes`
and `table_rows` are the two forms in which targets receive changes.
"""
