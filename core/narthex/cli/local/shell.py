"""The command `narthex shell`: Python with a client, and with the definitions of a project."""

import code
import importlib
import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer
from typing_extensions import override

from narthex.cli.error_reports import shown_error
from narthex.cli.options import Branch, Token, Url, connect_with_frames
from narthex.cli.output import AsJson, print_json
from narthex.cli.projects.project_file import find_project
from narthex.errors import DefinitionErrors, NarthexError

_IPYTHON = "IPython"


def shell(
    file: Annotated[
        Path | None,
        typer.Argument(
            help="The file with the definitions [`file` of narthex.toml].", metavar="FILE"
        ),
    ] = None,
    *,
    url: Url = "",
    token: Token = "",
    branch: Branch = "main",
    as_json: AsJson = False,
) -> None:
    """Start Python with `client`, `pd` and the definitions of FILE by their names.

    It is IPython if that is installed. FILE is imported as by `narthex check`, in this process and
    with your rights. `--json` prints the names, and starts nothing.
    """
    names = shell_names(file, url=url, token=token, branch=branch)
    told = {name: _kind(value) for name, value in names.items()}
    if as_json:
        print_json({"branch": branch, "names": {**told}})
        return
    banner = f"branch `{branch}`; " + ", ".join(f"{name} ({kind})" for name, kind in told.items())
    if importlib.util.find_spec(_IPYTHON):
        ipython = importlib.import_module(_IPYTHON)
        sys.stderr.write(f"{banner}\n")
        ipython.start_ipython(argv=["--no-banner"], user_ns={**names})
    else:
        _Console({**names}).interact(banner=banner, exitmsg="")


def shell_names(file: Path | None, *, url: str, token: str, branch: str) -> Mapping[str, object]:
    """Return the names of a shell: the definitions of a file, `pd`, and `client`.

    Raises:
        DefinitionErrors: All errors of the file, together.
        FileNotLoaded: The file does not exist, or raised anything else.
        ArgumentsUnfit: There is no server.
    """
    import pandas as pd  # noqa: PLC0415 - these two are slow to load

    from narthex.cli.projects.author_files import load_whole  # noqa: PLC0415

    client = connect_with_frames(url, token, branch)
    project = find_project()
    if file is None and project is not None and project.file:
        file = project.directory / project.file
    names: dict[str, object] = {}
    if file is not None:
        found = load_whole(file)
        names |= {one.fqn(): one for one in found.datasets}
        names |= {one.fqn(): one for one in found.featuresets}
    return names | {"pd": pd, "client": client}


class _Console(code.InteractiveConsole):
    """Python's own shell; errors of Narthex are shown as on the command line."""

    def __init__(self, names: dict[str, object]) -> None:
        super().__init__(names)
        if importlib.util.find_spec("readline"):
            readline = importlib.import_module("readline")
            completer = importlib.import_module("rlcompleter").Completer(names)
            readline.set_completer(completer.complete)
            readline.parse_and_bind("tab: complete")

    @override
    def showtraceback(self) -> None:
        error = sys.exception()
        if isinstance(error, NarthexError | DefinitionErrors):
            self.write(f"{shown_error(error)}\n")
        else:
            super().showtraceback()


def _kind(value: object) -> str:
    return value.__name__ if isinstance(value, ModuleType) else type(value).__name__.lower()
