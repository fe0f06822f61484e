"""The client of Airflow, which sequences commits; no commit needs it in order to end."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

import httpx
import structlog

from narthex._base import TRACEPARENT, Json
from narthex.settings import Settings
from narthex_ledger import CommitKind, CommitView

log = structlog.get_logger()

TIMEOUT_S = 10.0
ACCEPTED = frozenset({200, 201, 409})
"""409: the run already exists."""

APPROVE: Final = "Approve"
REJECT: Final = "Reject"
"""The answers to a run's question for approval."""

RUN_KEY: Final = "airflow commit "
"""How the idempotency key of a commit begins that a run has made; the id of the run follows.

No client can send such a key, so the key of a commit proves which run drives it.
"""


_FORM_KEY: Final = "airflow "
"""How the idempotency key of a request of another DAG begins; the id of its run follows."""

_FORMS: Final[Mapping[str, str]] = {
    CommitKind.ROLLBACK: "rollback",
    CommitKind.DELETE_BRANCH: "branch_delete",
}
"""The DAGs by which a person makes commits of these kinds."""


def key_of_run(run_id: str) -> str:
    """Return the idempotency key of the commit that a run of the DAG `commit` makes."""
    return f"{RUN_KEY}{run_id}"


def run_of(commit: CommitView) -> str:
    """Return the id of the run that drives a commit: the one that made it, else the commit's id."""
    key = commit.idempotency_key
    return key.removeprefix(RUN_KEY) if key.startswith(RUN_KEY) else str(commit.commit_id)


def run_id_of_key(key: str) -> str:
    """Return the id of the run of another DAG whose request has a key; empty if none has."""
    return key.removeprefix(_FORM_KEY) if key.startswith(_FORM_KEY) else ""


class Airflow:
    """Starts runs of the DAG `commit` through Airflow's REST API, and reads their state.

    Every call raises httpx's errors when Airflow does not answer, and PermissionError without a
    token.
    """

    def __init__(self, settings: Settings) -> None:
        """Connect to the Airflow that the settings name; an empty URL means that there is none."""
        self._settings = settings
        self._token: str | None = None
        # One client for all calls: creating one reads all certificates of the machine.
        self._client = httpx.Client(timeout=TIMEOUT_S)

    @property
    def there(self) -> bool:
        """Whether the settings name an Airflow."""
        return bool(self._settings.airflow_url)

    def read(self, path: str) -> Json:
        """Read a path of Airflow's API; None if it does not exist, or there is no Airflow.

        Raises:
            httpx.TransportError: Airflow does not answer.
            PermissionError: Airflow grants no token.
        """
        if not self.there:
            return None
        answer = self._call("GET", f"/api/v2/{path}")
        return _json_of(answer) if answer.is_success else None

    def run_url(self, commit: CommitView) -> str | None:
        """Return the address of the page of a commit's run; None if no run has to do with it.

        Runs of the DAG `commit` drive deployments. Other commits end at once, and have a run only
        if a person has triggered it.
        """
        run_id = run_of(commit)
        dag = "commit" if commit.kind == CommitKind.DEPLOY else ""
        if not dag and run_id_of_key(commit.idempotency_key):
            dag, run_id = _FORMS.get(commit.kind, ""), run_id_of_key(commit.idempotency_key)
        if not (self.there and dag):
            return None
        return f"{self._settings.airflow_url}/dags/{dag}/runs/{quote(run_id, safe='')}"

    def start(self, run_id: str, commit_id: str, *, traceparent: str = "") -> bool:
        """Start the run of a commit, unless it exists; return whether Airflow has it.

        The run's tasks send the `traceparent` with their calls.
        """
        conf = {"commit_id": commit_id} | ({TRACEPARENT: traceparent} if traceparent else {})
        body = {"dag_run_id": run_id, "logical_date": None, "conf": conf}
        answer = self._call("POST", "/api/v2/dags/commit/dagRuns", body)
        if answer.status_code not in ACCEPTED:
            log.warning("airflow_refused_run", commit_id=commit_id, status=answer.status_code)
        return answer.status_code in ACCEPTED

    def state(self, run_id: str) -> str | None:
        """Return the state of a run of the DAG `commit`; None if there is no run.

        The states are queued, running, success and failed.
        """
        match self.read(path_of_run(run_id)):
            case {"state": str(state)}:
                return state
            case _:
                return None

    def schedules(self) -> bool:
        """Return whether Airflow's scheduler is alive; without it, a `running` run is stuck."""
        match self.read("monitor/health"):
            case {"scheduler": {"status": "healthy"}}:
                return True
            case _:
                return False

    def answer_approval(self, run_id: str, option: str) -> None:
        """Answer a run's open question for approval: the ledger has the decision already."""
        path = f"/api/v2/{approval_of(run_id)}"
        self._call("PATCH", path, {"chosen_options": [option], "params_input": {}})

    def _call(
        self, method: str, path: str, body: Mapping[str, object] | None = None
    ) -> httpx.Response:
        answer = self._send(method, path, body)
        if answer.status_code == httpx.codes.UNAUTHORIZED:
            self._token = None
            answer = self._send(method, path, body)
        return answer

    def _send(self, method: str, path: str, body: Mapping[str, object] | None) -> httpx.Response:
        return self._client.request(
            method,
            f"{self._settings.airflow_url}{path}",
            json=body,
            headers={"Authorization": f"Bearer {self._bearer()}"},
        )

    def _bearer(self) -> str:
        if self._token is None:
            answer = self._client.post(
                f"{self._settings.airflow_url}/auth/token",
                json={
                    "username": self._settings.airflow_user,
                    "password": self._settings.airflow_password,
                },
            )
            if not answer.is_success:
                raise PermissionError(f"Airflow returned no token: {answer.status_code}")
            match _json_of(answer):
                case {"access_token": str(token)}:
                    self._token = token
                case _:
                    raise PermissionError("Airflow returned no token")
        return self._token


def _json_of(answer: httpx.Response) -> Json:
    """Return the body; a proxy before Airflow may answer with a page."""
    try:
        found: Json = answer.json()
    except ValueError as error:
        raise httpx.RemoteProtocolError("Airflow did not answer with JSON") from error
    return found


def path_of_run(run_id: str) -> str:
    """Return the path, below Airflow's API, of a run of the DAG `commit`."""
    return f"dags/commit/dagRuns/{quote(run_id, safe='')}"


def task_of(run_id: str) -> str:
    """Return the path, below Airflow's API, of the task of a run that asks for approval."""
    return f"{path_of_run(run_id)}/taskInstances/approve"


def approval_of(run_id: str) -> str:
    """Return the path, below Airflow's API, of the question that a run asks."""
    return f"{task_of(run_id)}/-1/hitlDetails"
