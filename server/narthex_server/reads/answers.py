"""Answers of read requests: from a decoded call to the bytes of the answer."""

import datetime as dt
from typing import Any, Final

import attrs
import msgspec

from narthex._base import to_micros
from narthex._formats import MistypedError, coerce, render_cells
from narthex._ir import Cell, DatasetPlan, Datetime
from narthex._query import Explanations, LoggedQuery, execute, whole_columns, whole_rows
from narthex._runtime.workers import Compartments
from narthex_ledger import TenantId
from narthex_server.errors import InvalidRequest, QueryTooLarge
from narthex_server.reads.calls import Instant, LookupCall, QueryCall
from narthex_server.reads.sessions import ReadSession
from narthex_server.services.branch_snapshots import BranchSnapshot
from narthex_server.services.compartments import BranchCalls
from narthex_server.services.compiled_queries import CompiledQuery
from narthex_server.services.meters import Meters
from narthex_server.services.query_log import QueryLog, is_drawn

_encode: Final = msgspec.json.Encoder().encode


@attrs.frozen(kw_only=True)
class ReadAnswer:
    """The answer of a read request.

    Attributes:
        body: JSON.
        read: The commit and the instant that the answer is of, as JSON; empty for lookups.
    """

    body: bytes
    read: bytes = b""


@attrs.frozen(kw_only=True)
class Answerer:
    """Answers calls from snapshots.

    Attributes:
        greatest_values: How many values, rows times features, a query may ask for.
    """

    tenant: TenantId
    workers: Compartments
    query_log: QueryLog
    meters: Meters
    greatest_values: int

    def require_moderate(self, query: CompiledQuery, call: QueryCall) -> int:
        """Return the number of values that a query asks for.

        Raises:
            QueryTooLarge: There are too many.
        """
        features = max(len(query.outputs), 1)
        values = _rows_of(call) * features
        if values > self.greatest_values:
            raise QueryTooLarge(values, most=self.greatest_values, features=features)
        return values

    def query(
        self, call: QueryCall, query: CompiledQuery, snapshot: BranchSnapshot, branch: str
    ) -> ReadAnswer:
        """Answer a query.

        Raises:
            InvalidRequest: The inputs do not fit their types.
            UserCodeError: An author's code failed.
            IndexUnavailable: An index is missing.
        """
        columns, rows = query.columns(call.data)
        as_of = _instant_of(call.as_of)
        plan = query.plan
        explanations = Explanations(rows) if call.explain else None
        with ReadSession(snapshot, wants_offsets=call.log or call.explain) as reading:
            answers = execute(
                plan,
                columns,
                lookup=reading.lookup,
                workers=BranchCalls(self.workers, branch, snapshot),
                as_of=[as_of] * rows,
                explanations=explanations,
                end_reading=reading.end,
            )
        offsets = reading.offsets
        outputs = query.rendered(answers)
        read: dict[str, Any] = {
            "commit_id": str(snapshot.commit_id),
            "serving_seq": snapshot.seq,
            "as_of": as_of,
        }
        header = _encode(read)
        if call.log:
            logged = LoggedQuery(
                tenant=str(self.tenant),
                branch=branch,
                commit_id=str(snapshot.commit_id),
                as_of=as_of,
                workflow=call.workflow or "",
                inputs={
                    name: render_cells(columns[name], plan.types[name]) for name in plan.inputs
                },
                outputs={name: list(cells) for name, cells in outputs.items()},
                offsets=offsets or {},
            )
            self._log(logged.encoded(), call.sampling_rate)
        if explanations is not None:
            explained = {
                "answers": outputs,
                "read": read | {"offsets": offsets},
                "features": {name: explanations.of(name).plain(as_of) for name in plan.outputs},
            }
            return ReadAnswer(body=_encode(explained), read=header)
        return ReadAnswer(body=_encode(outputs), read=header)

    def _log(self, answer: bytes, sampling_rate: float | None) -> None:
        if is_drawn(answer, sampling_rate):
            is_logged = self.query_log.keep(answer)
            self.meters.kept.add(durable=str(is_logged).lower())

    def lookup(self, call: LookupCall, plan: DatasetPlan, snapshot: BranchSnapshot) -> ReadAnswer:
        """Answer a lookup of rows by key.

        Raises:
            InvalidRequest: Keys, instants or fields do not fit the dataset.
            IndexUnavailable: The index is missing.
        """
        keys = [_key(plan, row, number) for number, row in enumerate(call.keys)]
        if call.timestamps is not None and len(call.timestamps) != len(keys):
            raise InvalidRequest("keys and timestamps differ in length")
        now = _instant_of(None)
        given = call.timestamps
        as_of = [now] * len(keys) if given is None else list(map(_instant_of, given))
        columns = {column.name: place for place, column in enumerate(whole_columns(plan))}
        unknown = [field for field in call.fields if field not in columns]
        if unknown:
            raise InvalidRequest(f"`{plan.name}` has no field `{unknown[0]}`")
        with ReadSession(snapshot) as reading:
            rows = whole_rows(plan, keys, as_of, lookup=reading.lookup)
        types = plan.schema.columns
        data = {
            field: render_cells([row.values[columns[field]] for row in rows], types[field])
            for field in call.fields or types
        }
        return ReadAnswer(body=_encode({"found": [row.is_found for row in rows], "data": data}))


def _rows_of(call: QueryCall) -> int:
    data = call.data
    if isinstance(data, list):
        return len(data)
    return max(map(len, data.values()), default=0)


def _instant_of(given: Instant | None) -> int:
    if given is None:
        return to_micros(dt.datetime.now(dt.UTC))
    try:
        instant = coerce(given, Datetime())
    except MistypedError as error:
        raise InvalidRequest(f"as_of: {error}") from None
    if not isinstance(instant, int):
        raise InvalidRequest("as_of is not an instant")
    return instant


def _key(plan: DatasetPlan, row: dict[str, Any], number: int) -> tuple[Cell, ...]:
    try:
        return tuple(coerce(row.get(c.name), c.type) for c in plan.schema.keys)
    except MistypedError as error:
        raise InvalidRequest(f"row {number}: {error}") from None
