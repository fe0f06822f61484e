"""The project that the wheel is built from, as `pyproject.toml` declares it."""

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import attrs
from packaging.requirements import Requirement

ROOT: Final = Path(__file__).resolve().parents[2]

AUTHORS: Final = ("narthex", "narthex_reference")
"""The packages that work without any extra."""

AIRFLOWS: Final = ("narthex_plugins",)
"""The packages that work with the extra `airflow`; all others need `platform`."""


@attrs.define
class Project:
    """The project, and the packages in its wheel."""

    directory: Path

    @cached_property
    def declared(self) -> dict[str, Any]:
        text = (self.directory / "pyproject.toml").read_text(encoding="utf-8")
        return tomllib.loads(text)

    @property
    def version(self) -> str:
        return self.declared["project"]["version"]

    @property
    def wheel_name(self) -> str:
        return f"narthex-{self.version}-py3-none-any.whl"

    @property
    def dependencies(self) -> tuple[Requirement, ...]:
        return tuple(map(Requirement, self.declared["project"]["dependencies"]))

    @property
    def extras(self) -> Mapping[str, tuple[Requirement, ...]]:
        """What each extra adds; those of another extra that it has are its own."""
        declared = self.declared["project"]["optional-dependencies"]
        return {name: tuple(self._of_extra(lines)) for name, lines in declared.items()}

    def _of_extra(self, lines: list[str]) -> Iterator[Requirement]:
        for one in map(Requirement, lines):
            if one.name == "narthex":
                for extra in one.extras:
                    yield from self.extras_of(extra)
            else:
                yield one

    def extras_of(self, extra: str) -> Iterator[Requirement]:
        yield from self._of_extra(self.declared["project"]["optional-dependencies"][extra])

    @property
    def _wheel(self) -> dict[str, Any]:
        return self.declared["tool"]["hatch"]["build"]["targets"]["wheel"]

    @property
    def packages(self) -> tuple[Path, ...]:
        return tuple(self.directory / name for name in self._wheel["packages"])

    @property
    def left_out(self) -> tuple[Path, ...]:
        return tuple(self.directory / name for name in self._wheel["exclude"])

    def files(self) -> Iterator[tuple[str, Path]]:
        """Yield the files that belong into the wheel: the path in it, and the path here."""
        folders = [(path, path.name) for path in self.packages]
        folders += [
            (self.directory / here, to) for here, to in self._wheel["force-include"].items()
        ]
        for folder, to in folders:
            for path in sorted(folder.rglob("*")):
                is_left_out = any(path.is_relative_to(place) for place in self.left_out)
                if path.is_file() and path.suffix != ".pyc" and not is_left_out:
                    yield f"{to}/{path.relative_to(folder)}", path

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


def locked() -> dict[str, str]:
    """Return the versions of `requirements.lock`, by name."""
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    return dict(re.findall(r"^([a-z0-9.-]+)==(\S+)", text, re.MULTILINE))
