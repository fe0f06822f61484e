"""Commands of the engine: `narthex supervisor`, and those about rows."""

import typer

from narthex.settings import load_settings
from narthex_ledger import Ledger
from narthex_spark_apps import row_commands
from narthex_spark_apps.supervisor import Supervisor


def register(app: typer.Typer) -> None:
    """Add the engine's commands."""
    app.command("supervisor")(supervisor)
    row_commands.register(app)


def supervisor() -> None:
    """Keep this machine's share of the streaming jobs alive, until told to stop."""
    settings = load_settings()
    Supervisor(settings, Ledger(settings.ledger_dsn)).run()
