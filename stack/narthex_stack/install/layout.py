"""The layout of an installation's state below its home."""

import os
from pathlib import Path

import attrs

from narthex._base import make_private
from narthex.settings import NotInstalledError, is_home_of_group, make_home
from narthex_stack.errors import BadConfigError


def _absolute(home: Path) -> Path:
    return Path(home).expanduser().resolve()


@attrs.frozen
class HomeLayout:
    """The files and directories below one `NARTHEX_HOME`."""

    home: Path = attrs.field(converter=_absolute)

    @property
    def run_dir(self) -> Path:
        return self.home / "run"

    @property
    def logs_dir(self) -> Path:
        return self.home / "logs"

    @property
    def config(self) -> Path:
        return self.home / "config.toml"

    @property
    def policy(self) -> Path:
        return self.home / "policy.toml"

    @property
    def alerts(self) -> Path:
        return self.home / "alerts.toml"

    @property
    def sso(self) -> Path:
        return self.home / "sso.toml"

    @property
    def services(self) -> Path:
        return self.home / "services.json"

    @property
    def secrets(self) -> Path:
        return self.home / "secrets.json"

    @property
    def ports(self) -> Path:
        return self.home / "ports.json"

    @property
    def formats(self) -> Path:
        return self.home / "formats.json"

    @property
    def status(self) -> Path:
        return self.run_dir / "status.json"

    @property
    def operator(self) -> Path:
        return self.run_dir / "operator.json"

    @property
    def wanted(self) -> Path:
        return self.run_dir / "wanted.json"

    @property
    def children(self) -> Path:
        return self.run_dir / "children.json"

    def heartbeat(self, supervisor: str) -> Path:
        """Return the file that a supervisor touches; the first one's is in our own directory."""
        is_first = supervisor == "supervisor"
        directory = self.run_dir if is_first else self.run_dir / supervisor
        return directory / "supervisor.heartbeat"

    def log(self, service: str) -> Path:
        """Return the path of the log of a service."""
        return self.logs_dir / f"{service}.log"

    def make(self) -> None:
        """Create the directories; only this account may enter the home, or its group if meant.

        Raises:
            BadConfigError: Others may enter the home that exists.
        """
        try:
            make_home(self.home, os.environ)
            is_of_group = is_home_of_group(os.environ)
        except NotInstalledError as error:
            raise BadConfigError(str(error)) from None
        for directory in (self.run_dir, self.logs_dir):
            make_private(directory, is_of_group=is_of_group)
