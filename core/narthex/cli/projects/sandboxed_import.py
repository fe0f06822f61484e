"""Import an author's file in a sandboxed worker, and compile it there: for servers and DAGs.

The functions of `narthex check` and `narthex commit` do the work. Only a text and bytes leave the
worker: the server checks the bytes as it checks those of any client.
"""

import functools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

import attrs
import pandas as pd
import pyarrow as pa

from narthex._authoring.project_directories import project_directory
from narthex._ir.code import MOST_PACKAGES, LockedPackage, UserCode
from narthex._ir.schema import Column
from narthex._ir.types import Bytes, Int, Str
from narthex._runtime.environments import (
    BuildFailedError,
    PackageSource,
    build,
    lacking,
)
from narthex._runtime.workers import Limits, WorkerPool
from narthex._sdk.closure.project_locks import lock_in
from narthex._sdk.commit_definitions import encoded_commit
from narthex.cli.projects.author_files import AuthorFile, load_file
from narthex.errors import (
    DefinitionError,
    DefinitionErrors,
    NarthexError,
    raise_all,
    render_report,
)

IMPORT_S: Final = 120.0
"""How long the import of a project and its compilation may take."""

MOST_CHARACTERS: Final = 100_000
"""The greatest length of a report; the rest is cut off."""

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_ENTRY: Final = UserCode(
    entry="compiled",
    source="from narthex.cli.projects.sandboxed_import import compiled\n",
    python="",
)
_OUTPUTS: Final = (
    Column("report", Str()),
    Column("payload", Bytes()),
    Column("datasets", Int()),
    Column("featuresets", Int()),
)


@attrs.frozen(kw_only=True)
class CompiledProject:
    """The result of a compilation.

    Attributes:
        report: Every mistake with its file and line, for a person; empty without mistakes.
        payload: The commit as the server reads it; empty if there are mistakes.
        datasets: The number of datasets that the file declares or imports.
        featuresets: The number of featuresets.
    """

    report: str
    payload: bytes
    datasets: int
    featuresets: int


@attrs.frozen(kw_only=True)
class CopiedProject:
    """The copied files of a project, which a sandboxed worker may read.

    Attributes:
        directory: All that the worker may read; paths in reports are relative to it.
        file: The author's file, relative to the directory.
    """

    directory: Path
    file: PurePosixPath

    @functools.cached_property
    def packages_to_install(self) -> tuple[LockedPackage, ...]:
        """The packages of the lock that the platform has at no version, sorted by name.

        Workers import the platform's own in each case. A mistake of the lock is found by the
        import.
        """
        project = project_directory((self.directory / self.file).parent)
        if not project.is_relative_to(self.directory):  # somebody else's, above the copy
            return ()
        lock = lock_in(project)
        packages: Mapping[str, LockedPackage] = {} if lock.errors else lock.packages
        return lacking(packages[name] for name in sorted(packages))


def compile_project(
    project: CopiedProject,
    *,
    message: str,
    env: str = "",
    incremental: bool = False,
    preview: bool = False,
    source: PackageSource | None = None,
) -> CompiledProject:
    """Compile an author's file, which a sandboxed worker imports; this process does not.

    The packages of the project's lock that the platform lacks are installed first.

    Args:
        project: The project.
        message: The purpose of the commit.
        env: Select the declarations for this env and those without an env.
        incremental: Keep all other definitions of the branch.
        preview: Only plan.
        source: Where the packages of a lock are installed, and from what; without it, the file can
            import none of them.

    Raises:
        BuildFailedError: The packages of the lock cannot be installed, or are too many.
        UserCodeError: The import was killed: it took too long or too much memory.
        SandboxUnavailable: No worker could be started.
    """
    given = pa.table(
        {
            "file": [str(project.file)],
            "message": [message],
            "env": [env],
            "incremental": [incremental],
            "preview": [preview],
        }
    )
    packages = project.packages_to_install if source else ()
    if len(packages) > MOST_PACKAGES:
        raise BuildFailedError(
            f"the lock has {len(packages)} packages that the platform lacks; at most "
            f"{MOST_PACKAGES} can be installed"
        )
    if packages and source:
        build(packages, source)
    entry = attrs.evolve(_ENTRY, locked=packages)
    limits = Limits(call_timeout_s=IMPORT_S)
    with WorkerPool(1, limits, directory=str(project.directory)) as worker:
        found = worker.call(
            entry, "transform", given, _OUTPUTS, title=f"the import of `{project.file}`"
        ).to_pylist()[0]
    return CompiledProject(**(found | {"report": _readable(found["report"])}))


def _readable(report: str) -> str:
    """Return a report without control characters, which could rewrite a log, and cut to length."""
    text = _CONTROL.sub("�", report)
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}\n… (cut off)"


def compiled(given: pd.DataFrame) -> pd.DataFrame:
    """Import and compile a file: runs in a worker, on one row with the arguments.

    Returns one row: the report, the payload, and the numbers of datasets and featuresets.
    """
    call = given.iloc[0]
    env, incremental = str(call["env"]) or None, bool(call["incremental"])
    payload, report, counts = b"", "", (0, 0)
    try:
        found = load_file(Path(str(call["file"])))
        counts = (len(found.datasets), len(found.featuresets))
        # The branch may have what an incremental commit refers to, so the server checks the rest.
        raise_all(found.errors or (() if incremental else _mistakes(found, env)))
        payload = encoded_commit(
            str(call["message"]),
            found.datasets,
            found.featuresets,
            env=env,
            preview=bool(call["preview"]),
            incremental=incremental,
        )
    except DefinitionErrors as errors:
        report = render_report(errors.exceptions_flat())
    except NarthexError as error:
        report = render_report([error])
    return pd.DataFrame(
        {
            "report": [report],
            "payload": [payload],
            "datasets": [counts[0]],
            "featuresets": [counts[1]],
        }
    )


def _mistakes(found: AuthorFile, env: str | None) -> Sequence[DefinitionError]:
    return found.check(env) or found.not_carried_out(env)
