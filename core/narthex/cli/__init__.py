# mypy: disable-error-code="explicit-any"
"""The command line `narthex`; each package registers its own commands.

A package is imported when one of its commands is used, so `narthex --help` imports none: the names
and summaries of all commands are in `command_list`.
"""

import os
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from functools import cached_property
from importlib import metadata
from importlib.util import find_spec
from typing import Annotated, Any, Final

import attrs
import typer
from typer.core import TyperGroup
from typing_extensions import override

from narthex.cli.command_list import COMMANDS
from narthex.cli.error_reports import log_crash, shown_error
from narthex.cli.exit_codes import ExitCode
from narthex.cli.projects.project_file import CHOSEN
from narthex.errors import (
    ClientError,
    DefinitionErrors,
    NarthexError,
    Refused,
    RowsNotContained,
    Unreachable,
)

GROUP: Final = "narthex.commands"

_OF_PLATFORM: Final = "narthex_"
"""How the names of our packages begin that need the extra `platform`."""

_NEEDED_BY_PLATFORM: Final = ("confluent_kafka", "pyspark", "sqlalchemy")
"""Libraries of that extra: without one of them, it is not installed."""


def _has_platform() -> bool:
    return all(find_spec(name) is not None for name in _NEEDED_BY_PLATFORM)


class _Commands(MutableMapping[str, Any]):
    """The commands of the installed packages by name, each loaded when it is looked up."""

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = {}

    @cached_property
    def _entries(self) -> dict[str, metadata.EntryPoint]:
        has_platform = _has_platform()
        return {
            entry.name: entry
            for entry in metadata.entry_points(group=GROUP)
            if has_platform or not entry.module.startswith(_OF_PLATFORM)
        }

    @cached_property
    def _names(self) -> list[str]:
        """The names of all commands; packages whose commands are not listed are loaded."""
        listed = {package for package, _ in COMMANDS.values()}
        for package in sorted(self._entries.keys() - listed):
            self._load(package)
        names = [name for name, (package, _) in COMMANDS.items() if package in self._entries]
        return [*names, *(name for name in self._loaded if name not in COMMANDS)]

    def _load(self, package: str) -> None:
        try:
            register = self._entries[package].load()
        except Exception as error:  # noqa: BLE001 - any package may be broken
            sys.stderr.write(f"narthex: the commands of `{package}` cannot be loaded: {error}\n")
            raise typer.Exit(ExitCode.OUR_FAULT) from None
        self._loaded |= registered_commands(register)

    def is_absent(self, name: str) -> bool:
        """Return whether a command belongs to a package that is not installed."""
        return name in COMMANDS and COMMANDS[name][0] not in self._entries

    def summary(self, name: str) -> str:
        """Return the first sentence of a command's help."""
        if name in COMMANDS:
            return COMMANDS[name][1]
        return summary_of(self[name])

    @override
    def __getitem__(self, name: str) -> Any:
        if name not in self._names:
            raise KeyError(name)
        if name not in self._loaded:
            self._load(COMMANDS[name][0])
        return self._loaded[name]

    @override
    def __setitem__(self, name: str, command: Any) -> None:
        self._loaded[name] = command

    @override
    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    @override
    def __len__(self) -> int:
        return len(self._names)


@attrs.frozen(kw_only=True)
class _Completion:
    """The name of a command, as a shell's completion shows it."""

    value: str
    help: str
    type: str = "plain"


class _Group(TyperGroup):
    """The command `narthex` itself."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._known = _Commands()
        self.commands = self._known

    @override
    def list_commands(self, ctx: Any) -> list[str]:
        return list(self._known)

    @override
    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Complete the name of a command without loading its package."""
        named = [
            _Completion(value=name, help=self._known.summary(name))
            for name in self._known
            if name.startswith(incomplete)
        ]
        return [*named, *(super().shell_complete(ctx, incomplete) if not named else ())]

    @override
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and self._known.is_absent(args[0]):
            ctx.fail(
                f"`narthex {args[0]}` runs the platform, which is not installed here; "
                "run `pip install 'narthex[platform]'`"
            )
        return super().resolve_command(ctx, args)

    @override
    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._known.summary(name)) for name in self._known])


def registered_commands(register: Any) -> dict[str, Any]:
    """Return the commands that a package registers, by name."""
    app = typer.Typer(rich_markup_mode=None)
    app.callback()(lambda: None)
    register(app)
    group = typer.main.get_group(app)
    return dict(group.commands)


def summary_of(command: Any) -> str:
    """Return the first sentence of a command's help."""
    summary: str = command.get_short_help_str(limit=10_000)
    return summary


def make_app() -> typer.Typer:
    """Build the application; it loads the commands of a package when one of them is used."""
    app = typer.Typer(
        cls=_Group,
        rich_markup_mode=None,
        name="narthex",
        help="The open data plane for real-time machine-learning features.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    return app


def _show_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"narthex {metadata.version('narthex')}\n")
        raise typer.Exit


def _options(
    ctx: typer.Context,
    *,
    profile: Annotated[
        str,
        typer.Option(envvar="NARTHEX_PROFILE", help="Use the server of a profile of narthex.toml."),
    ] = "",
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, help="Show the version and exit.", callback=_show_version
        ),
    ] = False,
) -> None:
    del version  # its callback has shown it
    if not ctx.resilient_parsing:
        before = dict(os.environ)
        os.environ.update(CHOSEN.choose(profile, before))
        ctx.call_on_close(lambda: _restore_environment(before))


def _restore_environment(before: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(before)


def main() -> None:
    """Run the command line.

    Exits with one of `ExitCode`.
    """
    app = make_app()
    try:
        app()
    except DefinitionErrors as errors:
        _fail(shown_error(errors), ExitCode.YOUR_MISTAKE)
    except NarthexError as error:
        _fail(shown_error(error), _whose(error))
    except BrokenPipeError:  # the reader of stdout has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(ExitCode.DONE)
    except Exception as error:  # noqa: BLE001 - no traceback reaches a person
        _fail(log_crash(error), ExitCode.OUR_FAULT)


def _whose(error: NarthexError) -> ExitCode:
    match error:
        case Refused():
            return ExitCode.YOUR_MISTAKE if error.is_users else ExitCode.OUR_FAULT
        case Unreachable() | RowsNotContained():
            return ExitCode.OUR_FAULT
        case ClientError():
            return ExitCode.YOUR_MISTAKE
        case _:
            return ExitCode.YOUR_MISTAKE


def _fail(report: str, code: ExitCode) -> None:
    sys.stderr.write(f"{report}\n")
    sys.exit(code)
