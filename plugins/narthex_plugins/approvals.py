"""A person lets readers flip: Airflow asks and knows who answers, the ledger keeps who and when."""

import datetime as dt

from airflow.exceptions import AirflowFailException
from airflow.providers.standard.exceptions import HITLRejectException
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Context
from typing_extensions import override

from narthex_plugins.operators import take_step, waits_for_a_person
from narthex_plugins.platform import Json, StepDeferredError, platform


class PersonApproves(ApprovalOperator):
    """Wait for a person where the branch is protected; go on at once where it is not.

    Whoever answers in Airflow is named in the ledger. A rejection fails the run, and its teardown
    takes the commit back. An answer within a second or two of the question can fail the task:
    Airflow then hears that the question is over after the task has gone on, and takes it for
    dead. It is tried again, and finds the approval that was given; a rejection it asks for again.
    """

    template_fields = (*ApprovalOperator.template_fields, "commit_id")

    def __init__(self, *, commit_id: str, **rest: object) -> None:
        """Ask about one commit."""
        super().__init__(
            subject="Let readers read commit {{ params.commit_id }}?",
            body="Its jobs have caught up. Its plan and its ledger are in the tab `Ledger`.",
            fail_on_reject=True,
            retries=3,
            retry_delay=dt.timedelta(seconds=2),
            **rest,
        )
        self.commit_id = commit_id

    @override
    def execute(self, context: Context) -> object:
        if not waits_for_a_person(platform().read(f"commits/{self.commit_id}")):
            return None
        if context["ti"].try_number > 1 and self._is_approved():
            return None
        return super().execute(context)

    def _is_approved(self) -> bool:
        """Whether a person has approved when an earlier try asked."""
        try:
            take_step(self.commit_id, "approved", within_s=0.0)
        except StepDeferredError:
            return False
        return True

    @override
    def execute_complete(self, context: Context, event: dict[str, Json]) -> object:
        try:
            answer = super().execute_complete(context, event)
        except HITLRejectException as rejected:
            raise AirflowFailException("rejected") from rejected
        # The platform asks Airflow itself who has answered: a task's word would be anybody's.
        take_step(self.commit_id, "approved", within_s=60.0)
        return answer
