"""`import fennel` loads Narthex: as a pytest plugin, as a script runner, or by `install()`.

    pytest -p narthex.compat.fennel tests/
    python -m narthex.compat.fennel script.py --its arguments
    python -m narthex.compat.fennel -m package.module

A real installation of `fennel` is hidden only on request: `--shadow-fennel`.
"""

import importlib.util
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from narthex.compat.serving import ROOT, FennelModuleFinder
from narthex.errors import FennelInstalled

SHADOW: Final = "--shadow-fennel"
_USAGE: Final = f"usage: python -m narthex.compat.fennel [{SHADOW}] (SCRIPT | -m MODULE) [ARG …]\n"
_YOUR_MISTAKE, _COMMAND_LINE = 1, 2


def install() -> None:
    """Make `import fennel` and all imports below it find Narthex, from now on.

    Raises:
        FennelInstalled: Another `fennel` is installed, and code could mean that one.
    """
    if _is_served():
        return
    found = really_installed()
    if found is not None:
        raise FennelInstalled(
            f"`{ROOT}` is installed already, at `{found}`",
            hint=f"uninstall `fennel-ai`, or hide it on purpose with `{SHADOW}`",
        )
    sys.meta_path.insert(0, FennelModuleFinder())


def install_over() -> None:
    """Install even if this hides an installed `fennel`; report its path on stderr."""
    if _is_served():
        return
    found = really_installed()
    if found is not None:
        sys.stderr.write(f"narthex: `import {ROOT}` means Narthex here, not `{found}`\n")
    for name in [name for name in sys.modules if name.split(".")[0] == ROOT]:
        del sys.modules[name]
    sys.meta_path.insert(0, FennelModuleFinder())


def _is_served() -> bool:
    return any(isinstance(finder, FennelModuleFinder) for finder in sys.meta_path)


def really_installed() -> str | None:
    """Return the path of another `fennel`; None if there is none. Bare directories do not count."""
    spec = importlib.util.find_spec(ROOT)
    return None if spec is None else spec.origin


class _Options(Protocol):
    """The object in which pytest collects the command-line options of plugins."""

    def addoption(self, option: str, *, action: str, help: str) -> None: ...


class _Config(Protocol):
    """The part of pytest's configuration that is available before it reads any test."""

    known_args_namespace: object


def pytest_addoption(parser: _Options) -> None:
    """Add `--shadow-fennel`."""
    parser.addoption(SHADOW, action="store_true", help="hide an installed `fennel`")


def pytest_load_initial_conftests(early_config: _Config) -> None:
    """Install `fennel` before the first conftest is read."""
    _begin(shadow=bool(getattr(early_config.known_args_namespace, "shadow_fennel", False)))


def _begin(*, shadow: bool) -> None:
    if shadow:
        install_over()
        return
    try:
        install()
    except FennelInstalled as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(_YOUR_MISTAKE) from None


def main(arguments: Sequence[str]) -> None:
    """Run a script, or a module, in which `import fennel` loads Narthex."""
    rest = list(arguments)
    shadow = rest[:1] == [SHADOW]
    rest = rest[1:] if shadow else rest
    match rest:
        case ["-m", module, *own]:
            _begin(shadow=shadow)
            sys.argv = [module, *own]
            sys.path[0] = str(Path.cwd())
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case [script, *own] if not script.startswith("-"):
            _begin(shadow=shadow)
            sys.argv = [script, *own]
            sys.path[0] = str(Path(script).resolve().parent)
            runpy.run_path(script, run_name="__main__")
        case _:
            sys.stderr.write(_USAGE)
            raise SystemExit(_COMMAND_LINE)


if __name__ == "__main__":
    main(sys.argv[1:])
