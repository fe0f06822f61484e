"""The provider metadata of this package for Airflow."""

from importlib.metadata import version


def provider_info() -> dict[str, object]:
    """Describe the package to Airflow's provider discovery."""
    return {
        "package-name": "narthex",
        "name": "Narthex",
        "description": "Commits, backfills, quality audits and rollouts of real-time features.",
        "versions": [version("narthex")],
    }
