"""Airflow's side of the platform: DAGs, tasks, triggers and the console tab.

* `plugin`, `provider`: the entry points that Airflow loads; `console`: pages behind its login.
* `dags`: the DAGs, which Airflow loads by path, or through `dag_bundle`.
* `hooks`: the types of connections; `spark/run_job.py`: the program of backfills for Spark.
* `projects`: the files of projects that Airflow's form commits.
* `operators`, `triggers`: the tasks of the commit DAG; `approvals`: a task that asks a person.
* `batches`: names that one task hands to one process.
* `upkeep`: the tasks of the other DAGs; `platform_client`: the client of the server's API.

Start with `operators`, then `platform_client`.
"""
