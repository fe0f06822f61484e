"""The platform of a unit test: the calls that a client makes, answered in its own process."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs

from narthex._analysis import check, compare
from narthex._base import Json, to_plain
from narthex._formats import (
    MistypedError,
    NotPositionsError,
    coerce,
    parse_positions,
    render_cell,
    render_positions,
)
from narthex._formats.wire import decode_commit
from narthex._ir import Cell, DatasetPlan, DataType, Datetime, WebhookEndpoint
from narthex._query import (
    Explanations,
    Lookup,
    ReadPlan,
    execute,
    report_of,
    spine_problems,
    whole_columns,
    whole_rows,
)
from narthex._server_calls import Body, Parameters
from narthex._testing import InProcessCalls
from narthex.client import Response
from narthex.errors import LookupImpossible, Refused, raise_all
from narthex_reference.engine import Answer
from narthex_reference.inprocess.branches import BAD_REQUEST, NOT_FOUND, BranchState, ClientServices
from narthex_reference.inprocess.clock import UnitTestClock
from narthex_reference.inprocess.intake import EndpointCall, problems_of
from narthex_reference.inprocess.training_sets import AnsweredSpine, InProcessTrainingSets

MAIN: Final = "main"
SHOWN_PROBLEMS: Final = 50
MOST_LISTED: Final = 20
_OK: Final = 200


@attrs.frozen(eq=False)
class _OfflineQuery:
    """An offline query, which is done as soon as it is asked.

    Attributes:
        parts: Its `status`, its `spine` and its `answers`, as a server returns them.
    """

    branch: str
    request_id: str
    parts: Mapping[str, dict[str, Json]]


class InProcessCaller:
    """Answers calls as a server would, from the branches that it holds."""

    def __init__(
        self, branch: str, clock: UnitTestClock, calls_of: type[InProcessCalls] = InProcessCalls
    ) -> None:
        """Begin with the branch `main`; `calls_of` runs authors' code."""
        self.branch = branch
        self.clock = clock
        self.secrets: dict[str, str] = {}
        calls = calls_of(secrets=self._secret)
        self.services = ClientServices(calls=calls, now_us=clock.now_us)
        self.branches: dict[str, BranchState] = {MAIN: BranchState(self.services)}
        self._deleted: dict[str, BranchState] = {}
        self._offline: list[_OfflineQuery] = []
        self._sets = InProcessTrainingSets()
        self._gets: dict[str, Callable[[Parameters], dict[str, Json]]] = {
            "branch/list": lambda _: {"branches": [{"name": name} for name in self.branches]},
            "log/progress": _row_progress,
            "offline_queries": self._newest_offline,
        }
        self._posts: dict[str, Callable[[Body, Parameters], dict[str, Json]]] = {
            "commit": self._commit,
            "log": self._log,
            "query_offline": self._query_offline,
            "query_offline/cancel": self._offline_status,
            "training_sets": self._training_set,
            "init": self._init,
            "delete": self._delete,
            "undelete": self._undelete,
        }

    def _secret(self, name: str) -> str | None:
        return self.secrets.get(name)

    def close(self) -> None:
        """Do nothing: all resources belong to this object."""

    def current(self) -> BranchState:
        """Return the branch that calls refer to.

        Raises:
            Refused: No branch has that name.
        """
        try:
            return self.branches[self.branch]
        except KeyError:
            known = ", ".join(f"`{name}`" for name in self.branches)
            raise Refused(
                f"branch `{self.branch}` does not exist; there is {known}", status_code=NOT_FOUND
            ) from None

    def read(self, path: str, parameters: Parameters | None = None) -> Response:
        """Answer a client's read call."""
        asked = parameters or {}
        match path.split("/"):
            case ["commits", _]:
                return _response({"state": "FINALIZED", "promotion": "DONE"})
            case ["query_offline", "status" | "answers" | "spine" as part]:
                return _response(self._offline_query(asked).parts[part])
            case ["training_sets", *rest]:
                return _response(self._read_sets(rest, asked))
            case ["secret", name]:
                return _response({"value": self._known_secret(name)})
            case ["dataset", name, "inspect"]:
                return _response(self._inspect(name, int(str(asked.get("n", 10)))))
            case _ if path in self._gets:
                return _response(self._gets[path](asked))
            case _:
                raise Refused(f"a unit test has no `{path}`", status_code=NOT_FOUND)

    def send(
        self,
        path: str,
        body: Body = None,
        *,
        parameters: Parameters | None = None,
        key: str = "",  # noqa: ARG002 (nothing is sent twice here)
        verb: str = "POST",
    ) -> Response:
        """Execute a client's write call."""
        asked = parameters or {}
        match path.split("/"):
            case ["query"]:
                return self._query(_json(body))
            case ["training_sets", name] if verb == "DELETE":
                return _response(self._sets.delete(self.branch, name))
            case ["dataset", name, "lookup"]:
                return _response(self._lookup(name, _json(body)))
            case ["dataset", name, "erase"]:
                erased = self.current().erase(
                    self.current().plan(name), _rows(_json(body).get("erase_keys"))
                )
                return _response({"dataset": name, "erased_keys": erased})
            case ["secret", name]:
                return _response(self._keep_secret(name, _json(body or {}).get("value"), verb))
            case _ if path in self._posts:
                return _response(self._posts[path](body, asked))
            case _:
                raise Refused(f"a unit test has no `{path}`", status_code=NOT_FOUND)

    def _init(self, body: Body, asked: Parameters) -> dict[str, Json]:  # noqa: ARG002
        if self.branch in self.branches:
            raise Refused(f"branch `{self.branch}` already exists", status_code=BAD_REQUEST)
        source = _json(body or {}).get("clone_from")
        if source is not None and source not in self.branches:
            raise Refused(f"branch `{source}` does not exist", status_code=NOT_FOUND)
        self.branches[self.branch] = (
            BranchState(self.services) if source is None else self.branches[str(source)].clone()
        )
        return {"name": self.branch}

    def _delete(self, body: Body, asked: Parameters) -> dict[str, Json]:  # noqa: ARG002
        if self.branch == MAIN:
            raise Refused(f"the branch `{MAIN}` cannot be deleted", status_code=BAD_REQUEST)
        gone = self.branches.pop(self.branch, None)
        if gone is None:
            raise Refused(f"branch `{self.branch}` does not exist", status_code=NOT_FOUND)
        self._deleted[self.branch] = gone
        return {"name": self.branch}

    def _undelete(self, body: Body, asked: Parameters) -> dict[str, Json]:  # noqa: ARG002
        if self.branch in self.branches:
            raise Refused(f"branch `{self.branch}` already exists", status_code=BAD_REQUEST)
        if self.branch not in self._deleted:
            raise Refused(f"no branch `{self.branch}` was deleted", status_code=NOT_FOUND)
        self.branches[self.branch] = self._deleted.pop(self.branch)
        return {"name": self.branch}

    def _known_secret(self, name: str) -> str:
        if name not in self.secrets:
            raise Refused(f"there is no secret `{name}`", status_code=NOT_FOUND)
        return self.secrets[name]

    def _keep_secret(self, name: str, value: Json, verb: str) -> dict[str, Json]:
        if verb != "POST":
            self._known_secret(name)
        if verb == "DELETE":
            del self.secrets[name]
        else:
            self.secrets[name] = str(value)
        return {"name": name}

    def _commit(self, body: Body, asked: Parameters) -> dict[str, Json]:
        if not isinstance(body, bytes):
            raise TypeError("a commit is bytes")
        branch, payload = self.current(), decode_commit(body)
        changes = compare(
            branch.definitions, payload.definitions, incremental=asked["incremental"] == "true"
        )
        raise_all([*check(changes.definitions), *changes.errors])
        summary: list[Json] = [*changes.summary]
        if asked["preview"] == "true":
            return {"summary": summary, "plan": summary}
        branch.commit(changes.definitions)
        return {"summary": summary, "commit_id": str(branch.commits)}

    def _log(self, body: Body, asked: Parameters) -> dict[str, Json]:  # noqa: ARG002
        call = _json(body)
        endpoint = WebhookEndpoint(webhook=str(call["webhook"]), endpoint=str(call["endpoint"]))
        rows = _by_row(call.get("data"))
        fed = [(branch, branch.feeds(endpoint)) for branch in self.branches.values()]
        if not any(feeds for _, feeds in fed):
            raise Refused(
                f"no dataset has the endpoint `{endpoint.webhook}/{endpoint.endpoint}`",
                status_code=NOT_FOUND,
            )
        now_us = self.clock.now_us()
        parsed = []
        for branch, feeds in fed:
            made = EndpointCall(
                endpoint=endpoint,
                offset=branch.next_offset(endpoint),
                received_us=now_us,
                rows=rows,
            )
            if feeds:
                parsed.append(
                    (
                        branch,
                        made,
                        [(feed, feed.judge(made, self.services.calls)) for feed in feeds],
                    )
                )
        problems = dict.fromkeys(
            problem for _, _, ones in parsed for one in ones for problem in problems_of(*one)
        )
        if problems:
            shown = "\n".join(list(problems)[:SHOWN_PROBLEMS])
            raise Refused(
                f"{len(problems)} problems; no row was accepted\n{shown}", status_code=BAD_REQUEST
            )
        for branch, made, ones in parsed:
            branch.accept(made, ones)
        offsets = {f"{endpoint.webhook}/{endpoint.endpoint}": {0: parsed[0][1].offset + 1}}
        return {"accepted": len(rows), "after": render_positions(offsets)}

    def _query(self, call: Mapping[str, Json]) -> Response:
        """Answer a query as of one instant; all rows that were accepted are contained in it."""
        if (after := call.get("after")) is not None:
            _row_progress({"after": str(after)})
        plan = self._read_plan(call)
        columns = _given(call, plan)
        rows = max(map(len, columns.values()), default=0)
        as_of = self._instant(call.get("as_of"))
        explanations = Explanations(rows) if call.get("explain") else None
        cells = self._cells(plan, columns, [as_of] * rows, self.lookup_online, explanations)
        answers = _rendered_all(cells, plan)
        read: dict[str, Json] = {
            "commit_id": str(self.current().commits),
            "serving_seq": self.current().commits,
            "as_of": as_of,
        }
        if explanations is None:
            return _response(answers, {"x-narthex-read": json.dumps(read)})
        features: dict[str, Json] = {
            name: explanations.of(name).plain(as_of) for name in plan.outputs
        }
        return _response({"answers": answers, "read": read | {"offsets": {}}, "features": features})

    def _query_offline(self, body: Body, asked: Parameters) -> dict[str, Json]:  # noqa: ARG002
        answered = self._answered_offline(_json(body))
        return {"request_id": answered.request_id, "status": "done"}

    def _answered_offline(self, call: Mapping[str, Json]) -> AnsweredSpine:
        """Answer an offline query, and keep it.

        Raises:
            Refused: The spine cannot be answered for.
        """
        plan, name, data = self._read_plan(call), str(call["timestamp_column"]), call["data"]
        columns = (
            {c: v for c, v in data.items() if isinstance(v, list)} if isinstance(data, dict) else {}
        )
        problems = spine_problems(columns, plan.inputs, timestamp_column=name, types=plan.types)
        if problems:
            raise Refused(report_of(problems), status_code=BAD_REQUEST)
        as_of = [self._instant(at) for at in columns[name]]
        cells = self._cells(plan, _given(call, plan), as_of, self.lookup_offline)
        request_id = str(len(self._offline))
        status: dict[str, Json] = {
            "request_id": request_id,
            "status": "done",
            "inputs": [*plan.inputs],
            "outputs": [*_texts(call["outputs"])],
            "rows": len(as_of),
            "share": 1.0,
            "types": {one: to_plain(plan.types[one]) for one in (*plan.inputs, *plan.outputs)},
            "offsets": {},
        }
        spine: dict[str, Json] = {
            "columns": data,
            "timestamp_column": name,
            "dtypes": call.get("dtypes"),
        }
        parts = {"status": status, "spine": spine, "answers": _rendered_all(cells, plan)}
        self._offline.append(_OfflineQuery(self.branch, request_id, parts))
        return AnsweredSpine(
            call=call,
            plan=plan,
            answers=cells,
            request_id=request_id,
            commit_id=str(self.current().commits),
            now_us=self.clock.now_us(),
        )

    def _training_set(self, body: Body, asked: Parameters) -> dict[str, Json]:  # noqa: ARG002
        call = _json(body)
        known = self._sets.find(self.branch, call)
        if known is not None:
            return known
        return self._sets.store(self.branch, self._answered_offline(call))

    def _read_sets(self, path: Sequence[str], asked: Parameters) -> dict[str, Json]:
        match path:
            case []:
                before = str(asked["before"]) if "before" in asked else None
                most = int(str(asked.get("limit", MOST_LISTED)))
                return {"training_sets": self._sets.newest(self.branch, most=most, before=before)}
            case [name]:
                return self._sets.details(self.branch, name)
            case _:
                return self._sets.rows(self.branch, path[0])

    def _offline_query(self, asked: Parameters) -> "_OfflineQuery":
        request_id = str(asked.get("request_id", ""))
        for query in self._offline:
            if query.request_id == request_id:
                return query
        raise Refused(f"there is no offline query {request_id}", status_code=NOT_FOUND)

    def _newest_offline(self, asked: Parameters) -> dict[str, Json]:
        known = self._offline
        if "before" in asked:
            before = self._offline_query({"request_id": asked["before"]})
            known = known[: known.index(before)]
        here = [query.parts["status"] for query in reversed(known) if query.branch == self.branch]
        return {"queries": [*here[: int(str(asked.get("limit", MOST_LISTED)))]]}

    def _offline_status(self, body: Body, asked: Parameters) -> dict[str, Json]:  # noqa: ARG002
        return self._offline_query(asked).parts["status"]

    def _read_plan(self, call: Mapping[str, Json]) -> ReadPlan:
        inputs, outputs = call["inputs"], call["outputs"]
        return self.current().read_plan(_texts(inputs), _texts(outputs))

    def _cells(
        self,
        plan: ReadPlan,
        columns: Mapping[str, Sequence[Cell]],
        as_of: Sequence[int],
        lookup: Lookup,
        explanations: Explanations | None = None,
    ) -> Mapping[str, Sequence[Cell]]:
        return execute(
            plan,
            columns,
            lookup=lookup,
            workers=self.services.calls,
            as_of=as_of,
            explanations=explanations,
        )

    def _lookup(self, name: str, call: Mapping[str, Json]) -> dict[str, Json]:
        plan = self.current().plan(name)
        keys = [_key(plan, row, number) for number, row in enumerate(_rows(call.get("keys")))]
        instants, wanted = call.get("timestamps"), _texts(call.get("fields"))
        lookup = self.lookup_online if instants is None else self.lookup_offline
        given = instants if isinstance(instants, list) else [None] * len(keys)
        if len(given) != len(keys):
            raise Refused("keys and timestamps differ in length", status_code=BAD_REQUEST)
        rows = whole_rows(plan, keys, [self._instant(at) for at in given], lookup=lookup)
        columns = {column.name: at for at, column in enumerate(whole_columns(plan))}
        types = plan.schema.columns
        for field in wanted:
            if field not in types:
                raise Refused(f"`{name}` has no field `{field}`", status_code=BAD_REQUEST)
        return {
            "found": [row.is_found for row in rows],
            "data": {
                field: _rendered([row.values[columns[field]] for row in rows], types[field])
                for field in wanted or types
            },
        }

    def columns(self, name: str) -> dict[str, list[Json]]:
        """Return the current rows of a dataset, oldest first, as plain columns."""
        plan = self.current().plan(name)
        places = {column.name: at for at, column in enumerate(whole_columns(plan))}
        rows = [(*fact.key, *fact.values, fact.event_time) for fact in self.current().facts(name)]
        return {
            field: _rendered([row[places[field]] for row in rows], of)
            for field, of in plan.schema.columns.items()
        }

    def _inspect(self, name: str, rows: int) -> dict[str, Json]:
        return {
            field: [*column[max(len(column) - rows, 0) :]]
            for field, column in self.columns(name).items()
        }

    def lookup_online(
        self, plan: DatasetPlan, keys: Sequence[tuple[Cell, ...]], as_of: Sequence[int]
    ) -> Sequence[Answer | None]:
        """Look rows up as of now.

        Raises:
            LookupImpossible: The dataset has no online index.
        """
        if not plan.online:
            raise _no_index(plan, "online")
        return self.current().engine.lookup(plan.name, keys, as_of)

    def lookup_offline(
        self, plan: DatasetPlan, keys: Sequence[tuple[Cell, ...]], as_of: Sequence[int]
    ) -> Sequence[Answer | None]:
        """Look rows up as of any instant.

        Raises:
            LookupImpossible: The dataset has no offline index.
        """
        if not plan.offline:
            raise _no_index(plan, "offline")
        return self.current().engine.lookup(plan.name, keys, as_of)

    def _instant(self, given: Json) -> int:
        if given is None:
            return self.clock.now_us()
        try:
            instant = coerce(given, Datetime())
        except MistypedError as error:
            raise Refused(f"an instant: {error}", status_code=BAD_REQUEST) from None
        return instant if isinstance(instant, int) else self.clock.now_us()


