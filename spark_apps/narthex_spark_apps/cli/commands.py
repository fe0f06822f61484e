"""Commands of the engine: `narthex supervisor` and `snapshots`."""

import re
from pathlib import Path
from typing import Annotated

import typer

from narthex.cli.exit_codes import ExitCode
from narthex.cli.output import AsJsonLines, tell
from narthex.settings import NotInstalledError, load_settings
from narthex_ledger import InstallationIsNewer, Ledger, LedgerError, UpgradeNeeded, Verifier
from narthex_spark_apps.cli.snapshot_commands import snapshots
from narthex_spark_apps.platform.spark_properties import (
    SparkConfigurationError,
    require_configured,
)
from narthex_spark_apps.supervision.supervisor import Supervisor
from narthex_spark_apps.supervision.supervisor_lock import AlreadySupervisedError
from narthex_stores import STORE_FORMATS, log_json, open_log

FIRST = "supervisor"
_NAME = re.compile(r"[a-z][a-z0-9-]{0,40}")


def register(app: typer.Typer) -> None:
    """Add the engine's commands."""
    app.command("supervisor")(supervisor)
    app.add_typer(snapshots)


def supervisor(
    *,
    name: Annotated[
        str, typer.Option(help="A name that is unique on this machine and home.")
    ] = FIRST,
    lazy: Annotated[
        bool,
        typer.Option("--lazy", help="Start the driver and the writers only when they have work."),
    ] = False,
    as_json: AsJsonLines = False,
) -> None:
    """Run a share of the streaming jobs until stopped.

    Any number of supervisors may run, on any machines; they share the jobs evenly. On SIGTERM a
    supervisor drains its jobs and returns them. It prints each event, with `--json` as an object.
    """
    if not _NAME.fullmatch(name):
        raise typer.BadParameter(
            f"`{name}` is not a name: use lower-case letters, digits and -", param_hint="name"
        )
    try:
        settings = load_settings()
        require_configured(settings)
    except (NotInstalledError, SparkConfigurationError) as error:
        tell(str(error))
        raise typer.Exit(ExitCode.YOUR_MISTAKE) from None
    if as_json:
        log_json()
    else:
        open_log(settings)
    ledger = Ledger(settings.ledger_dsn, verifier=Verifier.find(settings.verifying_key))
    try:
        _require_current(ledger)
        supervisor = Supervisor(settings, ledger, run_dir=run_dir(settings.home, name), lazy=lazy)
    except (AlreadySupervisedError, InstallationIsNewer, UpgradeNeeded) as error:
        tell(str(error))
        raise typer.Exit(ExitCode.YOUR_MISTAKE) from None
    supervisor.run()


def _require_current(ledger: Ledger) -> None:
    """Require a ledger and stores of this release, unless the ledger does not answer now.

    Raises:
        InstallationIsNewer: A later release wrote them.
        UpgradeNeeded: The ledger was not upgraded to this release.
    """
    try:
        ledger.installation.require_current(STORE_FORMATS)
    except (InstallationIsNewer, UpgradeNeeded):
        raise
    except LedgerError as error:
        tell(str(error))


def run_dir(home: Path, name: str) -> Path:
    """Return the directory of a supervisor; the first one uses the installation's directory."""
    return home / "run" if name == FIRST else home / "run" / name
