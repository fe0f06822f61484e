"""The platform's API as Airflow's tasks, triggers and pages see it: steps posted, states read.

Airflow holds no database address of the platform's: a task posts one idempotent step with a
token, and whoever else takes the same steps (a recovery loop, a person) does no harm.
"""

import ssl
from collections.abc import Mapping
from typing import TypeAlias

import attrs
import httpx

from narthex.settings import Settings, load_settings

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

TIMEOUT_S = 60.0


class StepRefused(RuntimeError):
    """The platform says no, for good: the commit's state forbids the step, or a mistake."""


class StepDeferredError(RuntimeError):
    """The platform says: not now, ask again."""


@attrs.frozen(kw_only=True)
class Platform:
    """The server's API, with the token that this process's environment names."""

    settings: Settings

    @property
    def headers(self) -> dict[str, str]:
        """What every call carries."""
        return {"Authorization": f"Bearer {self.settings.token}"}

    @property
    def certificates(self) -> ssl.SSLContext | bool:
        """What a call trusts: to read all of the machine's takes longer than a call without."""
        return ssl.create_default_context() if self.url("").startswith("https:") else False

    def url(self, path: str) -> str:
        """Return the address of a path of the API."""
        return f"{self.settings.server_url}/api/v1/{path}"

    def step(self, commit_id: str, step: str) -> dict[str, Json]:
        """Take one step of a commit; taking it again gives the same.

        Raises:
            StepDeferredError: Something that it needs is not there yet, or the server is not.
            StepRefused: It can never be taken now.
        """
        return self.ask(f"commits/{commit_id}/steps/{step}")

    def ask(self, path: str) -> dict[str, Json]:
        """Ask for a piece of work; asking again gives the same.

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
            StepRefused: It refuses.
        """
        return self._call("POST", path, json=dict(body), headers=dict(headers or {}))

    def read(self, path: str, *, query: Mapping[str, str] | None = None) -> Json:
        """Read a path of the API.

        Raises:
            StepDeferredError: The server does not answer.
            StepRefused: There is no such thing.
        """
        return self._call("GET", path, params=query)

    def _call(
        self,
        method: str,
        path: str,
        *,
        json: Mapping[str, Json] | None = None,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Json]:
        try:
            answer = httpx.request(
                method,
                self.url(path),
                json=json,
                params=params,
                headers=self.headers | dict(headers or {}),
                timeout=TIMEOUT_S,
                verify=self.certificates,
            )
        except httpx.TransportError as error:
            raise StepDeferredError(f"the server does not answer: {error}") from error
        return _parse(answer)


def platform() -> Platform:
    """Return the platform that this process's environment names."""
    return Platform(settings=load_settings())


def _parse(answer: httpx.Response) -> dict[str, Json]:
    body = answer.json() if answer.content else {}
    if answer.is_success:
        return body if isinstance(body, dict) else {"items": body}
    message = body.get("err_msg", answer.text) if isinstance(body, dict) else answer.text
    if answer.status_code in {409, 425, 429, 502, 503, 504}:
        raise StepDeferredError(str(message))
    raise StepRefused(str(message))
