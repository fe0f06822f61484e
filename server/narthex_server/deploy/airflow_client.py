"""Airflow as the one that sequences commits: asked to start a run, never needed to finish one."""

from collections.abc import Mapping

import httpx
import structlog

from narthex._base import Json
from narthex.settings import Settings

log = structlog.get_logger()

TIMEOUT_S = 10.0
ACCEPTED = frozenset({200, 201, 409})
"""409: the run exists already; its id is the commit's."""


class Airflow:
    """Starts runs of the DAG `commit` through Airflow's REST API, and asks after them.

    Every call raises what httpx does when nobody answers, and PermissionError without a token.
    """

    def __init__(self, settings: Settings) -> None:
        """Talk to the Airflow that the settings name; none is named when the URL is empty."""
        self._settings = settings
        self._token: str | None = None
        # One for all calls: to make one reads all certificates of the machine.
        self._client = httpx.Client(timeout=TIMEOUT_S)

    @property
    def there(self) -> bool:
        """Whether an Airflow is named at all."""
        return bool(self._settings.airflow_url)

    def read(self, path: str) -> Json:
        """Read a path of Airflow's API; None if it has no such thing, or there is no Airflow.

        Raises:
            httpx.TransportError: It does not answer.
            PermissionError: It gives us no token.
        """
        if not self.there:
            return None
        answer = self._call("GET", f"/api/v2/{path}")
        found: Json = answer.json() if answer.is_success else None
        return found

    def run_url(self, commit_id: str) -> str | None:
        """Return the page of a commit's run."""
        if not self.there:
            return None
        return f"{self._settings.airflow_url}/dags/commit/runs/{commit_id}"

    def start(self, commit_id: str) -> bool:
        """Start the run of a commit, or find that it is started; give whether Airflow has it."""
        body = {"dag_run_id": commit_id, "logical_date": None, "conf": {"commit_id": commit_id}}
        answer = self._call("POST", "/api/v2/dags/commit/dagRuns", body)
        if answer.status_code not in ACCEPTED:
            log.warning("airflow_refused_run", commit_id=commit_id, status=answer.status_code)
        return answer.status_code in ACCEPTED

    def state(self, commit_id: str) -> str | None:
        """Return the state of a commit's run: queued, running, success or failed; None if
        absent.
        """
        match self.read(f"dags/commit/dagRuns/{commit_id}"):
            case {"state": str(state)}:
                return state
            case _:
                return None

    def schedules(self) -> bool:
        """Whether Airflow's scheduler lives: without it a run that is called running stands."""
        match self.read("monitor/health"):
            case {"scheduler": {"status": "healthy"}}:
                return True
            case _:
                return False

    def answer_approval(self, commit_id: str) -> None:
        """Answer what a run asks a person, if it does: the ledger knows who has approved."""
        path = f"/api/v2/{approval_of(commit_id)}"
        self._call("PATCH", path, {"chosen_options": ["Approve"], "params_input": {}})

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
                raise PermissionError(f"Airflow gives no token: {answer.status_code}")
            self._token = str(answer.json()["access_token"])
        return self._token


def task_of(commit_id: str) -> str:
    """Return the path below Airflow's API of the task that asks a person about a commit."""
    return f"dags/commit/dagRuns/{commit_id}/taskInstances/approve"


def approval_of(commit_id: str) -> str:
    """Return the path below Airflow's API of what a commit's run asks a person."""
    return f"{task_of(commit_id)}/-1/hitlDetails"
