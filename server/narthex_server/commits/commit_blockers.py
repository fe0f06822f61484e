"""Why a commit has not reached its readers: one sentence per cause, from the API's answers."""

from collections.abc import Iterable, Iterator

from narthex_ledger import IN_FLIGHT, CommitView
from narthex_server.commits.responses import CommitDetails, CommitReadiness

_ENDED = frozenset({"FINALIZED", "ABORTED", "REJECTED"})


def has_ended(commit: CommitDetails) -> bool:
    """Return whether a commit has reached a final state."""
    return commit["state"] in _ENDED


def commit_blockers(commit: CommitDetails, readiness: CommitReadiness | None) -> tuple[str, ...]:
    """Return what a commit waits for; empty when it has ended.

    Readiness is known only after the commit point.
    """
    return () if has_ended(commit) else tuple(_reasons(commit, readiness))


def _reasons(commit: CommitDetails, readiness: CommitReadiness | None) -> Iterator[str]:
    match commit["state"]:
        case "QUEUED":
            yield "its turn to be planned"
        case "ABORTING":
            yield "its stores, which destroy its new assets; readers are not affected"
        case "COMMITTED":
            yield from _after_commit_point(commit, readiness)
        case _:
            yield from _before_commit_point(commit)


def _before_commit_point(commit: CommitDetails) -> Iterator[str]:
    for asset in commit["assets"]:
        if asset["state"] == "live":
            continue
        failed = asset["last_error"]
        text = f"after {asset['attempt']} tries: {failed}" if failed else "to be created"
        yield f"{asset['label']} ({asset['kind']}), {text}"


def _after_commit_point(commit: CommitDetails, readiness: CommitReadiness | None) -> Iterator[str]:
    jobs = readiness["waiting_for"] if readiness else []
    for job in jobs:
        error = job.get("error")
        yield f"{job['job']}: {job.get('why') or job['phase']}" + (f": {error}" if error else "")
    if readiness and not jobs and not readiness["ready"]:
        yield "jobs that you may not read"
    if commit["approval"]["needed"]:
        command = f"narthex approve {commit['commit_id']}"
        yield f"a person, who approves it in the console, in Airflow or with `{command}`"


def whose_turn(view: CommitView, others: Iterable[CommitView]) -> Iterator[str]:
    """Yield the commit that a queued one waits for; just before planning there may be none."""
    ahead = [one for one in others if one.branch_id == view.branch_id and one.state in IN_FLIGHT]
    yield from (
        f"commit {one.commit_id} to end, which is {one.state.value} and has the branch"
        for one in ahead
    )
    if not ahead:
        yield "the next recovery pass, which plans it"
