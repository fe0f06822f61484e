"""The three projects that wheels are built from, as their `pyproject.toml` declare them."""

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import attrs
from packaging.requirements import Requirement

ROOT: Final = Path(__file__).resolve().parents[2]


@attrs.define
class Project:
    """One project, and the packages in its wheel."""

    directory: Path

    @cached_property
    def declared(self) -> dict[str, Any]:
        text = (self.directory / "pyproject.toml").read_text(encoding="utf-8")
        return tomllib.loads(text)

    @property
    def name(self) -> str:
        return self.declared["project"]["name"]

    @property
    def version(self) -> str:
        return self.declared["project"]["version"]

    @property
    def dependencies(self) -> tuple[Requirement, ...]:
        return tuple(map(Requirement, self.declared["project"]["dependencies"]))

    @property
    def optional(self) -> tuple[Requirement, ...]:
        extras = self.declared["project"].get("optional-dependencies", {})
        return tuple(Requirement(text) for extra in extras.values() for text in extra)

    @property
    def packages(self) -> tuple[Path, ...]:
        wheel = self.declared["tool"]["hatch"]["build"]["targets"]["wheel"]
        return tuple((self.directory / name).resolve() for name in wheel["packages"])

    @property
    def left_out(self) -> tuple[Path, ...]:
        wheel = self.declared["tool"]["hatch"]["build"]["targets"]["wheel"]
        return tuple(self.directory / name for name in wheel.get("exclude", ()))

    def files(self) -> Iterator[tuple[str, Path]]:
        """Yield the files that belong into the wheel: the path in it, and the path here."""
        for package in self.packages:
            for path in sorted(package.rglob("*")):
                is_left_out = any(path.is_relative_to(place) for place in self.left_out)
                if path.is_file() and path.suffix != ".pyc" and not is_left_out:
                    yield str(path.relative_to(package.parent)), path

    @cached_property
    def imports(self) -> tuple[tuple[str, str], ...]:
        """Every module that the wheel's code imports, with the path of the code."""
        return tuple(
            (module, place)
            for place, path in self.files()
            if path.suffix == ".py"
            for module in _modules(ast.parse(path.read_text(encoding="utf-8")))
        )


def _modules(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names)
            case ast.ImportFrom(module=str(module), names=names):
                # A namespace package, such as `google.cloud`, is completed by the name.
                yield from (f"{module}.{name.name}" for name in names)


NARTHEX: Final = Project(ROOT)
AIRFLOW: Final = Project(ROOT / "wheels" / "narthex-airflow")
PLATFORM: Final = Project(ROOT / "wheels" / "narthex-platform")
PROJECTS: Final = (NARTHEX, AIRFLOW, PLATFORM)


def locked() -> dict[str, str]:
    """Return the versions of `requirements.lock`, by name."""
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    return dict(re.findall(r"^([a-z0-9.-]+)==(\S+)", text, re.MULTILINE))
