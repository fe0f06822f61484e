"""A running platform for an example, with a branch of its own, and answers as plain values."""

import os
import subprocess
import sys
from collections.abc import Sequence

import pandas as pd

from narthex.client import Client
from narthex.settings import Settings, home_of, load_settings


def start_platform() -> Settings:
    """Start everything and wait until it is healthy; a second call finds it running."""
    home = home_of(os.environ)
    os.environ["NARTHEX_HOME"] = str(home)
    os.environ["NARTHEX_FILES_ROOT"] = str(home / "files")
    subprocess.run([sys.executable, "-m", "narthex.cli", "up"], check=True)
    return load_settings()


def client_of(settings: Settings, branch: str) -> Client:
    """Return a client on a new, empty branch."""
    client = Client(settings.server_url, settings.token)
    client.init_branch(branch)
    return client


def values_of(answers: pd.DataFrame, names: Sequence[str]) -> list[dict[str, object]]:
    """Return each row as values by name: a client that knows no types has other dtypes."""
    rows = answers[list(names)].astype(object).to_dict("records")
    return [{str(name): value for name, value in row.items()} for row in rows]
