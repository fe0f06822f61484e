"""The formats of an installation, recorded in its home before any of its services runs.

The ledger's database has the record that all processes check. That of the home, `formats.json`,
lets `narthex up` refuse an installation of a later release before it starts anything. It is
written when a server is about to start, which upgrades the ledger.
"""

import importlib.metadata
from collections.abc import Mapping

import attrs

from narthex_stack.errors import NewerInstallationError
from narthex_stack.install.layout import HomeLayout
from narthex_stack.machine.files import Json, load_object, store_json


@attrs.frozen(kw_only=True)
class Formats:
    """The formats that a release writes, or wrote.

    Attributes:
        release: The version of Narthex.
        ledger: The number of the schema of the ledger's database; empty if it is unknown.
        stores: The version of each kind of store, by kind.
    """

    release: str
    ledger: str
    stores: Mapping[str, int]

    def plain(self) -> dict[str, Json]:
        """Return them as JSON."""
        return {"release": self.release, "ledger": self.ledger, "stores": dict(self.stores)}


def our_formats() -> Formats:
    """Return those of this release."""
    # The operator holds this module all its life, and need not hold SQLAlchemy and Polars in
    # memory; nor need `narthex status` wait for them.
    from narthex_ledger import NEWEST_SCHEMA  # noqa: PLC0415
    from narthex_stores import STORE_FORMATS  # noqa: PLC0415

    return Formats(
        release=importlib.metadata.version("narthex"), ledger=NEWEST_SCHEMA, stores=STORE_FORMATS
    )


def recorded_formats(layout: HomeLayout) -> Formats | None:
    """Return what a home records; None if no release that records formats ran there."""
    found = load_object(layout.formats)
    stores = found.get("stores")
    if not isinstance(stores, dict):
        return None
    return Formats(
        release=str(found.get("release", "")),
        ledger=str(found.get("ledger", "")),
        stores={str(kind): int(str(version)) for kind, version in stores.items()},
    )


def record_formats(layout: HomeLayout) -> None:
    """Record that this release writes the ledger and the stores of a home.

    Raises:
        NewerInstallationError: A later release did.
    """
    require_known_formats(layout)
    store_json(layout.formats, our_formats().plain())


def require_known_formats(layout: HomeLayout) -> None:
    """Require that no later release has written the installation of a home.

    Raises:
        NewerInstallationError: One has; the message has each format that is unknown here.
    """
    found = recorded_formats(layout)
    if found is None:
        return
    from narthex_ledger import newer_formats  # noqa: PLC0415

    ours = our_formats()
    newer = newer_formats(found.stores, ours.stores)
    if found.ledger > ours.ledger:
        newer.insert(0, f"a ledger of schema {found.ledger} (known: {ours.ledger})")
    if newer:
        raise NewerInstallationError(
            f"`{layout.home}` was written by Narthex {found.release}, which is later than this "
            f"release, {ours.release}: it has {', '.join(newer)}. Nothing was started. Install "
            "that release or a later one, or restore the backup that was made before its upgrade"
        )


def upgrade_ahead(layout: HomeLayout) -> str:
    """Tell what the start of the server upgrades; empty if this release ran in the home before."""
    if not layout.secrets.is_file():
        return ""
    found, ours = recorded_formats(layout), our_formats()
    if found is not None and found.ledger >= ours.ledger and found.stores == ours.stores:
        return ""
    before = (
        f"of Narthex {found.release}, schema {found.ledger}" if found else "of an earlier release"
    )
    return (
        f"the installation is {before}; the server upgrades its ledger to schema {ours.ledger} "
        "as it starts. The way back is a backup: `narthex upgrade` makes one first"
    )
