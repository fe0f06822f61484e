"""Calls of the server over HTTP: the only module that uses httpx."""

import asyncio
import base64
import hashlib
import json
import secrets
import time
from collections.abc import Generator, Mapping, Sequence
from typing import Final, Protocol, TypeAlias

import attrs
import httpx

from narthex._base.backoff import Backoff
from narthex._base.origin import Origin
from narthex._base.records import Json
from narthex._base.trace_context import trace_headers
from narthex._server_calls.call_spans import Note, call_span
from narthex._server_calls.responses import Response
from narthex.errors import (
    AnswerNotUnderstood,
    DefinitionError,
    NarthexError,
    Refused,
    Unreachable,
    catalogue,
    raise_all,
)

API: Final = "/api/v1"
TIMEOUT_S: Final = 600.0
CONNECT_TIMEOUT_S: Final = 10.0
ATTEMPTS: Final = 3
RETRIES: Final = Backoff(first_s=0.4, greatest_s=0.8)
LONGEST_PAUSE_S: Final = 5
"""The longest time after which a request that an overloaded server refused is sent again."""

_TOO_MANY: Final = 429
_OK: Final = range(200, 300)

Body: TypeAlias = "Json | bytes"
"""JSON, or bytes that are sent unchanged."""

Parameters: TypeAlias = Mapping[str, "str | int | Sequence[str]"]
"""The parameters of an address; one with several texts is repeated."""


@attrs.frozen(kw_only=True)
class Request:
    """One request as it is sent."""

    verb: str
    url: str
    parameters: Parameters
    content: bytes | None
    headers: Mapping[str, str]


Step: TypeAlias = "Request | float"
"""A request to send, or seconds to wait."""

Sent: TypeAlias = "httpx.Response | None"
"""The answer to a request; none to a pause."""

Exchange: TypeAlias = Generator[Step, Sent, Response]

_TIMEOUT: Final = httpx.Timeout(TIMEOUT_S, connect=CONNECT_TIMEOUT_S)


class Caller(Protocol):
    """The interface through which a client calls the server: over HTTP, or in process."""

    branch: str
    """The branch of all calls."""

    def read(self, path: str, parameters: Parameters | None = None) -> Response:
        """Send a request that changes nothing."""

    def send(
        self,
        path: str,
        body: Body = None,
        *,
        parameters: Parameters | None = None,
        key: str = "",
        verb: str = "POST",
    ) -> Response:
        """Send JSON or raw bytes; with a `key`, the request can be retried and runs once."""

    def close(self) -> None:
        """Release its resources."""


@attrs.frozen(kw_only=True)
class Server:
    """One server, with the token and the branch of a call: what calls are on the wire."""

    url: str
    token: str
    branch: str

    def exchange(
        self,
        verb: str,
        path: str,
        *,
        body: Body = None,
        parameters: Parameters | None = None,
        key: str = "",
    ) -> Exchange:
        """Yield requests to send, and seconds to wait between them; return the response.

        A request that fails without an answer is sent again if it takes effect only once, and one
        that an overloaded server refused after the pause that it names.
        """
        content = body if isinstance(body, bytes) else _rendered(body)
        headers = self._headers(key, is_raw=isinstance(body, bytes))
        if verb != "GET":
            headers |= {"content-digest": digest_of(content)}
        request = Request(
            verb=verb,
            url=f"{self.url.rstrip('/')}{API}/{path.lstrip('/')}",
            parameters=dict(parameters or {}),
            content=None if verb == "GET" else content,
            headers=headers,
        )
        # A request with a key takes effect once, however often it is sent.
        attempts = ATTEMPTS if key or verb == "GET" else 1
        try:
            answer = yield from _answered(request, attempts)
            for _ in range(ATTEMPTS - 1):
                if (pause_s := _pause_s(answer)) is None:
                    break
                yield pause_s
                answer = yield from _answered(request, attempts)
            return _response(answer)
        except httpx.HTTPError as error:
            raise Unreachable(
                f"`{self.url}` cannot be reached: {error}",
                hint="start the platform with `narthex up`, or give another address",
            ) from error

    def _headers(self, key: str, *, is_raw: bool) -> dict[str, str]:
        headers = {
            "x-narthex-branch": self.branch,
            "content-type": "application/octet-stream" if is_raw else "application/json",
        }
        if self.token:
            headers["authorization"] = f"Bearer {self.token}"
        headers |= trace_headers()
        return headers | ({"idempotency-key": key} if key else {})


def _answered(request: Request, attempts: int) -> Generator[Step, Sent, httpx.Response]:
    """Yield a request until it is answered; return the answer.

    Raises:
        httpx.HTTPError: None of the attempts was answered.
    """
    delays = RETRIES.delays(most=attempts)
    next(delays)
    while True:
        try:
            answer = yield request
        except httpx.HTTPError:
            delay_s = next(delays, None)
            if delay_s is None:
                raise
            yield delay_s
        else:
            assert answer is not None  # noqa: S101 - only a pause has none
            return answer


