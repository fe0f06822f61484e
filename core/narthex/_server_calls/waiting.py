"""Wait for a commit, for logged rows or for an offline query, and report the progress."""

import sys
import time
from collections.abc import Callable, Iterator
from typing import Final

from narthex._base.backoff import Backoff
from narthex._base.records import Json
from narthex._server_calls.responses import Response
from narthex._server_calls.transport import Caller, text_of
from narthex.errors import CommitFailed, RowsNotContained

_FAILED: Final = frozenset({"ABORTED", "REJECTED", "ABORTING"})
_COMMITTED: Final = frozenset({"COMMITTED", "FINALIZED"})
_OFFLINE_ENDS: Final = frozenset({"done", "failed", "cancelled"})

_SHOWN: Final = 4
"""The number of reasons to print on a line."""

_QUIET_S: Final = 5.0
"""How long a wait for rows is not reported."""

Tell = Callable[[str], None]


def wait_for_commit(
    transport: Caller, commit_id: str, *, tell: Tell, timeout_s: float, pause_s: float
) -> Response:
    """Wait until readers read a commit; report each new step.

    Raises:
        CommitFailed: The commit failed, or did not finish in time.
    """
    told = news = ""
    for _ in Backoff(first_s=pause_s, greatest_s=pause_s).attempts(within_s=timeout_s):
        answer = transport.read(f"commits/{commit_id}")
        news = _news(answer.body)
        if news and news != told:
            tell(news)
            told = news
        if _has_ended(commit_id, answer.body):
            for warning in _broken(answer.body, critical=False):
                tell(warning)
            return answer
    raise CommitFailed(
        f"commit {commit_id} has not finished after {timeout_s:.0f} s: {news}",
        hint=f"it continues by itself; check it with `narthex commits {commit_id}`",
    )


def wait_for_rows(
    transport: Caller, after: str, *, tell: Tell, timeout_s: float, pause_s: float
) -> None:
    """Wait until the indexes of the branch contain logged rows; report what they wait for.

    Raises:
        RowsNotContained: They do not contain the rows in time.
    """
    told = waits_for = ""
    reports_at = time.monotonic() + _QUIET_S
    for _ in Backoff(first_s=pause_s, greatest_s=pause_s).attempts(within_s=timeout_s):
        body = transport.read("log/progress", {"after": after}).body
        if body.get("waits_for") is None:
            return
        waits_for, after = text_of(body, "waits_for"), text_of(body, "after")
        if waits_for != told and time.monotonic() > reports_at:
            tell(waits_for)
            told = waits_for
    raise RowsNotContained(
        f"the rows have not arrived after {timeout_s:.0f} s: {waits_for}",
        hint="they were accepted, so do not send them again; see the job in the console",
    )


def _has_ended(commit_id: str, body: dict[str, Json]) -> bool:
    state, promotion = body.get("state"), body.get("promotion")
    if state in _FAILED:
        raise CommitFailed(
            f"commit {commit_id} is {str(state).lower()}: {_reason(body)}",
            hint="none of its assets remain; readers still read the previous commit",
        )
    critical = [*_broken(body, critical=True)]
    if critical and promotion in {"PENDING", "SUPERSEDED"}:
        raise CommitFailed(
            f"commit {commit_id} breaks critical expectations:\n  " + "\n  ".join(critical),
            hint="it is rolled back, and readers still read the previous commit; correct the rows "
            'or the definitions, or declare the expectation with `severity="warning"`',
        )
    match body:
        case {"approval": {"rejected": {"by": str(by), "reason": str(reason)}}}:
            raise CommitFailed(
                f"{by} has rejected commit {commit_id}" + (f": {reason}" if reason else ""),
                hint="it is reverted, and readers still read the previous commit",
            )
        case _:
            pass
    if promotion == "SUPERSEDED":
        raise CommitFailed(
            f"commit {commit_id} does not serve: another commit replaced it; {_reason(body)}"
        )
    # A promotion is done a moment before its commit is finalized.
    return state == "FINALIZED" and promotion in {"DONE", None}


def _broken(body: dict[str, Json], *, critical: bool) -> Iterator[str]:
    """Yield a sentence for each broken expectation of a severity."""
    checked = body.get("quality")
    for dataset in checked if isinstance(checked, list) else ():
        broken = dataset.get("broken") if isinstance(dataset, dict) else None
        for one in broken if isinstance(broken, list) else ():
            if isinstance(one, dict) and (one.get("severity") == "critical") is critical:
                yield text_of(one, "text")


def _reason(body: dict[str, Json]) -> str:
    match body.get("error"):
        case str(text):
            return text
        case {"message": str(text)} | {"reason": str(text)} | {"err_msg": str(text)}:
            return text
        case None:
            return "no reason was given"
        case other:
            return str(other)


def _news(body: dict[str, Json]) -> str:
    """Return what a commit waits for; empty between its promotion and its end."""
    state = text_of(body, "state")
    if state == "APPLYING":
        return _applying(body)
    if state == "PLANNED":
        return "planned"
    if state in _COMMITTED and body.get("promotion") == "DONE":
        return "finalized" if state == "FINALIZED" else ""
    waits_for = body.get("waits_for")
    reasons = [str(wait) for wait in waits_for] if isinstance(waits_for, list) else []
    if state in _COMMITTED and not reasons:
        return f"{state.lower()}: readers are about to flip"
    return f"{state.lower()}: waits for {_some(reasons)}" if reasons else state.lower()


def _applying(body: dict[str, Json]) -> str:
    found = body.get("assets")
    assets = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
    if not assets:
        return "applying"
    missing = [asset for asset in assets if asset.get("state") != "live"]
    failing = [f"{one.get('label')}: {e}" for one in missing if (e := one.get("last_error"))]
    said = f"creating assets, {len(assets) - len(missing)} of {len(assets)} live"
    return f"{said}; retrying: {_some(failing)}" if failing else said


def _some(reasons: list[str]) -> str:
    return "; ".join(reasons[:_SHOWN]) + (" …" if len(reasons) > _SHOWN else "")


def print_news(news: str) -> None:
    """Print progress on stderr."""
    sys.stderr.write(f"  {news}\n")
    sys.stderr.flush()


def wait_for_answers(
    transport: Caller, request_id: str, *, tell: Tell, timeout_s: float, pause_s: float
) -> dict[str, Json]:
    """Wait until an offline query is done, and return its status; report each new share of it.

    Raises:
        CommitFailed: The query failed, was cancelled, or did not finish in time.
    """
    told = status = ""
    for _ in Backoff(first_s=pause_s, greatest_s=pause_s).attempts(within_s=timeout_s):
        body = transport.read("query_offline/status", {"request_id": request_id}).body
        status = text_of(body, "status")
        news = f"offline query {request_id}: {_offline_news(body)}"
        if news != told:
            tell(news)
            told = news
        if status == "done":
            return body
        if status in _OFFLINE_ENDS:
            raise CommitFailed(f"offline query {request_id} is {status}: {_reason(body)}")
    raise CommitFailed(
        f"offline query {request_id} is {status} after {timeout_s:.0f} s",
        hint=f"it continues by itself; check it with `narthex offline show {request_id}`",
    )


def _offline_news(body: dict[str, Json]) -> str:
    status, share, rows = text_of(body, "status"), body.get("share"), body.get("rows")
    of_rows = f" of {rows} rows" if isinstance(rows, int) else ""
    if status == "running" and isinstance(share, int | float):
        return f"running, {share:.0%}{of_rows}"
    return f"{status}{of_rows}" if status in {"queued", "running"} else status
