"""The Airflow plugin, which adds the console to the navigation, the runs and their tasks."""

from airflow.plugins_manager import AirflowPlugin

from narthex_plugins.console import PREFIX, ConsoleLink, DataDocsLink, app


class NarthexPlugin(AirflowPlugin):
    """Adds the console to Airflow's navigation, and commits to the pages of runs and tasks."""

    name = "narthex"
    fastapi_apps = ({"app": app, "url_prefix": PREFIX, "name": "narthex"},)
    external_views = (
        {
            "name": "Narthex",
            "href": f"{PREFIX}/console",
            "destination": "nav",
            "url_route": "narthex",
            "nav_top_level": True,
        },
        {
            "name": "Ledger",
            "href": f"{PREFIX}/runs/{{DAG_ID}}/{{RUN_ID}}",
            "destination": "dag_run",
            "url_route": "narthex-ledger",
        },
    )
    operator_extra_links = (ConsoleLink(), DataDocsLink())
