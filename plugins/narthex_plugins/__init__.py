"""Airflow's side of the platform: tasks, triggers and the console tab.

* `plugin`, `provider`: the entry points that Airflow loads; `console`: pages behind its login.
* `operators`, `triggers`: the tasks of the commit DAG; `approvals`: a task that asks a person.
* `upkeep`: the tasks of the other DAGs; `platform_client`: the client of the server's API.

Start with `operators`, then `platform_client`.
"""
