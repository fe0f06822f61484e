"""The provider metadata of this package for Airflow.

Every process of Airflow reads it as it starts, so it imports no hook.
"""

from importlib.metadata import version
from typing import Final

CONNECTION_TYPES: Final[list[dict[str, object]]] = [
    {
        "connection-type": "narthex",
        "hook-class-name": "narthex_plugins.hooks.narthex_hook.NarthexHook",
        "hook-name": "Narthex",
        "ui-field-behaviour": {
            "hidden-fields": ["login", "extra"],
            "relabeling": {"host": "Server", "schema": "Scheme", "password": "Token"},
            "placeholders": {"host": "narthex.example.org", "port": "8400", "schema": "https"},
        },
    },
]
"""The types of connections, with their forms in Airflow."""


def provider_info() -> dict[str, object]:
    """Describe the package to Airflow's provider discovery."""
    return {
        "package-name": "narthex",
        "name": "Narthex",
        "description": "Commits, backfills, quality audits and rollouts of real-time features.",
        "versions": [version("narthex")],
        "integrations": [{"integration-name": "Narthex", "tags": ["service"]}],
        "hooks": [
            {
                "integration-name": "Narthex",
                "python-modules": ["narthex_plugins.hooks.narthex_hook"],
            }
        ],
        "connection-types": CONNECTION_TYPES,
    }
