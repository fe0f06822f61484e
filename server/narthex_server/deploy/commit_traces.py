"""The trace of a commit: the steps that carry it out join the trace of the call that made it.

The ledger keeps the caller's `traceparent` in the opaque `request` of the commit, which no hash, no
signature and no fingerprint covers.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Final

from narthex._base import TRACEPARENT, Json, current_traceparent
from narthex_ledger import CommitKind, CommitView
from narthex_server.tracing import Tracing, is_traced

_UNTRACED: Final = nullcontext()


def current_trace() -> Json:
    """Return what a commit keeps of the trace that makes it; None outside of a trace."""
    return {TRACEPARENT: current_traceparent()} if is_traced() else None


def traceparent_of(commit: CommitView) -> str:
    """Return the `traceparent` of the call that made a commit; empty if it was not traced."""
    match commit.request:
        # Other kinds of commits take the request of an earlier one over.
        case {"traceparent": str(traceparent)} if commit.kind == CommitKind.DEPLOY:
            return traceparent
        case _:
            return ""


def tracing_commit(tracing: Tracing | None, commit: CommitView) -> AbstractContextManager[None]:
    """Carry out steps of a commit in its trace; in none, if there is none."""
    traceparent = "" if tracing is None else traceparent_of(commit)
    return tracing.continuing(traceparent) if tracing and traceparent else _UNTRACED
