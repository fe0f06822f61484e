"""The form of the DAG `commit`; `commit_form` reads what a person has filled in."""

from typing import Final

from airflow.sdk import Param

_TEXT: Final = ["null", "string"]

PARAMS: Final = {
    "project": Param(
        None,
        type=_TEXT,
        title="Project",
        description_md="A folder below the root of definitions (`NARTHEX_DEFINITIONS_ROOT`), or of "
        "the repository.",
    ),
    "file": Param(
        "features.py",
        type="string",
        title="File",
        description_md="The Python file in that folder with the definitions.",
    ),
    "branch": Param("main", type="string", title="Branch"),
    "message": Param(None, type=_TEXT, title="Message", description="The purpose of the commit."),
    "preview": Param(
        False,
        type="boolean",
        title="Preview",
        description_md="Only plan: the plan is in the log of `compile`, and nothing is committed.",
    ),
    "git_conn_id": Param(
        None,
        type=_TEXT,
        title="Git connection",
        section="Git",
        description_md="A connection of Airflow: `host` is the address of the repository; `login` "
        "and `password`, or `private_key` and `known_hosts` in `extra`, are the credentials. "
        "Empty: the root of definitions.",
    ),
    "ref": Param(
        "main",
        type="string",
        title="Ref",
        section="Git",
        description="A branch, a tag or a commit of the repository.",
    ),
    "incremental": Param(
        False,
        type="boolean",
        title="Incremental",
        section="More",
        description="Keep deployed definitions that the project does not contain.",
    ),
    "env": Param(
        None,
        type=_TEXT,
        title="Env",
        section="More",
        description="Use the definitions for this env.",
    ),
    "confirm_empty": Param(
        False,
        type="boolean",
        title="Remove everything",
        section="More",
        description="Confirm that a project without definitions removes all that the branch has.",
    ),
    "commit_id": Param(
        None,
        type=_TEXT,
        format="uuid",
        title="Commit",
        section="More",
        description="Carry out a commit that is accepted already, instead of a project.",
    ),
}
"""The params, in the order of the form."""
