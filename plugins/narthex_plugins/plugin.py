"""The Airflow plugin: the console in the navigation, and a commit's ledger beside its run."""

from airflow.plugins_manager import AirflowPlugin

from narthex_plugins.console import PREFIX, app


class NarthexPlugin(AirflowPlugin):
    """Adds the console to Airflow's navigation and to the pages of commit runs."""

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
            "href": f"{PREFIX}/console?commit={{RUN_ID}}",
            "destination": "dag_run",
            "url_route": "narthex-ledger",
        },
    )
