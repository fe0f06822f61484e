"""The client of the platform's API for Airflow's tasks, triggers and pages.

Airflow has no address of the platform's database: a task posts one idempotent step with a token,
and others that take the same steps (a recovery loop, a person) do no harm.
"""

import re
import ssl
from collections.abc import Collection, Mapping
from typing import Final, TypeAlias
from urllib.parse import quote

import attrs
import httpx
from airflow.sdk import BaseHook, Connection, get_current_context
from airflow.sdk.exceptions import AirflowNotFoundException

from narthex._base import TRACEPARENT, trace_headers
from narthex.settings import HomeOpenToOthersError, NotInstalledError, load_settings

CONNECTION: Final = "narthex_default"
"""The connection that the tasks use where their process has no settings of an installation."""

PORT: Final = 8400

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

TIMEOUT_S = 60.0

_TRACEPARENT: Final = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")

DEFERRED: Final = frozenset({409, 425, 429, 502, 503, 504})
"""The statuses of answers after which a retry may succeed."""
CONFLICT: Final = 409
NOT_FOUND: Final = 404


class StepRefused(RuntimeError):
    """The platform refuses permanently: the commit's state forbids the step, or a mistake."""


class AbsentError(StepRefused):
    """The platform has nothing at that path."""


class StepDeferredError(RuntimeError):
    """The platform cannot take the step now; retry."""


def is_deferred(error: Exception) -> bool:
    """Return whether a retry may succeed."""
    return isinstance(error, StepDeferredError)


@attrs.frozen(kw_only=True)
class Platform:
    """The server's API.

    Attributes:
        server_url: The address of the server, without a path.
        token: The token of every call.
    """

    server_url: str
    token: str = attrs.field(repr=False)

    @property
    def headers(self) -> dict[str, str]:
        """The headers of every call."""
        return {"Authorization": f"Bearer {self.token}"}

    @property
    def certificates(self) -> ssl.SSLContext | bool:
        """The certificates that calls trust; loading the machine's own takes longer than a call."""
        return ssl.create_default_context() if self.url("").startswith("https:") else False

    def url(self, path: str) -> str:
        """Return the address of a path of the API."""
        return f"{self.server_url}/api/v1/{path}"

    def step(self, commit_id: str, step: str) -> dict[str, Json]:
        """Take one step of a commit; a repeated step returns the same answer.

        Raises:
            StepDeferredError: Something that it needs is not there yet, or the server is not.
            StepRefused: It can never be taken now.
        """
        return self.ask(f"commits/{commit_id}/steps/{step}")

    def ask(self, path: str) -> dict[str, Json]:
        """Request a piece of work; a repeated request returns the same answer.

        Raises:
            StepDeferredError: Something that it needs is not there yet, or the server is not.
            StepRefused: It can never be done now.
        """
        return self._call("POST", path)

    def send(
        self, path: str, body: Mapping[str, Json], *, headers: Mapping[str, str] | None = None
    ) -> dict[str, Json]:
        """Post to a path of the API.

        Raises:
            StepDeferredError: The server does not answer.
            StepRefused: The server refuses.
        """
        return self._call("POST", path, body=dict(body), headers=dict(headers or {}))

    def commit_for_run(
        self, run_id: str, payload: bytes, terms: Mapping[str, str], *, branch: str, actor: str
    ) -> dict[str, Json]:
        """Commit a payload, or plan it, for the person who has triggered a run; repeatable.

        Raises:
            StepDeferredError: The server does not answer.
            StepRefused: The server refuses; the message has every mistake.
        """
        return self._call(
            "POST",
            f"runs/{quote(run_id, safe='')}/commit",
            body=payload,
            params=terms,
            headers={
                "Content-Type": "application/octet-stream",
                "X-Narthex-Branch": branch,
                "X-Narthex-Actor": actor,
            },
            deferred=DEFERRED - {CONFLICT},
        )

    def commit_of_run(self, run_id: str) -> dict[str, Json] | None:
        """Read the commit that a run has made or carries out; None if it has made none.

        Raises:
            StepDeferredError: The server does not answer.
        """
        try:
            return self.read(f"runs/{quote(run_id, safe='')}/commit")
        except AbsentError:
            return None

    def read(
        self, path: str, *, query: Mapping[str, str] | None = None, branch: str = "main"
    ) -> dict[str, Json]:
        """Read a path of the API, about a branch.

        Raises:
            StepDeferredError: The server does not answer.
            StepRefused: The path does not exist.
        """
        return self._call("GET", path, params=query, headers={"X-Narthex-Branch": branch})

    def _call(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Json] | bytes | None = None,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        deferred: Collection[int] = DEFERRED,
    ) -> dict[str, Json]:
        try:
            answer = httpx.request(
                method,
                self.url(path),
                json=None if isinstance(body, bytes) else body,
                content=body if isinstance(body, bytes) else None,
                params=params,
                headers=self.headers | trace_of_run() | dict(headers or {}),
                timeout=TIMEOUT_S,
                verify=self.certificates,
            )
        except httpx.TransportError as error:
            raise StepDeferredError(f"the server does not answer: {error}") from error
        return _parse(answer, deferred)


