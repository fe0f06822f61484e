"""The form of the DAG `commit`, read and checked before anything is fetched or imported."""

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Final
from uuid import UUID

import attrs

_REF: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./@+\-]{0,199}")
_PART: Final = re.compile(r"[^/\x00-\x1f\x7f]{1,255}")


class FormRefused(ValueError):
    """The form cannot be used; the message has what to change."""


@attrs.frozen(kw_only=True)
class ProjectForm:
    """A project to commit.

    Attributes:
        folder: The project's folder, below the root of definitions or the root of the repository.
        file: The author's file, below the same root.
        git_conn_id: Airflow's connection to a Git repository; empty for the root of definitions.
        ref: The branch, tag or commit of the repository.
        message: The purpose of the commit; empty for a default.
        env: Select the declarations for this env and those without an env.
        incremental: Keep all other definitions of the branch.
        preview: Only plan.
        confirm_empty: Remove all definitions of the branch if the project has none.
    """

    folder: PurePosixPath
    file: PurePosixPath
    git_conn_id: str
    ref: str
    branch: str
    message: str
    env: str
    incremental: bool
    preview: bool
    confirm_empty: bool


def parse_form(params: Mapping[str, object]) -> UUID | ProjectForm:
    """Return the accepted commit that a form names, or the project that it describes.

    Raises:
        FormRefused: The form names neither or both, or a path that leaves its root.
    """
    accepted, project = _text(params, "commit_id"), _text(params, "project")
    connection = _text(params, "git_conn_id")
    if accepted:
        if project or connection:
            raise FormRefused("the form has a commit and a project; leave one of them empty")
        return UUID(accepted)
    if not (project or connection):
        raise FormRefused(
            "the form names no project; trigger the DAG with `project`, a folder below the root "
            "of definitions, or with `git_conn_id`, a connection to a Git repository"
        )
    folder = _path(project or ".", "project")
    ref = _text(params, "ref") or "main"
    if not _REF.fullmatch(ref) or ".." in ref:
        raise FormRefused(f"`ref` is `{ref[:200]}`; name a branch, a tag or a commit")
    file = _path(_text(params, "file") or "features.py", "file")
    if file.suffix != ".py":
        raise FormRefused(f"`file` is `{file}`; name the Python file with the definitions")
    return ProjectForm(
        folder=folder,
        file=folder / file,
        git_conn_id=connection,
        ref=ref,
        branch=_text(params, "branch") or "main",
        message=_text(params, "message"),
        env=_text(params, "env"),
        incremental=params.get("incremental") is True,
        preview=params.get("preview") is True,
        confirm_empty=params.get("confirm_empty") is True,
    )


def _text(params: Mapping[str, object], name: str) -> str:
    value = params.get(name)
    return value.strip() if isinstance(value, str) else ""


def _path(text: str, name: str) -> PurePosixPath:
    """Return a path below a root: relative, and without a part that leads out of it."""
    path = PurePosixPath(text)
    wrong = path.is_absolute() or any(
        part == ".." or not _PART.fullmatch(part) for part in path.parts
    )
    if wrong:
        raise FormRefused(
            f"`{name}` is `{text[:200]}`, which is not below its root; write a relative path "
            "without `..`"
        )
    return path
