"""Runs of commands that take names, and do their work for one after the other in one process."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

import attrs
import typer

from narthex.cli.error_reports import log_crash
from narthex.cli.exit_codes import ExitCode
from narthex.cli.output import print_json_line, tell
from narthex.settings import NotInstalledError
from narthex_expectations.audit_results import UnknownExpectationError
from narthex_expectations.server_client import ServerRefusedError, UnknownNamesError
from narthex_stores import StoreError, TooManyStatesError

_T = TypeVar("_T")


@attrs.frozen(kw_only=True)
class RunByName:
    """One run of such a command.

    Attributes:
        command: The name of the command, for its messages.
        as_json: Whether a failure is also a line of JSON on stdout, with the name as `dataset`.
    """

    command: str
    as_json: bool

    @contextmanager
    def looking_up(self) -> Iterator[None]:
        """Look up what the names mean: if that fails, nothing is done for any of them.

        Raises:
            typer.Exit: Some names are unknown, the server does not answer or nothing is installed.
        """
        try:
            yield
        except UnknownNamesError as unknown:
            for name, why in unknown.refusals.items():
                self._tell_failure(name, why)
            raise typer.Exit(ExitCode.YOUR_MISTAKE) from None
        except (ServerRefusedError, NotInstalledError) as error:
            code, why = _failure(error)
            tell(f"narthex {self.command}: {why}")
            raise typer.Exit(code) from None

    def for_each(self, found: Mapping[str, _T], work: Callable[[_T], None]) -> None:
        """Do the work for each name; one that fails is named, and the others go on.

        Raises:
            typer.Exit: Some failed; the status is the greatest of theirs.
        """
        code = max([self._ended(name, one, work) for name, one in found.items()])
        if code is not ExitCode.DONE:
            raise typer.Exit(code)

    def _ended(self, name: str, one: _T, work: Callable[[_T], None]) -> ExitCode:
        try:
            work(one)
        except BrokenPipeError:
            raise  # of stdout, whose reader has seen enough
        except Exception as error:  # noqa: BLE001 - whatever it is, it is of this name alone
            code, why = _failure(error)
            self._tell_failure(name, why)
        else:
            code = ExitCode.DONE
        # The reader has this result even if the process dies at a later name.
        sys.stdout.flush()
        return code

    def _tell_failure(self, name: str, why: str) -> None:
        tell(f"narthex {self.command}: {name}: {why}")
        if self.as_json:
            print_json_line({"dataset": name, "error": why})


def _failure(error: Exception) -> tuple[ExitCode, str]:
    """Return the exit code for work that could not be done, and why it could not."""
    match error:
        case FileNotFoundError():
            return ExitCode.OUR_FAULT, f"there is no history at {error}"
        case ServerRefusedError() | StoreError():
            return ExitCode.OUR_FAULT, str(error)
        case NotInstalledError() | TooManyStatesError() | UnknownExpectationError():
            return ExitCode.YOUR_MISTAKE, str(error)
        case _:
            return ExitCode.OUR_FAULT, log_crash(error)
