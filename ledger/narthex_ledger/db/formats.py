"""The schemas and formats that this release knows, and its refusal of others."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from narthex_ledger.errors import InstallationIsNewer, UpgradeNeeded

SCHEMAS: Final[Mapping[str, str]] = MappingProxyType(
    {
        number: title.replace("_", " ")
        for number, _, title in sorted(
            path.stem.partition("_")
            for path in (Path(__file__).with_name("migrations") / "versions").glob("[0-9]*_*.py")
        )
    }
)
"""The title of each migration of the ledger by its number, in their order."""

NEWEST_SCHEMA: Final = max(SCHEMAS)

_WAY_OUT: Final = (
    "install the release that the installation had last, or a later one; or restore the backup "
    "that was made before its upgrade"
)


def require_known(schema: str) -> None:
    """Require that this release has the migration that made a schema; empty if none did.

    Raises:
        InstallationIsNewer: It has not.
    """
    if schema and schema not in SCHEMAS:
        raise InstallationIsNewer(
            f"the ledger has schema {schema}, and this release knows none after {NEWEST_SCHEMA}",
            hint=_WAY_OUT,
        )


def require_newest(schema: str) -> None:
    """Require the newest schema that this release knows.

    Raises:
        InstallationIsNewer: The schema is of a later release.
        UpgradeNeeded: It is of an earlier one, or the database has no ledger.
    """
    require_known(schema)
    if schema != NEWEST_SCHEMA:
        raise UpgradeNeeded(
            f"the ledger has {f'schema {schema}' if schema else 'no schema'}, and this release "
            f"needs {NEWEST_SCHEMA}",
            hint="start the server of this release, or run `narthex upgrade`",
        )


def newer_formats(found: Mapping[str, int], known: Mapping[str, int]) -> list[str]:
    """Describe each recorded version of a kind of store that is higher than the known one."""
    return [
        f"{kind} of format {version} (known: {known.get(kind, 0) or 'none'})"
        for kind, version in sorted(found.items())
        if version > known.get(kind, 0)
    ]


def require_readable(found: Mapping[str, int], known: Mapping[str, int]) -> None:
    """Require that this release knows the recorded version of each kind of store.

    Raises:
        InstallationIsNewer: A version is higher, or a kind is unknown; the message has all.
    """
    if newer := newer_formats(found, known):
        raise InstallationIsNewer(f"the installation has {', '.join(newer)}", hint=_WAY_OUT)
