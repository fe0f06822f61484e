"""The ASGI application that answers reads, without a framework between them and the indexes.

A small query is answered at once on the event loop, because a hop to a thread costs more than the
answer. Queries that are large, wait for a service, or read a networked index are answered by
threads, which the tokens share; those that run authors' code by others, which the branches share.
When too many wait, or when the event loop is behind by more than `LATEST_S`, the next one is
refused.
"""

import asyncio
import datetime as dt
import time
from collections.abc import Mapping
from typing import Final, TypeAlias

import attrs
import msgspec
import structlog
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from narthex._base import Json
from narthex_ledger import ReadKind
from narthex_server.errors import (
    Conflicting,
    Forbidden,
    InvalidRequest,
    NotAuthenticated,
    RightMissing,
    TooManyRequests,
)
from narthex_server.reads.answers import Answerer, ReadAnswer
from narthex_server.reads.calls import QueryCall, decode_lookup, decode_query
from narthex_server.reads.contained_rows import ContainedRows, positions_of
from narthex_server.reads.fair_threads import FairThreads
from narthex_server.reads.services import ReadServices
from narthex_server.security.auth import narrowed
from narthex_server.security.principals import MAIN, Principal, named_branch
from narthex_server.security.request_checks import (
    AUTHORIZED_S,
    DisconnectedError,
    RequestRefusedError,
    address_of,
    read_body,
)
from narthex_server.security.route_rights import Right
from narthex_server.services.branch_snapshots import BranchSnapshot
from narthex_server.services.compartments import MOST_WORKERS
from narthex_server.services.compiled_queries import CompiledQuery
from narthex_server.tracing import ROUTE_KEY
from narthex_server.web.error_responses import FAILED, error_response
from narthex_server.web.path_names import PathNames
from narthex_server.web.refused_calls import RefusedCalls, told_address
from narthex_server.web.request_limits import (
    GREATEST_BODY_BYTES,
    Refusal,
    judge_head,
    judge_whole,
)

log = structlog.get_logger()

INLINE_VALUES: Final = 2_000
"""A query of at most so many values is answered on the event loop: within about a millisecond."""

THREADS: Final = 8
THREADS_EACH: Final = 4
"""How many of the threads the requests of one token may occupy."""

CODE_THREADS: Final = 2 * MOST_WORKERS
CODE_THREADS_EACH: Final = 2
"""How many threads the queries of one branch may occupy while authors' code runs.

A branch has one worker for each set of tags, so more of its queries would wait for it anyway.
"""

MOST_WAITING: Final = 64
"""How many requests may wait for a thread."""

LATEST_S: Final = 0.25
"""A request that the event loop begins later than this after others that came with it is refused.

The answers before it took so long; under a lasting overload, all requests would wait ever longer.
"""

AFTER_S: Final = 60.0
"""How long a query with `after` waits, unless it has a deadline; jobs report their positions each
second, or after an interval of Real-time Mode, which is ten seconds or more."""

AFTER_EVERY_S: Final = 0.1

LEDGER_THREADS: Final = 4
"""Threads of requests that need the ledger: the first ones of a token or a branch.

They are apart from the others, so that other requests do not wait while the ledger hangs.
"""

_UNKNOWN: Final = ""
"""The name under which tokens that are not known yet share threads."""

_INLINE_BYTES: Final = 64 * 1024
_QUERY: Final = "/api/v1/query"
_DATASET: Final = "/api/v1/dataset/"
_LOOKUP: Final = "/lookup"
_JSON: Final = (b"content-type", b"application/json")

RawHeaders: TypeAlias = Mapping[bytes, bytes]


@attrs.frozen(kw_only=True)
class _Response:
    status: int
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = (_JSON,)


@attrs.frozen(kw_only=True)
class _Caller:
    """The principal of a request, and the branch that it names."""

    principal: Principal
    branch: str


