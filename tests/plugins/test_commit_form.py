"""The form of a commit in Airflow is read strictly: hostile names lead nowhere."""

from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

import pytest

from narthex_plugins.commit_form import FormRefused, ProjectForm, parse_form
from tests.cases import every

COMMIT = "11111111-1111-8111-8111-111111111111"


def project(**form: Any) -> ProjectForm:
    found = parse_form(form)
    assert isinstance(found, ProjectForm)
    return found


def test_an_accepted_commit_needs_nothing_else() -> None:
    form = {"commit_id": COMMIT, "project": None, "branch": "main", "file": "features.py"}

    assert parse_form(form) == UUID(COMMIT)


def test_a_project_has_defaults() -> None:
    found = project(project="team/market")

    assert (found.folder, found.file) == (
        PurePosixPath("team/market"),
        PurePosixPath("team/market/features.py"),
    )
    assert (found.branch, found.ref, found.git_conn_id) == ("main", "main", "")
    assert (found.preview, found.incremental, found.confirm_empty) == (False, False, False)


def test_a_repository_may_be_a_project_as_a_whole() -> None:
    found = project(git_conn_id="shop", ref="v1.2", file="src/all.py", preview=True)

    assert (found.folder, found.file) == (PurePosixPath(), PurePosixPath("src/all.py"))
    assert (found.git_conn_id, found.ref, found.preview) == ("shop", "v1.2", True)


@every(
    ("form", "why"),
    [
        ({}, "names no project"),
        ({"project": " "}, "names no project"),
        ({"commit_id": COMMIT, "project": "shop"}, "leave one of them empty"),
        ({"commit_id": COMMIT, "git_conn_id": "shop"}, "leave one of them empty"),
        ({"project": "/etc"}, "write a relative path"),
        ({"project": "../shop"}, "write a relative path"),
        ({"project": "shop/../../etc"}, "write a relative path"),
        ({"project": "shop\nroot"}, "write a relative path"),
        ({"project": "shop\0"}, "write a relative path"),
        ({"project": "shop", "file": "../features.py"}, "write a relative path"),
        ({"project": "shop", "file": "features.sh"}, "name the Python file"),
        ({"git_conn_id": "shop", "ref": "--upload-pack=evil"}, "name a branch, a tag or a commit"),
        ({"git_conn_id": "shop", "ref": "a:b"}, "name a branch, a tag or a commit"),
        ({"git_conn_id": "shop", "ref": "a..b"}, "name a branch, a tag or a commit"),
    ],
)
def test_a_form_is_refused_with_what_to_change(form: dict[str, object], why: str) -> None:
    with pytest.raises(FormRefused, match=why):
        parse_form(form)