def trace_of_run() -> dict[str, str]:
    """Return the headers by which a task's call joins a trace; none if there is none.

    It is the trace of the call that made the commit of the run, or else that of Airflow's own span
    of the task.
    """
    try:
        conf = get_current_context()["dag_run"].conf or {}
    except RuntimeError:  # outside of a task
        conf = {}
    found = conf.get(TRACEPARENT)
    # Anyone who may trigger the DAG writes the conf of a run.
    if isinstance(found, str) and _TRACEPARENT.fullmatch(found):
        return {TRACEPARENT: found}
    return trace_headers()


def platform() -> Platform:
    """Return the platform of this process's settings, or else of the connection `narthex_default`.

    Raises:
        NotInstalledError: There are neither.
    """
    try:
        return _of_settings()
    except HomeOpenToOthersError:
        raise
    except NotInstalledError:
        pass
    try:
        return _of_connection(BaseHook.get_connection(CONNECTION))
    except AirflowNotFoundException:
        raise NotInstalledError(_NO_PLATFORM) from None


async def platform_of_loop() -> Platform:
    """Return the same as `platform`, for callers in an event loop.

    Raises:
        NotInstalledError: There are neither.
    """
    try:
        return _of_settings()
    except HomeOpenToOthersError:
        raise
    except NotInstalledError:
        pass
    try:
        return _of_connection(await BaseHook.aget_connection(CONNECTION))
    except AirflowNotFoundException:
        raise NotInstalledError(_NO_PLATFORM) from None


_NO_PLATFORM: Final = (
    f"Airflow has no connection `{CONNECTION}`; add one of the type `narthex`, with the address of "
    "your server and a token with the role `dags`"
)


def _of_settings() -> Platform:
    settings = load_settings()
    return Platform(server_url=settings.server_url, token=settings.token)


def _of_connection(connection: Connection) -> Platform:
    return Platform(server_url=url_of(connection), token=connection.password or "")


def url_of(connection: Connection) -> str:
    """Return the URL of the server that a connection names, without a path."""
    host = connection.host or "localhost"
    if "://" in host:
        port = f":{connection.port}" if connection.port else ""
        return f"{host.rstrip('/')}{port}"
    return f"{connection.schema or 'http'}://{host}:{connection.port or PORT}"


def _parse(answer: httpx.Response, deferred: Collection[int]) -> dict[str, Json]:
    body = answer.json() if answer.content else {}
    if answer.is_success:
        return body if isinstance(body, dict) else {"items": body}
    message = body.get("err_msg", answer.text) if isinstance(body, dict) else answer.text
    if answer.status_code in deferred:
        raise StepDeferredError(str(message))
    if answer.status_code == NOT_FOUND:
        raise AbsentError(str(message))
    raise StepRefused(str(message))