class ReadHandler:
    """Answers `/query` and lookups by key; passes other requests on.

    A request that is not authorized is passed on too, if there is an application that records it.
    """

    def __init__(
        self, services: ReadServices, *, otherwise: ASGIApp, refused: RefusedCalls | None = None
    ) -> None:
        """Create the handler without a thread.

        Args:
            services: What it reads with.
            otherwise: Answers other requests.
            refused: Counts what is not authorized; without it, `otherwise` refuses and records it.
        """
        self._services = services
        self._names = PathNames.of(services.settings)
        self._snapshots = services.snapshots
        self._answerer = Answerer(
            tenant=services.tenant,
            workers=services.workers,
            query_log=services.query_log,
            meters=services.meters,
            greatest_values=services.settings.reads_greatest_values,
        )
        self._otherwise = otherwise
        self._refused = refused
        self._threads = FairThreads(
            "reads", THREADS, most_waiting=MOST_WAITING, most_each=THREADS_EACH
        )
        self._code_threads = FairThreads(
            "reads-code", CODE_THREADS, most_waiting=MOST_WAITING, most_each=CODE_THREADS_EACH
        )
        self._ledger_threads = FairThreads(
            "reads-ledger",
            LEDGER_THREADS,
            most_waiting=2 * MOST_WAITING,
            most_each=LEDGER_THREADS // 2,
        )
        self._turn_began: float | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a read, or pass a request on."""
        is_read = scope["type"] == "http" and scope["method"] == "POST"
        route = _route_of(scope["path"]) if is_read else None
        if route is None:
            await self._otherwise(scope, receive, send)
            return
        scope[ROUTE_KEY] = route
        began = time.perf_counter()
        try:
            response = _TOO_MANY if self._is_late() else await self._respond(scope, receive)
        except DisconnectedError:
            return
        except (NotAuthenticated, Forbidden) as error:
            if self._refused is None:
                await self._otherwise(scope, receive, send)
                return
            response = self._failure(error)
            entry: dict[str, Json] = {"verb": "POST", "path": route, "status": response.status}
            address = told_address((scope.get("client") or ("",))[0])
            self._refused.note_stranger(entry, address=address, at=dt.datetime.now(dt.UTC))
        self._services.meters.took.observe(time.perf_counter() - began, route=route)
        self._services.meters.requests.add(route=route, status=str(response.status))
        await send(
            {
                "type": "http.response.start",
                "status": response.status,
                "headers": [*response.headers, (b"content-length", b"%d" % len(response.body))],
            }
        )
        await send({"type": "http.response.body", "body": response.body})

    def _failure(self, error: Exception) -> _Response:
        if isinstance(error, TooManyRequests):
            return _TOO_MANY
        try:
            response = error_response(error)
        except Exception:
            log.exception("read_failed")
            return _failed(FAILED, {"err_msg": "the server failed; its log has the reason"})
        body = self._names.in_body(bytes(response.body), "application/json")
        return _Response(status=response.status_code, body=body)

    async def _respond(self, scope: Scope, receive: Receive) -> _Response:
        """Answer or refuse a read.

        Raises:
            NotAuthenticated: It has no valid token.
            Forbidden: The token does not allow it.
            DisconnectedError: The client closed its connection.
        """
        try:
            refusal = judge_head(
                address_of(scope), scope["headers"], greatest_body=GREATEST_BODY_BYTES
            )
            return _refused(refusal) if refusal else await self._answer(scope, receive)
        except RequestRefusedError as error:
            return _refused(error.refusal)
        except (NotAuthenticated, Forbidden, DisconnectedError):
            raise
        except Exception as error:  # noqa: BLE001 - an unexpected error is logged
            return self._failure(error)

    async def _answer(self, scope: Scope, receive: Receive) -> _Response:
        """Answer a read whose head is sound, if its token has not ended meanwhile."""
        headers = dict(reversed(scope["headers"]))  # of two, the first counts
        caller = await self._caller(scope, headers)
        authorized_at = time.monotonic()
        body = await read_body(receive, greatest_body=GREATEST_BODY_BYTES)
        refusal = judge_whole(
            body,
            length=_text(headers.get(b"content-length")),
            digest=_text(headers.get(b"content-digest")),
        )
        if refusal is not None:
            return _refused(refusal)
        deadline = _deadline_of(headers)
        path: str = scope["path"]
        if path == _QUERY:
            response = await self._query(caller, body, deadline)
        else:
            response = await self._lookup(caller, _dataset_of(path), body, deadline)
        if time.monotonic() - authorized_at > AUTHORIZED_S:
            await self._caller(scope, headers)
        return response

    async def _caller(self, scope: Scope, headers: RawHeaders) -> _Caller:
        kind, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        if kind != "Bearer" or not token:
            raise NotAuthenticated
        tokens = self._services.tokens
        known = tokens.known(token)
        if known is None:
            known = await self._ledger_threads.run(lambda: tokens.holder(token), caller=_UNKNOWN)
        if known is None:
            raise NotAuthenticated
        narrow = headers.get(b"x-narthex-scope")
        principal = narrowed(known, _text(narrow))
        branch = _branch_of(scope, headers)
        if Right.READ_DATA not in principal.rights:
            raise RightMissing(Right.READ_DATA)
        if not principal.may_name(branch):
            raise Forbidden
        return _Caller(principal=principal, branch=branch)

    async def _query(self, caller: _Caller, body: bytes, deadline: float | None) -> _Response:
        if len(body) > _INLINE_BYTES:
            call = await self._threads.run(
                lambda: decode_query(body), caller=caller.principal.token, deadline=deadline
            )
        else:
            call = decode_query(body)
        snapshot, age_s = await self._snapshot(caller)
        if caller.principal.tags != ("*",):
            access = self._services.access(caller.principal, caller.branch)
            names = [*call.inputs, *call.outputs]
            await self._threads.run(
                lambda: access.require_features(snapshot, names),
                caller=caller.principal.token,
                deadline=deadline,
            )
        query = snapshot.query(call.inputs, call.outputs)
        values = self._answerer.require_moderate(query, call)
        if call.after is not None:
            await self._wait_for_rows(call.after, query, snapshot, caller, deadline)

        def answer() -> ReadAnswer:
            return self._answerer.query(call, query, snapshot, caller.branch)

        if self._is_quick(call, query, values):
            answered = answer()
        elif query.runs_code:
            answered = await self._code_threads.run(answer, caller=caller.branch, deadline=deadline)
        else:
            answered = await self._threads.run(
                answer, caller=caller.principal.token, deadline=deadline
            )
        self._services.meters.reads.note(caller.branch, query.reads)
        return _Response(
            status=200,
            body=answered.body,
            headers=(
                _JSON,
                (b"x-narthex-read", answered.read),
                (b"x-narthex-snapshot-age", b"%.1f" % age_s),
            ),
        )

    async def _wait_for_rows(
        self,
        after: str,
        query: CompiledQuery,
        snapshot: BranchSnapshot,
        caller: _Caller,
        deadline: float | None,
    ) -> None:
        """Wait until the indexes of a query contain rows.

        Raises:
            InvalidRequest: `after` does not have positions.
            Conflicting: They do not contain the rows in time.
            LedgerError: The ledger does not answer.
            StoreError: Kafka or an index does not answer.
        """
        positions = positions_of(after)
        progress_of, ends_of = self._services.ledger.jobs.progress, self._services.ends.ends
        # In a thread, because it looks at each asset of the snapshot.
        contained = await self._ledger_threads.run(
            lambda: ContainedRows(snapshot, positions, progress_of, ends_of),
            caller=caller.principal.token,
            deadline=deadline,
        )
        ends_at = time.monotonic() + AFTER_S if deadline is None else deadline
        while missing := await self._ledger_threads.run(
            lambda: contained.missing(query.datasets),
            caller=caller.principal.token,
            deadline=deadline,
        ):
            if time.monotonic() + AFTER_EVERY_S > ends_at:
                raise Conflicting(missing)
            await asyncio.sleep(AFTER_EVERY_S)

    def _is_quick(self, call: QueryCall, query: CompiledQuery, values: int) -> bool:
        is_local = not self._snapshots.indexes.store.is_shared
        return is_local and values <= INLINE_VALUES and not (query.runs_code or call.log)

    async def _lookup(
        self, caller: _Caller, dataset: str, body: bytes, deadline: float | None
    ) -> _Response:
        call = decode_lookup(body)
        snapshot, age_s = await self._snapshot(caller)

        def answer() -> ReadAnswer:
            if caller.principal.tags != ("*",):
                self._services.access(caller.principal, caller.branch).require_dataset(
                    snapshot, dataset
                )
            return self._answerer.lookup(call, snapshot.dataset(dataset), snapshot)

        answered = await self._threads.run(answer, caller=caller.principal.token, deadline=deadline)
        read = frozenset({(ReadKind.DATASET, dataset)})
        self._services.meters.reads.note(caller.branch, read)
        return _Response(
            status=200,
            body=answered.body,
            headers=(_JSON, (b"x-narthex-snapshot-age", b"%.1f" % age_s)),
        )

    async def _snapshot(self, caller: _Caller) -> tuple[BranchSnapshot, float]:
        known = self._snapshots.known(caller.branch)
        if known is not None:
            return known
        serving = await self._ledger_threads.run(
            lambda: self._snapshots.serving(caller.branch), caller=caller.principal.token
        )
        return serving, 0.0

    def _is_late(self) -> bool:
        """Return whether requests that came with this one kept the event loop for too long.

        Only the loop's own work counts: time in which other threads run, as those that prepare a
        new commit, is not an overload.
        """
        now = time.thread_time()
        if self._turn_began is None:
            self._turn_began = now
            asyncio.get_running_loop().call_soon(self._end_turn)
        return now - self._turn_began > LATEST_S

    def _end_turn(self) -> None:
        self._turn_began = None

    def close(self) -> None:
        """Wait for running requests, and end the threads."""
        self._threads.close()
        self._code_threads.close()
        self._ledger_threads.close()


def _route_of(path: str) -> str | None:
    """Return the route of a read, as metrics name it; None if the path is of another route."""
    if path == _QUERY:
        return _QUERY
    is_lookup = path.startswith(_DATASET) and path.endswith(_LOOKUP) and _dataset_of(path)
    return f"{_DATASET}{{name}}{_LOOKUP}" if is_lookup else None


def _dataset_of(path: str) -> str:
    """Return the dataset in the path of a lookup; empty if there is none."""
    name = path[len(_DATASET) : -len(_LOOKUP)]
    return "" if "/" in name else name


def _branch_of(scope: Scope, headers: RawHeaders) -> str:
    """Return the branch of a request, as `named_branch`, which takes longer."""
    named = headers.get(b"x-narthex-branch") or headers.get(b"x-fennel-branch")
    if named:
        return named.decode("latin-1")
    return named_branch(HTTPConnection(scope)) if scope["query_string"] else MAIN


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("latin-1")


def _deadline_of(headers: RawHeaders) -> float | None:
    """Return the instant of the monotonic clock until which the caller waits."""
    given = headers.get(b"x-narthex-timeout-ms")
    if given is None:
        return None
    if not given.isdigit() or len(given) > len("600000"):
        raise InvalidRequest("`x-narthex-timeout-ms` is not a number of milliseconds")
    return time.monotonic() + int(given) / 1000


def _refused(refusal: Refusal) -> _Response:
    return _failed(refusal.status, {"err_msg": refusal.why})


def _failed(status: int, body: Mapping[str, str]) -> _Response:
    return _Response(status=status, body=msgspec.json.encode(body))


_TOO_MANY: Final = attrs.evolve(
    _failed(429, {"err_msg": str(TooManyRequests())}), headers=(_JSON, (b"retry-after", b"1"))
)
"""Prepared, because under overload most answers are this one."""
