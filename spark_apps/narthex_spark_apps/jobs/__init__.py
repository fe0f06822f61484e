"""Starting and running jobs, live and bounded.

`start` starts any job of the registry. `driver` is the process of a Spark application, which
`driver_start` starts, and carries out its streaming queries (`live_job` is one); `application`
divides the jobs between queries and standing tasks, and `task_instance` starts such a task.
`stage_runner` is the standing task of the Python stages. `backfill` runs every job of a commit up
to the end of its input, and `bounded_run` is its command. `requests` begins offline queries and
small backfills in a driver, and `carried_requests` carries them out.
"""
