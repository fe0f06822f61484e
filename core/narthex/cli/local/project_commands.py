"""Commands of a project's directory: `narthex init` and `narthex dev`."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Final

import typer

from narthex.cli.options import Branch
from narthex.cli.output import AsJson, AsJsonLines, print_json, print_json_line, print_line, tell
from narthex.cli.projects.project_file import NAME, definitions_file, find_project, read_project
from narthex.data_files import READ_FILES
from narthex.errors import ArgumentsUnfit

_STDERR: Final = 2
"""Where the output of steps goes while stdout has JSON."""

_SUFFIX: Final = ".txt"
"""The ending of the templates, which are not code of this package."""

_NEXT: Final = """
next:
  narthex check     report the mistakes of {file}
  pytest            run its tests, without a platform
  narthex up        start a platform on this machine
  narthex commit    deploy the definitions
  narthex dev       check, test and plan at each change"""


def register(app: typer.Typer) -> None:
    """Add the commands of a project's directory."""
    app.command("init")(init)
    app.command("dev")(dev)


def init(
    directory: Annotated[
        Path, typer.Argument(help="The directory of the project; it may exist.")
    ] = Path(),
    *,
    as_json: AsJson = False,
) -> None:
    """Create a project: definitions, a test, and a `narthex.toml`.

    It prints the paths of the files. No file is replaced.
    """
    texts = dict(_templates(resources.files("narthex.cli.projects") / "new_project"))
    present = [str(directory / name) for name in texts if os.path.lexists(directory / name)]
    if present:
        raise ArgumentsUnfit(
            f"nothing was written, because `{'`, `'.join(present)}` exists",
            hint="name another directory, as in `narthex init shop`",
        )
    for name, text in texts.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as made:
            made.write(text)
        if not as_json:
            print_line(str(path))
    if as_json:
        print_json({"files": [str(directory / name) for name in texts]})
    project = read_project(directory / NAME)
    moved = "" if directory == Path() else f"\n  cd {directory}"
    first, _, rest = _NEXT.format(file=project.file).partition("next:")
    tell(f"{first}next:{moved}{rest}")


def dev(
    file: Annotated[
        Path | None,
        typer.Argument(
            help="The file with the definitions [`file` of narthex.toml].", metavar="FILE"
        ),
    ] = None,
    *,
    branch: Branch = "main",
    plan: Annotated[
        bool, typer.Option(help="Also show what a commit to the branch would change.")
    ] = True,
    once: Annotated[bool, typer.Option("--once", help="Do it once, and do not wait.")] = False,
    as_json: AsJsonLines = False,
) -> None:
    """Check FILE, run the tests and plan a commit, now and after each change of the project.

    Its data files count too. The tests are `tests` of `narthex.toml`. A step is left out after one
    that failed. Stop it with Ctrl-C; with `--once`, the exit code is that of the step that failed.
    `--json` prints the outcome of each step, and the output of the steps on stderr.
    """
    file = definitions_file(file)
    project = find_project(file.resolve().parent)
    steps: dict[str, list[str]] = {"check": ["-m", "narthex.cli", "check", str(file)]}
    if project is not None and project.tests:
        tests = str(project.directory / project.tests)
        steps["tests"] = ["-m", "pytest", "-q", "--no-header", tests]
    if plan:
        steps["plan"] = ["-m", "narthex.cli", "plan", str(file), "--branch", branch]
    directory = file.resolve().parent if project is None else project.directory.resolve()
    with tempfile.TemporaryDirectory() as made:
        read_files = Path(made) / "read_files"
        read_files.touch()
        for _ in _changes(directory, read_files, once=once):
            code = _run(steps, read_files, as_json=as_json)
            if once:
                raise typer.Exit(code)


def _run(steps: dict[str, list[str]], read_files: Path, *, as_json: bool) -> int:
    """Run the steps until one fails; return its exit code, or 0.

    They append the paths of the data files that they read to `read_files`.
    """
    environment = {**os.environ, READ_FILES: str(read_files)}
    for name, arguments in steps.items():
        began = time.monotonic()
        tell(f"-- {name}")
        output = _STDERR if as_json else None
        code = subprocess.run(
            [sys.executable, *arguments], check=False, stdout=output, env=environment
        ).returncode
        took_s = time.monotonic() - began
        tell(f"-- {name}: {'done' if code == 0 else 'failed'} in {took_s:.1f} s")
        if as_json:
            print_json_line({"step": name, "exit_code": code, "seconds": round(took_s, 3)})
        if code:
            return code
    return 0


def _changes(directory: Path, read_files: Path, *, once: bool) -> Iterator[None]:
    """Yield at once, and then after each change of code, settings, a lock or a data file."""
    yield
    if once:
        return
    from watchfiles import DefaultFilter, watch  # noqa: PLC0415 - a second for a command that waits

    is_of_project, data_files = DefaultFilter(), set(_paths(read_files))
    tell(f"waiting for changes below {directory}; stop with Ctrl-C")
    for _ in watch(
        directory,
        watch_filter=lambda change, path: (
            path in data_files
            or (path.endswith((".py", ".toml", ".lock")) and is_of_project(change, path))
        ),
        raise_interrupt=False,
    ):
        yield
        data_files.update(_paths(read_files))
        tell(f"waiting for changes below {directory}; stop with Ctrl-C")


def _paths(read_files: Path) -> frozenset[str]:
    """Return the paths of all data files that steps have read since the start, or tried to."""
    return frozenset(read_files.read_text("utf-8", "surrogateescape").split("\0")[:-1])


def _templates(directory: Traversable, below: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path and text of each file of the new project."""
    for entry in sorted(directory.iterdir(), key=lambda one: one.name):
        if entry.is_dir():
            yield from _templates(entry, f"{below}{entry.name}/")
        else:
            yield below + entry.name.removesuffix(_SUFFIX), entry.read_text(encoding="utf-8")
