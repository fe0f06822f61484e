"""The forms by which a person approves or rejects a commit, on the page that shows its plan."""

import enum
import hashlib
import json
from collections.abc import Callable
from typing import Annotated, Final, TypeAlias
from uuid import UUID

import attrs
from fastapi import APIRouter, Depends, Form, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from narthex._base import Json
from narthex_ledger import LedgerRefused
from narthex_server.commits import commit_plans, commits, rollbacks
from narthex_server.commits.commit_blockers import has_ended
from narthex_server.commits.commits import CommitDep
from narthex_server.commits.responses import Approval, CommitChanges, CommitDetails
from narthex_server.commits.rollbacks import Reason, RejectCall
from narthex_server.console.page_routes import Location, PageRoute
from narthex_server.console.rendering import PageLocation, page
from narthex_server.errors import Conflicting, Forbidden
from narthex_server.security.dataset_access import Access
from narthex_server.security.request_access import AccessDep
from narthex_server.security.request_identity import IdentityDep, RequestIdentity
from narthex_server.security.route_rights import Right, requires, requires_own_form
from narthex_server.services.container import Services, ServicesDep

router = APIRouter(prefix="/console", route_class=PageRoute)
READ = requires(Right.READ_DEFINITIONS)
DECIDE = requires_own_form(Right.APPROVE)

CONFLICT: Final = 409

CHANGED: Final = (
    "Nothing was decided: the plan, or a check of it, differs from what your page showed. Read "
    "what is below, and decide again."
)


class DecisionPart(enum.StrEnum):
    """The content of the part of a commit's page in which a person decides."""

    NONE = "none"
    """Nothing: the commit waits for nobody."""
    BUTTONS = "buttons"
    EMBEDDED = "embedded"
    """No buttons: the page is inside Airflow, and Airflow's token may not approve."""
    NO_RIGHT = "no right"
    HIDDEN = "hidden"
    """No buttons: the page cannot show all changes."""
    RELOADING = "reloading"
    """No buttons: the page reloads by itself, so a click could be on an unread plan."""


