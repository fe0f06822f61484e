"""The engine: jobs on Spark and in Python, and the processes that run them.

A job reads topics, files or tables and appends facts to a dataset log, or writes a log elsewhere.

* `cli`: commands; `supervision`: the supervisor and its protocol with runners, and in
  `supervision.runner` the loop of every runner, which runs the assigned jobs.
* `jobs`: starting jobs, live and bounded; the driver and the stage runner.
* `writers`: the index writer and the history writer; `offline`: offline queries.
* `sources`, `sinks`: jobs at the edges; `row_inspection`: quarantined and late rows.
* `stateful`: steps with state, and tombstones for rows that no longer exist; `pipelines`: steps
  without state; `expressions`: those of both.
* `facts`, `storage`, `platform`: facts as columns; files; the Spark session, Kafka and secrets.

Start with `jobs.start`, then `supervision.supervisor`.
"""

from narthex_spark_apps.platform.jvm import archive_of

__all__ = ["archive_of"]
