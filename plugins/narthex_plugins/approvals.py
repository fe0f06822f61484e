"""Approvals: Airflow asks a person, and the ledger records who approved when."""

import datetime as dt

from airflow.exceptions import AirflowFailException
from airflow.providers.standard.exceptions import HITLRejectException
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException
from typing_extensions import override

from narthex_plugins.operators import take_step, waits_for_a_person
from narthex_plugins.platform_client import Json, StepDeferredError, StepRefused, platform

_BODY = "Its jobs have caught up. Its plan and its ledger are in the tab `Ledger`."


_COMPARED_WITHIN_S = 300.0


class PersonApproves(ApprovalOperator):
    """Waits for a person if the branch is protected; is skipped if it is not.

    The ledger records the person who answers in Airflow. A rejection fails the run, and its
    teardown undoes the commit. An answer within a second or two of the question can fail the task:
    Airflow then learns that the question is over after the task has continued, and takes the task
    for dead. The task is retried, and finds the answer that was given.
    """

    template_fields = (*ApprovalOperator.template_fields, "commit_id")

    def __init__(self, *, commit_id: str, **rest: object) -> None:
        """Ask for approval of one commit."""
        super().__init__(
            subject=f"Let readers read commit {commit_id}?",
            body=_BODY,
            fail_on_reject=True,
            retries=3,
            retry_delay=dt.timedelta(seconds=2),
            doc_md=PersonApproves.__doc__,
            **rest,
        )
        self.commit_id = commit_id

    @override
    def execute(self, context: Context) -> object:
        commit = platform().read(f"commits/{self.commit_id}")
        if not waits_for_a_person(commit):
            self._end_without_a_question(commit)
            return None
        if context["ti"].try_number > 1 and self._was_approved():
            return None
        self._compare()
        known = platform().read(f"commits/{self.commit_id}")
        self.body = "\n".join([_BODY, *_warnings(known), *_differences(known)])
        return super().execute(context)

    def _compare(self) -> None:
        """Let the platform compare values, so that the question has the changes of the commit.

        The question is asked without them if they are not known in time.
        """
        try:
            take_step(self.commit_id, "compare", within_s=_COMPARED_WITHIN_S)
        except StepDeferredError as late:
            self.log.info("%s; the question is asked without the differences", late)

    def _end_without_a_question(self, commit: Json) -> None:
        """Succeed if a person has approved the commit elsewhere.

        Raises:
            AirflowFailException: A person has rejected it elsewhere.
            AirflowSkipException: Commits of the branch need no approval.
        """
        match commit:
            case {"approval": {"by": str(name)}}:
                self.log.info("%s has approved the commit already", name)
            case {"approval": {"rejected": {"by": str(name)}}}:
                raise AirflowFailException(f"{name} has rejected the commit")
            case _:
                raise AirflowSkipException("commits of this branch need no approval")

    def _was_approved(self) -> bool:
        """Return whether a person answered the question of an earlier try with approval.

        Raises:
            AirflowFailException: A person rejected the commit.
        """
        try:
            take_step(self.commit_id, "approved", within_s=0.0)
        except StepDeferredError:
            return False
        except StepRefused as refused:
            raise AirflowFailException(str(refused)) from refused
        return True

    @override
    def execute_complete(self, context: Context, event: dict[str, Json]) -> object:
        try:
            answer = super().execute_complete(context, event)
        except HITLRejectException as rejected:
            raise AirflowFailException("rejected") from rejected
        # The platform asks Airflow itself who has answered: anyone could forge a task's report.
        take_step(self.commit_id, "approved", within_s=60.0)
        return answer


def _differences(commit: Json) -> list[str]:
    """Return a line for each dataset of which the commit changes the values that readers read."""
    match commit:
        case {"approval": {"differences": list(differences)}} if differences:
            return ["", "It changes values:", "", *(f"- {one}" for one in differences)]
        case _:
            return []


def _warnings(commit: Json) -> list[str]:
    """Return the lines about expectations that the commit's rows break."""
    match commit:
        case {"approval": {"warnings": list(warnings)}} if warnings:
            return ["", "Its rows break expectations:", "", *(f"- {one}" for one in warnings)]
        case _:
            return []
