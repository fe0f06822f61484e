"""Source jobs: raw rows from outside become facts of a dataset log, or go to quarantine.

`row_rendering` checks raw rows and renders them as facts, or as records of the quarantine, and
`row_appender` appends both; every source uses them. `source_job` describes a source job,
`source_stage` runs it on a topic, and `polling_source` runs one that must ask for new rows. Each
kind of connector has a package: `topics`, `files`, `tables`, `streams`.
"""