@attrs.frozen(kw_only=True)
class ShownCommit:
    """A commit as its page shows it."""

    commit: CommitDetails
    planned: CommitChanges

    @property
    def sha256(self) -> str:
        """The digest of what a person decides on: the plan, its effects, and its checks."""
        plan, approval = self.planned["plan"], self.commit["approval"]
        parts: Json = {
            "commit": self.commit["commit_id"],
            "plan": None if plan is None else plan["plan_sha256"],
            "changes": [*(self.planned["changes"] or ())],
            "warnings": [*approval["warnings"]],
            "differences": [*approval["differences"]],
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def decision(self, place: PageLocation, access: Access, *, live: bool) -> DecisionPart:
        """Return whether a person may decide on the page, or else why not."""
        if not self.commit["approval"]["needed"]:
            return DecisionPart.NONE
        if place.embedded:
            return DecisionPart.EMBEDDED
        if Right.APPROVE not in access.principal.rights:
            return DecisionPart.NO_RIGHT
        if self.planned["changes"] is None:
            return DecisionPart.HIDDEN
        return DecisionPart.RELOADING if live else DecisionPart.BUTTONS


async def _shown_commit(
    commit: Annotated[CommitDetails, Depends(commits.commit_of)],
    planned: Annotated[CommitChanges, Depends(commit_plans.plan_of)],
) -> ShownCommit:
    return ShownCommit(commit=commit, planned=planned)


ShownCommitDep: TypeAlias = Annotated[ShownCommit, Depends(_shown_commit)]


def commit_page(
    place: PageLocation,
    access: Access,
    shown: ShownCommit,
    *,
    live: bool = False,
    whole: bool = False,
    refusal: str = "",
) -> HTMLResponse:
    """Render the page of a commit, with buttons for a person who may decide about it.

    A `refusal` is the reason why the person's decision was not taken.
    """
    ended = has_ended(shown.commit)
    values = {
        **shown.planned,
        "commit": shown.commit,
        "ended": ended,
        "live": live,
        "whole": whole,
        "refusal": refusal,
        "decision": shown.decision(place, access, live=live).value,
        "shown_sha256": shown.sha256,
    }
    status = CONFLICT if refusal else 200
    return page("commit", place, values, refresh=live and not ended, status=status)


@attrs.frozen(kw_only=True)
class SentForm:
    """A form that a person has sent from the page of a commit.

    Attributes:
        shown: The commit as it is now.
        shown_sha256: The digest of what the page showed.
    """

    place: PageLocation
    services: Services
    access: Access
    caller: RequestIdentity
    shown: ShownCommit
    shown_sha256: str

    @property
    def commit_id(self) -> UUID:
        """The commit that the form is about."""
        return UUID(self.shown.commit["commit_id"])

    def answer(self, decision: str, decide: Callable[[], Approval]) -> Response:
        """Take the person's decision, `approved` or `rejected`.

        The answer leads to the page of the commit, or is that page with the reason against it.

        Raises:
            Forbidden: The page was inside Airflow.
        """
        if self.place.embedded:
            raise Forbidden("a page inside Airflow decides nothing; answer its run's question")
        if not self.shown.commit["approval"]["needed"]:
            return self._outcome(decision, self.shown)
        if self.shown_sha256 != self.shown.sha256:
            return commit_page(self.place, self.access, self.shown, refusal=CHANGED)
        try:
            decide()
        except (Conflicting, LedgerRefused) as error:
            return self._outcome(decision, self._as_it_is_now(), why=str(error))
        return self._outcome(decision, self._as_it_is_now())

    def _outcome(self, decision: str, now: ShownCommit, *, why: str = "") -> Response:
        """Answer with the decision that counts, which may be that of another person."""
        approval = now.commit["approval"]
        rejected = approval["rejected"]
        decided = (rejected["by"], "rejected") if rejected else (approval["by"], "approved")
        if decided == (self.caller.actor, decision):
            address = self.place.to("commits", self.commit_id, branch=now.commit["branch"])
            return RedirectResponse(address, status_code=303)
        if decided[0] is not None:
            why = f"{decided[0]} has {decided[1]} this commit already."
        elif not why:
            state = now.commit["promotion"] or now.commit["state"]
            why = f"This commit does not wait for an approval; it is {state}."
        return commit_page(self.place, self.access, now, refusal=why)

    def _as_it_is_now(self) -> ShownCommit:
        services, access = self.services, self.access
        view = services.ledger.commits.get(self.commit_id)
        return ShownCommit(
            commit=commits.commit_of(view, services, access),
            planned=commit_plans.plan_of(view, services.ledger, access, services.comparisons),
        )


async def _sent_form(
    location: Location,
    services: ServicesDep,
    access: AccessDep,
    caller: IdentityDep,
    now: ShownCommitDep,
    shown: Annotated[str, Form(max_length=64)],
) -> SentForm:
    return SentForm(
        place=location,
        services=services,
        access=access,
        caller=caller,
        shown=now,
        shown_sha256=shown,
    )


SentFormDep: TypeAlias = Annotated[SentForm, Depends(_sent_form)]


@router.get("/commits/{commit_id}/approve", dependencies=[READ])  # noqa: FAST003 - as its commit
@router.get("/commits/{commit_id}/reject", dependencies=[READ])
def to_commit(request: Request, location: Location, view: CommitDep) -> Response:
    """Lead to the page of a commit, as a link of a page that refused a form asks for it."""
    address = f"{location.root}console/commits/{view.commit_id}?{request.url.query}"
    return RedirectResponse(address, status_code=303)


@router.post("/commits/{commit_id}/approve", dependencies=[DECIDE])  # noqa: FAST003 - as its commit
def approve(form: SentFormDep) -> Response:
    """Approve a commit as its page showed it; the first decision counts."""
    services = form.services

    def decide() -> Approval:
        return rollbacks.approve(
            form.commit_id, services.ledger, services.recovery, form.caller, form.access
        )

    return form.answer("approved", decide)


@router.post("/commits/{commit_id}/reject", dependencies=[DECIDE])  # noqa: FAST003 - as its commit
def reject(form: SentFormDep, reason: Annotated[Reason, Form()] = "") -> Response:
    """Reject a commit as its page showed it; the first decision counts."""
    services, call = form.services, RejectCall(reason=reason)

    def decide() -> Approval:
        return rollbacks.reject(
            form.commit_id, call, services.ledger, services.recovery, form.caller, form.access
        )

    return form.answer("rejected", decide)