@attrs.define(eq=False)
class Transport:
    """One server, with the token and the branch of every call."""

    url: str
    token: str
    branch: str
    _http: httpx.Client = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Open the connection pool; send nothing yet."""
        self._http = httpx.Client(timeout=_TIMEOUT, transport=httpx.HTTPTransport(retries=1))

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def read(self, path: str, parameters: Parameters | None = None) -> Response:
        """Send a request that changes nothing.

        Raises:
            Unreachable: The server cannot be reached.
            Refused: The server refused the request.
        """
        return self._call("GET", path, parameters=parameters)

    def send(
        self,
        path: str,
        body: Body = None,
        *,
        parameters: Parameters | None = None,
        key: str = "",
        verb: str = "POST",
    ) -> Response:
        """Send JSON or raw bytes; with a `key`, the request can be retried and runs once.

        Raises:
            Unreachable: The server cannot be reached.
            Refused: The server refused the request.
            DefinitionErrors: The server refused definitions, with one error per mistake.
        """
        return self._call(verb, path, body=body, parameters=parameters, key=key)

    def _call(
        self,
        verb: str,
        path: str,
        *,
        body: Body = None,
        parameters: Parameters | None = None,
        key: str = "",
    ) -> Response:
        server = Server(url=self.url, token=self.token, branch=self.branch)
        exchange = server.exchange(verb, path, body=body, parameters=parameters, key=key)
        with call_span(verb, self.url, path) as note:
            return self._exchanged(exchange, note)

    def _exchanged(self, exchange: Exchange, note: Note) -> Response:
        try:
            step = next(exchange)
            while True:
                try:
                    answer = self._taken(step)
                except httpx.HTTPError as error:
                    step = exchange.throw(error)
                else:
                    note(answer)
                    step = exchange.send(answer)
        except StopIteration as ended:
            return _returned(ended)

    def _taken(self, step: Step) -> Sent:
        if isinstance(step, Request):
            return self._http.request(
                step.verb,
                step.url,
                params=dict(step.parameters),
                content=step.content,
                headers=step.headers,
            )
        time.sleep(step)
        return None


@attrs.define(eq=False)
class AsyncTransport:
    """One server, called from a loop of asyncio; any number of calls at once."""

    url: str
    token: str
    branch: str
    _http: httpx.AsyncClient = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Open the connection pool; send nothing yet."""
        self._http = httpx.AsyncClient(
            timeout=_TIMEOUT, transport=httpx.AsyncHTTPTransport(retries=1)
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def send(self, path: str, body: Body = None, *, key: str = "") -> Response:
        """Send JSON; with a `key`, the request can be retried and runs once.

        Raises:
            Unreachable: The server cannot be reached.
            Refused: The server refused the request.
        """
        server = Server(url=self.url, token=self.token, branch=self.branch)
        exchange = server.exchange("POST", path, body=body, key=key)
        with call_span("POST", self.url, path) as note:
            return await self._exchanged(exchange, note)

    async def _exchanged(self, exchange: Exchange, note: Note) -> Response:
        try:
            step = next(exchange)
            while True:
                try:
                    answer = await self._taken(step)
                except httpx.HTTPError as error:
                    step = exchange.throw(error)
                else:
                    note(answer)
                    step = exchange.send(answer)
        except StopIteration as ended:
            return _returned(ended)

    async def _taken(self, step: Step) -> Sent:
        if isinstance(step, Request):
            return await self._http.request(
                step.verb,
                step.url,
                params=dict(step.parameters),
                content=step.content,
                headers=step.headers,
            )
        await asyncio.sleep(step)
        return None


def _returned(ended: StopIteration) -> Response:
    found: object = ended.value
    assert isinstance(found, Response)  # noqa: S101 - what an exchange returns
    return found


def digest_of(content: bytes) -> str:
    """Return the header `Content-Digest` of a body, in the format of RFC 9530."""
    digest = base64.b64encode(hashlib.sha256(content).digest()).decode()
    return f"sha-256=:{digest}:"


def _pause_s(answer: httpx.Response) -> float | None:
    """Return the seconds after which a request that an overloaded server refused is sent again.

    None if it was not refused, or for another reason, or if the pause would be too long.
    """
    given = answer.headers.get("retry-after", "")
    if answer.status_code != _TOO_MANY or not given.isdigit() or int(given) > LONGEST_PAUSE_S:
        return None
    # Those that were refused together do not come again together.
    return int(given) * (0.5 + secrets.SystemRandom().random())


def _rendered(body: Json) -> bytes:
    return json.dumps({} if body is None else body, separators=(",", ":")).encode()


def _response(answer: httpx.Response) -> Response:
    body = _body(answer)
    if answer.status_code not in _OK:
        raise _refusal(answer.status_code, body)
    return Response(status_code=answer.status_code, headers=dict(answer.headers.items()), body=body)


def _body(answer: httpx.Response) -> dict[str, Json]:
    try:
        body = answer.json() if answer.content else {}
    except ValueError:
        return {"err_msg": answer.text.strip()[:500]}
    return body if isinstance(body, dict) else {"items": body}


def _refusal(status: int, body: dict[str, Json]) -> NarthexError:
    errors = body.get("errors")
    if isinstance(errors, list):
        raise_all([e for e in map(_mistake, errors) if e is not None])
    message = body.get("err_msg") or body.get("detail") or f"status {status}"
    return Refused(str(message), status_code=status, detail=body.get("detail"))


def _mistake(plain: object) -> DefinitionError | None:
    """Parse one definition error of the server; None if it has another format."""
    match plain:
        case {
            "code": str(code),
            "message": str(message),
            "file": str(file),
            "line": int(line),
            "hint": str(hint),
        }:
            cls = catalogue().get(code, DefinitionError)
            if not issubclass(cls, DefinitionError):
                cls = DefinitionError
            return cls(message, origin=Origin(file=file, line=line), hint=hint)
        case _:
            return None


def text_of(body: Mapping[str, Json], name: str) -> str:
    """Return a text field of a response.

    Raises:
        AnswerNotUnderstood: The field is missing.
    """
    found = body.get(name)
    if not isinstance(found, str):
        raise AnswerNotUnderstood(f"the answer has no `{name}`")
    return found
