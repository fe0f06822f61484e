"""Starting and running jobs, live and bounded.

`start` starts any job of the registry. `driver` is the process of the Spark jobs and
`stage_runner` the process of the Python stages; `live_job` is one job in either. `backfill` runs
every job of a commit up to the end of its input, and `bounded_run` is its command.
"""
