# mypy: disable-error-code="explicit-any"
"""The file `narthex.toml` of a project: its definitions, its tests and the servers that it names.

Commands read the first one in the current directory and those above it.
"""

import os
import shlex
import subprocess
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import attrs

from narthex._authoring.project_directories import PROJECT_FILE
from narthex.errors import ArgumentsUnfit

NAME: Final = PROJECT_FILE
_COMMAND_S: Final = 120.0
"""How long a command that prints a token may take, which may ask its user for a password."""

_T = TypeVar("_T")


@attrs.frozen(kw_only=True)
class ServerProfile:
    """One server and branch, by a name.

    Attributes:
        url: The server; empty for the installation on this machine.
        branch: The branch of commands; empty for `main`.
        token_env: The environment variable with the token.
        token_command: A program and its arguments, which prints the token.
    """

    name: str
    url: str = ""
    branch: str = ""
    token_env: str = ""
    token_command: tuple[str, ...] = ()

    def token(self, environment: Mapping[str, str]) -> str:
        """Return the token; empty if the profile names none.

        Raises:
            ArgumentsUnfit: The variable is not set, or the program failed.
        """
        if self.token_env:
            token = environment.get(self.token_env, "")
            if not token:
                raise ArgumentsUnfit(
                    f"the profile `{self.name}` takes its token from `{self.token_env}`, "
                    "which is not set",
                    hint=f"set `{self.token_env}`, or choose another profile",
                )
            return token
        return self._printed_token() if self.token_command else ""

    def _printed_token(self) -> str:
        shown = shlex.join(self.token_command)
        try:
            done = subprocess.run(
                self.token_command,
                stdout=subprocess.PIPE,
                text=True,
                timeout=_COMMAND_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise self._no_token(f"`{shown}` did not run: {error}") from None
        token = done.stdout.strip()
        if done.returncode:
            raise self._no_token(f"`{shown}` exited with {done.returncode}")
        if not token or len(token.split()) != 1:
            raise self._no_token(f"`{shown}` printed no token, or more than one word")
        return token

    def _no_token(self, reason: str) -> ArgumentsUnfit:
        return ArgumentsUnfit(
            f"the profile `{self.name}` gives no token: {reason}",
            hint=f"run the command yourself, or mend `token_command` in `{NAME}`",
        )


@attrs.frozen(kw_only=True)
class ProjectFile:
    """A project as its `narthex.toml` describes it.

    Attributes:
        directory: The directory of `narthex.toml`; the other paths are below it.
        file: The file with the definitions, for commands that take FILE.
        tests: The directory or file of the tests.
        requirements: The lock with the packages that the definitions import besides the platform's.
        profile: The name of the profile that is used unless another is chosen.
    """

    directory: Path
    file: str = ""
    tests: str = ""
    requirements: str = ""
    profile: str = ""
    profiles: Mapping[str, ServerProfile] = attrs.field(factory=dict)

    def profile_of(self, name: str) -> ServerProfile:
        """Return a profile by name.

        Raises:
            ArgumentsUnfit: The project has no such profile.
        """
        if name not in self.profiles:
            known = ", ".join(f"`{one}`" for one in self.profiles) or "none"
            raise ArgumentsUnfit(
                f"`{self.directory / NAME}` has no profile `{name}`",
                hint=f"its profiles: {known}",
            )
        return self.profiles[name]


def find_project(start: Path | None = None) -> ProjectFile | None:
    """Return the project of a directory, by default the current one; None if it has none.

    Raises:
        ArgumentsUnfit: Its `narthex.toml` is not valid.
    """
    directory = (start or Path.cwd()).resolve()
    for above in (directory, *directory.parents):
        if (above / NAME).is_file():
            return read_project(above / NAME)
    return None


def read_project(path: Path) -> ProjectFile:
    """Read a `narthex.toml`.

    Raises:
        ArgumentsUnfit: It is not TOML, or has a key or a value that is not known.
    """
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ArgumentsUnfit(f"`{path}` cannot be read: {error}") from None
    profiles = found.pop("profiles", {})
    texts = _TomlTable(path, "", found)
    project = ProjectFile(
        directory=path.parent,
        file=texts.take("file", _text, ""),
        tests=texts.take("tests", _text, ""),
        requirements=texts.take("requirements", _text, ""),
        profile=texts.take("profile", _text, ""),
        profiles={
            name: _profile(name, _TomlTable(path, f"profiles.{name}.", table))
            for name, table in _TomlTable(path, "profiles", profiles).items()
        },
    )
    texts.end()
    if project.profile:
        project.profile_of(project.profile)
    return project


def definitions_file(given: Path | None) -> Path:
    """Return the file of a command: the one that is given, or else that of the project.

    Raises:
        ArgumentsUnfit: None is given and there is no project, or it names no file.
    """
    if given is not None:
        return given
    project = find_project()
    if project is None or not project.file:
        raise ArgumentsUnfit(
            "no file is given",
            hint=f'name FILE, or write `file = "features.py"` into `{NAME}`',
        )
    return project.directory / project.file


@attrs.define
class ChosenProfile:
    """The profile that the commands of this process use; none at first."""

    profile: ServerProfile | None = None

    def choose(self, name: str, environment: Mapping[str, str]) -> dict[str, str]:
        """Choose the named profile, by default that of the project; return its variables.

        A profile that is named on the command line replaces the server and the branch of the
        environment. The one that the project names by itself leaves both as they are.

        Raises:
            ArgumentsUnfit: There is no such profile.
        """
        self.profile = None
        is_named = bool(name)
        project = find_project() if name or "NARTHEX_URL" not in environment else None
        name = name or (project.profile if project else "")
        if not name:
            return {}
        if project is None:
            raise ArgumentsUnfit(
                f"there is no `{NAME}` here, and so no profile `{name}`",
                hint="run the command in the project's directory",
            )
        self.profile = project.profile_of(name)
        own, exported = self.profile.branch, environment.get("NARTHEX_BRANCH", "")
        chosen = {
            "NARTHEX_URL": self.profile.url,
            "NARTHEX_BRANCH": (own or exported if is_named else exported or own) or "main",
        }
        # Only another server needs another token: an empty one would hide that of this machine.
        return chosen | {"NARTHEX_TOKEN": ""} if self.profile.url else chosen

    def token_for(self, url: str) -> str:
        """Return the token for a server: that of the profile, if it is the profile's server.

        Raises:
            ArgumentsUnfit: The profile cannot give its token.
        """
        profile = self.profile
        return profile.token(os.environ) if profile is not None and profile.url == url else ""


CHOSEN: Final = ChosenProfile()


@attrs.define
class _TomlTable:
    """A table of the file, whose keys are taken one by one."""

    path: Path
    prefix: str
    values: Any

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.values, dict):
            raise self._invalid(f"`{self.prefix.rstrip('.')}` is not a table")

    def items(self) -> list[tuple[str, Any]]:
        return list(self.values.items())

    def take(self, key: str, parse: Callable[[Any], _T | None], default: _T) -> _T:
        if key not in self.values:
            return default
        value = parse(self.values.pop(key))
        if value is None:
            raise self._invalid(f"`{self.prefix}{key}` has a value of the wrong type")
        return value

    def end(self) -> None:
        if self.values:
            unknown = ", ".join(f"`{self.prefix}{key}`" for key in self.values)
            raise self._invalid(f"{unknown} is not known")

    def _invalid(self, reason: str) -> ArgumentsUnfit:
        return ArgumentsUnfit(
            f"`{self.path}`: {reason}",
            hint="the keys are in `docs/guide/projects.md`",
        )


def _profile(name: str, table: _TomlTable) -> ServerProfile:
    profile = ServerProfile(
        name=name,
        url=table.take("url", _text, ""),
        branch=table.take("branch", _text, ""),
        token_env=table.take("token_env", _text, ""),
        token_command=table.take("token_command", _command, ()),
    )
    table.end()
    return profile


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _command(value: Any) -> tuple[str, ...] | None:
    if isinstance(value, str):
        return tuple(shlex.split(value)) or None
    if isinstance(value, list) and value and all(isinstance(one, str) for one in value):
        return tuple(value)
    return None