def _no_index(plan: DatasetPlan, kind: str) -> LookupImpossible:
    return LookupImpossible(
        f"dataset `{plan.name}` has no {kind} index",
        hint=f"write `@dataset(index=True)`, or let it be {kind}",
    )


def _row_progress(asked: Parameters) -> dict[str, Json]:
    """Refuse what no call of `log` returned; rows take effect at once."""
    after = str(asked.get("after"))
    try:
        parse_positions(after)
    except NotPositionsError:
        raise Refused(
            "`after` is not a text that `log` returned", status_code=BAD_REQUEST
        ) from None
    return {"waits_for": None, "after": after}


def _response(body: dict[str, Json], headers: Mapping[str, str] | None = None) -> Response:
    return Response(status_code=_OK, headers=headers or {}, body=body)


def _json(body: Body) -> dict[str, Json]:
    if not isinstance(body, dict):
        raise TypeError("a call is an object")
    return body


def _texts(found: Json) -> tuple[str, ...]:
    return tuple(str(one) for one in found) if isinstance(found, list) else ()


def _rows(found: Json) -> list[Mapping[str, Json]]:
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []


def _by_row(data: Json) -> list[Mapping[str, Json]]:
    if not isinstance(data, dict):
        return _rows(data)
    columns = [column for column in data.values() if isinstance(column, list)]
    names = list(data)
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _given(call: Mapping[str, Json], plan: ReadPlan) -> dict[str, list[Cell]]:
    data = call.get("data")
    columns: dict[str, list[Cell]] = {}
    problems: list[str] = []
    for name in plan.inputs:
        columns[name] = []
        raw = data.get(name) if isinstance(data, dict) else None
        for number, value in enumerate(raw if isinstance(raw, list) else []):
            try:
                columns[name].append(coerce(value, plan.types[name]))
            except MistypedError as error:
                problems.append(f"row {number}, `{name}`: {error}")
    if problems:
        raise Refused("\n".join(problems), status_code=BAD_REQUEST)
    return columns


def _key(plan: DatasetPlan, row: Mapping[str, Json], number: int) -> tuple[Cell, ...]:
    names = [column.name for column in plan.schema.keys]
    missing = [name for name in names if name not in row]
    if missing:
        raise Refused(
            f"a lookup of `{plan.name}` names {sorted(row)}, not {names}", status_code=BAD_REQUEST
        )
    try:
        return tuple(coerce(row[column.name], column.type) for column in plan.schema.keys)
    except MistypedError as error:
        raise Refused(f"row {number}: {error}", status_code=BAD_REQUEST) from None


def _rendered(cells: Sequence[Cell], of: DataType) -> list[Json]:
    return [render_cell(cell, of) for cell in cells]


def _rendered_all(answers: Mapping[str, Sequence[Cell]], plan: ReadPlan) -> dict[str, Json]:
    return {name: _rendered(cells, plan.types[name]) for name, cells in answers.items()}
