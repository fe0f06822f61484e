"""Upgrades of an installation to this release: a backup, and the migrations of its ledger.

The services are stopped meanwhile, except PostgreSQL. An interrupted upgrade is completed by the
next one: the backup appears when it is whole, and the migrations are one transaction.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import attrs

from narthex_ledger import (
    NEWEST_SCHEMA,
    InstallationIsNewer,
    Ledger,
    LedgerError,
    LedgerUnreachable,
    SchemaChange,
    find_schema,
    migrate,
    require_known,
)
from narthex_stack.errors import NewerInstallationError, NotHereError, NotStartedError
from narthex_stack.install.config import Config, load_config
from narthex_stack.install.formats import our_formats, record_formats, require_known_formats
from narthex_stack.install.layout import HomeLayout
from narthex_stack.machine.files import Json
from narthex_stack.operator.backups import Progress, back_up, state_elsewhere
from narthex_stack.operator.stack import Stack
from narthex_stores import STORE_FORMATS

_DATABASE: Final = "postgres"


@attrs.frozen(kw_only=True)
class Upgrade:
    """The changes of an upgrade, planned or made.

    Attributes:
        schema: The schema of the ledger before and after it.
        stores: The versions before and after it of each kind of store that changes, by kind.
        backup: The directory of the backup; None without one.
    """

    schema: SchemaChange
    stores: Mapping[str, tuple[int, int]]
    backup: Path | None = None

    @property
    def changes_nothing(self) -> bool:
        """Whether the installation is of this release already."""
        return not self.schema.migrations and not self.stores

    def plain(self) -> dict[str, Json]:
        """Return it as JSON."""
        migrations: list[Json] = [*self.schema.migrations]
        stores: dict[str, Json] = {kind: [*pair] for kind, pair in self.stores.items()}
        return {
            "release": our_formats().release,
            "ledger": [self.schema.before, self.schema.after],
            "migrations": migrations,
            "stores": stores,
            "backup": None if self.backup is None else str(self.backup),
            "changed": not self.changes_nothing,
        }


def plan_upgrade(stack: Stack) -> Upgrade:
    """Find what an upgrade of an installation would change; PostgreSQL is started to look.

    Raises:
        NotHereError: There is no installation.
        NewerInstallationError: A later release wrote it.
        NotStartedError: PostgreSQL does not start, or does not answer.
    """
    config = _configuration(stack.layout)
    with _database(stack, config) as dsn:
        return _planned(dsn)


def upgrade(stack: Stack, *, backup: Path | None, progress: Progress) -> Upgrade:
    """Upgrade an installation; repeating it changes nothing.

    If there is something to change, the services are stopped, and those that ran start again at
    the end, also if it fails.

    Args:
        stack: The installation.
        backup: The directory of the backup to write first; None for no backup.
        progress: Told about the copy.

    Raises:
        NotHereError: There is no installation, a part of its state is elsewhere so that no backup
            can be made here, or the directory exists.
        NewerInstallationError: A later release wrote it.
        NotStartedError: PostgreSQL or a service that ran before does not start.
    """
    planned = plan_upgrade(stack)
    config = _configuration(stack.layout)
    if planned.changes_nothing:
        return planned
    elsewhere = state_elsewhere(config)
    if backup is not None and elsewhere:
        raise NotHereError(
            f"no backup can be made here, as {', '.join(f'`{name}`' for name in elsewhere)} in the "
            "configuration keeps a part of the state elsewhere; back it up there, all parts at one "
            "instant, and then run `narthex upgrade --no-backup`"
        )
    ran = sorted({service.group for service in stack.status().services})
    files_root = stack.settings.files_root if ran else None
    stack.stop()
    try:
        if backup is not None:
            back_up(stack, backup, progress=progress)
        with _database(stack, config) as dsn:
            if _is_here(stack.layout):
                record_formats(stack.layout)
            return attrs.evolve(_upgraded(dsn), backup=backup)
    finally:
        if ran:
            Stack(stack.layout.home, only=ran, files_root=files_root).start()


def _upgraded(dsn: str) -> Upgrade:
    with _reporting_versions():
        schema = migrate(dsn)
        ledger = Ledger(dsn)
        try:
            stores = ledger.installation.record_formats(STORE_FORMATS)
        finally:
            ledger.close()
    return Upgrade(schema=schema, stores=stores)


def _planned(dsn: str) -> Upgrade:
    with _reporting_versions():
        before = find_schema(dsn)
        require_known(before)
        schema = SchemaChange(before=before, after=NEWEST_SCHEMA)
        # A ledger without the table of formats has stores of the first version.
        found: Mapping[str, int] = {}
        if before == NEWEST_SCHEMA:
            ledger = Ledger(dsn)
            try:
                found = ledger.installation.formats()
            finally:
                ledger.close()
    stores = {
        kind: (found.get(kind, 1), version)
        for kind, version in STORE_FORMATS.items()
        if found.get(kind, 1) < version
    }
    return Upgrade(schema=schema, stores=stores)


@contextmanager
def _reporting_versions() -> Iterator[None]:
    try:
        yield
    except InstallationIsNewer as error:
        raise NewerInstallationError(str(error)) from None
    except LedgerUnreachable as error:
        raise NotStartedError(f"the ledger's database does not answer: {error.detail}") from None
    except LedgerError as error:
        raise NotStartedError(str(error)) from None


def _configuration(layout: HomeLayout) -> Config:
    """Return the configuration of an installation that exists, here or by its ledger's address."""
    config = load_config(layout.config, os.environ)
    if not config.ledger_dsn and not _is_here(layout):
        raise NotHereError(
            f"`{layout.home}` holds no installation; name it with `--home`, or the address of its "
            "ledger with `NARTHEX_LEDGER_DSN`"
        )
    require_known_formats(layout)
    return config


def _is_here(layout: HomeLayout) -> bool:
    return layout.secrets.is_file()


@contextmanager
def _database(stack: Stack, config: Config) -> Iterator[str]:
    """Yield the address of the ledger's database, which runs meanwhile."""
    if config.ledger_dsn:
        yield config.ledger_dsn
        return
    running = {service.group for service in stack.status().services}
    if _DATABASE in running:
        yield stack.settings.ledger_dsn
        return
    with Stack(stack.layout.home, only=(_DATABASE,)) as database:
        yield database.settings.ledger_dsn
