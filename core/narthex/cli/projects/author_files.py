"""An author's file, imported in the same process: its declarations and its errors."""

import importlib.util
import linecache
import sys
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Final

import attrs
from typing_extensions import override

from narthex._analysis.graph import check
from narthex._authoring.error_collection import collecting, report
from narthex._authoring.source_locations import failure_origin, place
from narthex._compiler.capability import not_carried_out
from narthex._ir.entities import Definitions
from narthex._sdk.closure import lock_of
from narthex._sdk.commit_definitions import definitions_in
from narthex._sdk.datasets.datasets import Dataset
from narthex._sdk.features.featuresets import Featureset
from narthex.cli.projects.call_errors import explain_call
from narthex.errors import (
    DefinitionError,
    FileNotLoaded,
    NotYetSupported,
    in_source_order,
    raise_all,
)

_NOT_INSTALLED: Final = (
    "install the lock of the project here; the DAG `commit` has only the platform's packages, so "
    "use `narthex commit`"
)


@attrs.frozen(kw_only=True)
class AuthorFile:
    """The declarations of a file.

    Attributes:
        datasets: The datasets that the file declares or imports, each once.
        errors: Errors of single definitions; with any of them, the definitions are incomplete.
    """

    datasets: tuple[Dataset, ...]
    featuresets: tuple[Featureset, ...]
    errors: tuple[DefinitionError, ...]

    def definitions(self, env: str | None = None) -> Definitions:
        """Return the definitions of a commit for one env."""
        return definitions_in([*self.datasets, *self.featuresets], env=env)

    def check(self, env: str | None = None) -> tuple[DefinitionError, ...]:
        """Return every error: first of each definition alone, then of all definitions together."""
        if self.errors:
            return self.errors
        return in_source_order(check(self.definitions(env)))

    def not_carried_out(self, env: str | None = None) -> tuple[NotYetSupported, ...]:
        """Return valid definitions that are unimplemented; the file must be free of errors."""
        return not_carried_out(self.definitions(env))


def load_file(path: Path) -> AuthorFile:
    """Import an author's file and collect its declarations.

    Raises:
        FileNotLoaded: It does not exist, or raised anything but definition errors.
    """
    if not path.is_file():
        raise FileNotLoaded(f"file `{path}` does not exist")
    values: list[object] = []
    with collecting() as errors:
        report(lock_of(str(path.resolve())).errors)
        try:
            values += _import(path.resolve())
        except FileNotLoaded:
            if not errors:  # else one of these errors most likely made the import fail
                raise
    objects = list({id(value): value for value in values}.values())
    return AuthorFile(
        datasets=tuple(value for value in objects if isinstance(value, Dataset)),
        featuresets=tuple(value for value in objects if isinstance(value, Featureset)),
        errors=tuple(errors),
    )


def load_whole(path: Path) -> AuthorFile:
    """Import an author's file that must be free of errors.

    Raises:
        DefinitionErrors: All errors of the file, together.
        FileNotLoaded: It does not exist, or raised anything else.
    """
    definitions = load_file(path)
    raise_all(definitions.errors)
    return definitions


class _Uncompiled(SourceFileLoader):
    """Reads a file as it is now.

    Python takes a compiled module for the file's if the file has its size, and was changed within
    the same second.
    """

    @override
    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def _import(file: Path) -> Iterator[object]:
    name = file.stem.replace("-", "_")
    loader = _Uncompiled(name, str(file))
    spec = importlib.util.spec_from_file_location(name, file, loader=loader)
    if spec is None or spec.loader is None:
        raise FileNotLoaded(f"`{file}` is not a Python file")
    module = importlib.util.module_from_spec(spec)
    start = place(str(file), 1)
    linecache.checkcache()  # the text of functions is captured from there
    sys.path.insert(0, str(file.parent))
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except DefinitionError as error:
        raise error.located(failure_origin(error, fallback=start, folder=file.parent)) from None
    except (Exception, SystemExit) as error:
        origin = failure_origin(error, fallback=start, folder=file.parent)
        if isinstance(error, SyntaxError) and error.lineno:
            origin = place(str(file), error.lineno)
        call = explain_call(error) if isinstance(error, TypeError) else None
        if call is not None:
            raise FileNotLoaded(call.message, origin=origin, hint=call.hint) from error
        is_missing = isinstance(error, ModuleNotFoundError) and lock_of(str(file)).packages
        raise FileNotLoaded(
            f"the file cannot be read: {type(error).__name__}: {error}",
            origin=origin,
            hint=_NOT_INSTALLED if is_missing else "",
        ) from error
    finally:
        sys.path.remove(str(file.parent))
    yield from vars(module).values()
