"""The process of `narthex supervisor`: its log, its ledger and its supervisor."""

from pathlib import Path

import typer

from narthex.cli.exit_codes import ExitCode
from narthex.cli.output import tell
from narthex.settings import NotInstalledError, load_settings, make_places
from narthex_ledger import (
    InstallationIsNewer,
    KeyFileError,
    Ledger,
    LedgerError,
    UpgradeNeeded,
    Verifier,
)
from narthex_spark_apps.platform.spark_properties import (
    SparkConfigurationError,
    require_configured,
)
from narthex_spark_apps.supervision.supervisor import Supervisor
from narthex_spark_apps.supervision.supervisor_lock import AlreadySupervisedError
from narthex_stores import STORE_FORMATS, log_json, open_log

FIRST = "supervisor"


def run(name: str, *, lazy: bool, as_json: bool) -> None:
    """Run a supervisor until it is stopped, as `narthex supervisor` does."""
    try:
        settings = load_settings()
        make_places(settings)
        require_configured(settings)
        verifier = Verifier.load(settings.verifying_key)
    except (NotInstalledError, SparkConfigurationError, KeyFileError) as error:
        tell(str(error))
        raise typer.Exit(ExitCode.YOUR_MISTAKE) from None
    if as_json:
        log_json()
    else:
        open_log(settings)
    ledger = Ledger(settings.ledger_dsn, verifier=verifier)
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
        tell(error.for_operators)


def run_dir(home: Path, name: str) -> Path:
    """Return the directory of a supervisor; the first one uses the installation's directory."""
    return home / "run" if name == FIRST else home / "run" / name
