"""The first task of the DAG `commit`: it compiles a project and makes the run's commit."""

import datetime as dt
import logging
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import UUID

from airflow.sdk import Connection, Context, get_current_context
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowNotFoundException,
    DownstreamTasksSkipped,
)

from narthex._base import Backoff
from narthex.errors import SandboxUnavailable, UserCodeError
from narthex.settings import ProjectPlaces, project_places
from narthex_plugins.commit_form import FormRefused, ProjectForm, parse_form
from narthex_plugins.platform_client import Json, StepRefused, is_deferred, platform
from narthex_plugins.projects.git_repositories import FetchRefused, GitRepository, fetch
from narthex_plugins.projects.project_files import ProjectRefused, copy_folder

if TYPE_CHECKING:
    from narthex.cli.projects.sandboxed_import import CompiledProject

log = logging.getLogger(__name__)

RETRIED: Final[dict[str, object]] = {"retries": 3, "retry_delay": dt.timedelta(seconds=10)}
"""The retries of the task, for a server that does not answer; mistakes fail it at once."""

MISTAKES: Final = "mistakes"
"""The key of the task's XCom with the mistakes, for the tab `Ledger`."""

_PACKAGE: Final = {
    True: "package %s %s of the lock is installed for the import",
    False: "package %s %s of the lock cannot be imported: NARTHEX_PACKAGE_INDEX is not set",
}
_MOST_KEPT: Final = 20_000
"""The greatest number of characters of a report that the XCom has."""
_ANSWERS: Final = Backoff(first_s=0.5, greatest_s=5.0)
_ANSWERS_WITHIN_S: Final = 120.0


def compile_commit(skipped_by_preview: list[str]) -> str:
    """Compile the project that the form names, and commit it; return the id of the commit.

    The project's code is imported in a sandboxed process, by the code of `narthex check`. Every
    mistake is in this log with its file and line, and nothing is committed then. The commit is made
    in the name of the person who has triggered the run, once: a repetition finds it. A preview ends
    with the plan in this log, and all other tasks are skipped. If the form names an accepted
    commit, the run carries that out.

    Raises:
        AirflowFailException: The form, the project or its definitions have mistakes.
        DownstreamTasksSkipped: The form asks for a preview.
    """
    context = get_current_context()
    try:
        form = parse_form(context["params"])
    except FormRefused as refused:
        raise _refused(context, str(refused)) from None
    if isinstance(form, UUID):
        log.info("commit %s is accepted already; the next tasks carry it out", form)
        return str(form)
    made = _made_before(context)
    if made:
        log.info("this run has made commit %s already", made)
        return made
    answer = _submitted(form, _compiled(form, context), context)
    for line in _texts(answer.get("summary")):
        log.info("%s", line)
    if form.preview:
        log.info("this is a preview: nothing was committed")
        raise DownstreamTasksSkipped(tasks=skipped_by_preview)
    log.info("commit %s is accepted for branch %s", answer["commit_id"], form.branch)
    return str(answer["commit_id"])


def _made_before(context: Context) -> str:
    """Return the commit that an earlier try of this task has made; empty if there is none."""
    run_id = context["dag_run"].run_id
    found = _ANSWERS.retry(
        lambda: platform().commit_of_run(run_id),
        may_retry=is_deferred,
        within_s=_ANSWERS_WITHIN_S,
    )
    return "" if found is None else str(found["commit_id"])


def _compiled(form: ProjectForm, context: Context) -> "CompiledProject":
    # Every task of every DAG imports this file; the compiler takes a second of CPU to import.
    from narthex._runtime.environments import BuildFailedError, PackageSource  # noqa: PLC0415
    from narthex.cli.projects.sandboxed_import import (  # noqa: PLC0415
        CopiedProject,
        compile_project,
    )

    places = project_places()
    packages = PackageSource.of(places)
    with tempfile.TemporaryDirectory(prefix="narthex-project-") as name:
        try:
            files = Path(name) / "files"
            origin = _fetched(form, files, places)
            project = CopiedProject(directory=files, file=form.file)
            for one in project.packages_to_install:
                log.info(_PACKAGE[bool(packages.index)], one.distribution, one.version)
            log.info("compiling %s of %s in the sandbox", form.file, origin)
            compiled = compile_project(
                project,
                message=form.message or f"{form.file} of {origin}",
                env=form.env,
                incremental=form.incremental,
                preview=form.preview,
                source=packages if packages.index else None,
            )
        except BuildFailedError as refused:
            raise _refused(context, f"the packages of the lock: {refused}") from None
        except (FetchRefused, ProjectRefused, UserCodeError, SandboxUnavailable) as refused:
            raise _refused(context, str(refused)) from None
    if compiled.report:
        raise _refused(context, compiled.report)
    log.info("%s datasets, %s featuresets: sound", compiled.datasets, compiled.featuresets)
    return compiled


def _fetched(form: ProjectForm, target: Path, places: ProjectPlaces) -> str:
    """Copy the files of a project; return where they come from, for the commit's message."""
    if not form.git_conn_id:
        copied = copy_folder(places.definitions_root, form.folder, target)
        origin = "the root of definitions"
    else:
        checkout = target.with_name("checkout")
        checkout.mkdir(mode=0o700)
        repository = _repository(form.git_conn_id)
        commit = fetch(
            repository, form.ref, checkout, schemes=places.git_schemes, folder=form.folder
        )
        copied = copy_folder(checkout / "source", form.folder, target)
        origin = f"{form.git_conn_id} at {form.ref} ({commit[:12]})"
    log.info("%s files, %s bytes", copied.files, copied.size_bytes)
    if copied.left_out:
        names = ", ".join(map(repr, copied.left_out[:20]))
        log.info("left out, as links and devices are: %s", names)
    return origin


def _repository(conn_id: str) -> GitRepository:
    try:
        found = Connection.get(conn_id)
    except AirflowNotFoundException:
        raise FetchRefused(
            f"Airflow has no connection `{conn_id}`; add it, with the repository's address as host"
        ) from None
    extra = found.extra_dejson
    return GitRepository(
        url=str(found.host or ""),
        login=str(found.login or ""),
        password=str(found.password or ""),
        private_key=str(extra.get("private_key") or ""),
        known_hosts=str(extra.get("known_hosts") or ""),
    )


def _submitted(form: ProjectForm, compiled: "CompiledProject", context: Context) -> dict[str, Json]:
    run = context["dag_run"]
    terms = {
        "preview": form.preview,
        "incremental": form.incremental,
        "confirm_empty": form.confirm_empty,
    }

    def submit() -> dict[str, Json]:
        return platform().commit_for_run(
            run.run_id,
            compiled.payload,
            {name: str(value).lower() for name, value in terms.items()},
            branch=form.branch,
            actor=run.triggering_user_name or "",
        )

    try:
        return _ANSWERS.retry(submit, may_retry=is_deferred, within_s=_ANSWERS_WITHIN_S)
    except StepRefused as refused:
        raise _refused(context, str(refused)) from None


def _refused(context: Context, report: str) -> AirflowFailException:
    """Log a refusal line by line, and keep it for the tab `Ledger`; return the task's failure."""
    for line in report.splitlines():
        log.error("%s", line)
    context["ti"].xcom_push(key=MISTAKES, value=report[:_MOST_KEPT])
    return AirflowFailException("nothing was committed; the lines above say why")


def _texts(value: Json) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else []
