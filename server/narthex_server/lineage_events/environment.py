"""Whether the operator wants lineage: environment variables, and `openlineage.yml`.

Lineage is off unless the operator configured it: by `OPENLINEAGE_URL`, by `OPENLINEAGE_CONFIG`, by
variables `OPENLINEAGE__TRANSPORT__…`, or by a file `openlineage.yml` in the installation's home.
The client of OpenLineage takes 0.4 s to import, so only a server that sends lineage imports it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

FILE: Final = "openlineage.yml"
DEFAULT_NAMESPACE: Final = "narthex"
_TRANSPORT: Final = "OPENLINEAGE__TRANSPORT__"


def configuration_file(home: Path) -> Path:
    """Return the place of the configuration in an installation's home."""
    return home / FILE


def is_configured(home: Path, environment: Mapping[str, str]) -> bool:
    """Whether the operator wants lineage to be sent."""
    if environment.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true":
        return False
    named = environment.get("OPENLINEAGE_URL") or environment.get("OPENLINEAGE_CONFIG")
    return (
        bool(named)
        or any(name.startswith(_TRANSPORT) for name in environment)
        or configuration_file(home).is_file()
    )


def namespace_of(environment: Mapping[str, str]) -> str:
    """Return the namespace of the installation's jobs."""
    return environment.get("OPENLINEAGE_NAMESPACE") or DEFAULT_NAMESPACE
