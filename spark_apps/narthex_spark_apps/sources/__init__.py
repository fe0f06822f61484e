"""Source jobs: raw rows from outside become facts of a dataset log, or go to quarantine.

`validated_rows` checks raw rows and renders them as records; every source uses it. `source_job`
describes a source job, `source_stage` runs it on a topic, and `polling_source` runs one that must
ask for new rows. Each kind of connector has a package: `topics`, `files`, `tables`, `streams`.
"""
