"""Wait for a commit, or an offline query, and tell how it goes."""

import time
from collections.abc import Callable
from typing import Final

from narthex.client.responses import Response
from narthex.client.transport import Caller, text_of
from narthex.errors import CommitFailed, Refused
from narthex.records import Json

_FAILED: Final = frozenset({"ABORTED", "REJECTED", "ABORTING"})
_COMMITTED: Final = frozenset({"COMMITTED", "FINALIZED"})
_OFFLINE_ENDS: Final = frozenset({"done", "failed", "cancelled"})

Tell = Callable[[str], None]


def wait_for_commit(
    transport: Caller, commit_id: str, *, tell: Tell, timeout_s: float, pause_s: float
) -> Response:
    """Wait until readers read what a commit made; tell each new step.

    Raises:
        CommitFailed: It ended otherwise, or not in time.
    """
    ends_at = time.monotonic() + timeout_s
    told = ""
    while True:
        answer = transport.read(f"commits/{commit_id}")
        news = _news(transport, commit_id, answer.body)
        if news != told:
            tell(news)
            told = news
        if _has_ended(commit_id, answer.body):
            return answer
        if time.monotonic() > ends_at:
            raise CommitFailed(
                f"commit {commit_id} is still at it after {timeout_s:.0f} s: {news}",
                hint=f"it goes on by itself; look at it with `narthex commits {commit_id}`",
            )
        time.sleep(pause_s)


def _has_ended(commit_id: str, body: dict[str, Json]) -> bool:
    state, promotion = body.get("state"), body.get("promotion")
    if state in _FAILED:
        raise CommitFailed(
            f"commit {commit_id} is {str(state).lower()}: {_reason(body)}",
            hint="nothing of it stays; the branch reads what it read before",
        )
    if promotion == "SUPERSEDED":
        raise CommitFailed(
            f"commit {commit_id} does not serve: another commit took its place; {_reason(body)}"
        )
    return promotion == "DONE" or (state == "FINALIZED" and promotion is None)


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


def _news(transport: Caller, commit_id: str, body: dict[str, Json]) -> str:
    state = text_of(body, "state")
    if state == "APPLYING":
        return _applying(body)
    if state not in _COMMITTED or body.get("promotion") == "DONE":
        return state.lower()
    return f"{state.lower()}: {_waiting_for(transport, commit_id)}"


def _applying(body: dict[str, Json]) -> str:
    assets = body.get("assets")
    if not isinstance(assets, list):
        return "applying"
    live = sum(1 for asset in assets if isinstance(asset, dict) and asset.get("state") == "live")
    return f"creating assets, {live} of {len(assets)} live"


def _waiting_for(transport: Caller, commit_id: str) -> str:
    try:
        waiting = transport.read(f"commits/{commit_id}/readiness").body.get("waiting_for")
    except Refused:
        return "going on"
    if not isinstance(waiting, list) or not waiting:
        return "readers are about to flip"
    names = [f"{w.get('job')} ({w.get('phase')})" for w in waiting if isinstance(w, dict)]
    return f"waiting for {', '.join(names[:4])}" + (" …" if len(names) > 4 else "")  # noqa: PLR2004 (what fits a line)


def wait_for_answers(
    transport: Caller, request_id: str, *, timeout_s: float, pause_s: float
) -> None:
    """Wait until an offline query is done.

    Raises:
        CommitFailed: It failed, was cancelled, or is not done in time.
    """
    ends_at = time.monotonic() + timeout_s
    while True:
        body = transport.read("query_offline/status", {"request_id": request_id}).body
        status = text_of(body, "status")
        if status == "done":
            return
        if status in _OFFLINE_ENDS:
            raise CommitFailed(f"offline query {request_id} is {status}: {_reason(body)}")
        if time.monotonic() > ends_at:
            raise CommitFailed(f"offline query {request_id} is {status} after {timeout_s:.0f} s")
        time.sleep(pause_s)
