"""`POST /log`: rows pushed to a webhook endpoint; a call is accepted whole or not at all.

An accepted call is one record of the endpoint's ingest topic, so it is atomic over all datasets
that the endpoint feeds. Every engine repeats the checks that are made here.
"""

import datetime as dt
import functools
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NotRequired

import attrs
from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, JsonValue
from typing_extensions import TypedDict

from narthex._base import Json, to_micros
from narthex._formats import MistypedError, coerce, render_cell, render_positions
from narthex._ir import Cdc, Constant, Dataset, Datetime, Source, WebhookEndpoint, inner
from narthex._runtime.ingest import FilteredRow, RejectedRow, RowParser, read_columns
from narthex.errors import SandboxUnavailable, UserCodeError
from narthex_server.errors import EndpointHeld, InvalidRequest, Missing, TooLarge
from narthex_server.security.dataset_access import Access
from narthex_server.security.policy_enforcement import may_write_rows
from narthex_server.security.request_access import AccessDep
from narthex_server.security.request_identity import IdentityDep
from narthex_server.security.route_rights import Right, requires
from narthex_server.services.branch_snapshots import BranchSnapshot
from narthex_server.services.compartments import BranchCalls
from narthex_server.services.container import ServicesDep
from narthex_server.services.idempotency import DELIVERY_S, KEY_HEADER
from narthex_server.web.error_responses import raises
from narthex_server.web.plain_routes import IDEMPOTENT, PlainRoute
from narthex_stores import GREATEST_RECORD_BYTES

router = APIRouter(route_class=PlainRoute, dependencies=[requires(Right.WRITE_DATA)])

GREATEST_PROBLEMS = 50
GREATEST_KEY_BYTES = 200
GREATEST_ROW_BYTES = 4 * 1024 * 1024
"""A fact contains a key three times, and must fit into a record."""


class LogCall(BaseModel):
    """Rows for one endpoint, by column or by row."""

    model_config = ConfigDict(extra="forbid")

    webhook: str
    endpoint: str
    data: dict[str, list[JsonValue]] | list[dict[str, JsonValue]]


class AcceptedRows(TypedDict):
    """The numbers of rows that a call stored and left out.

    Attributes:
        accepted: How many rows were stored.
        left_out: How many rows the datasets of the endpoint filter out.
        partition: The partition of the ingest topic that has the rows; missing without rows.
        offset: Their offset in it.
        erased: How many rows were left out because their keys were erased; missing without any.
        after: A text for a query with `after`, which waits until its indexes contain the rows.
        unread: The columns that no dataset of the endpoint reads, the most frequent first, and how
            many rows have each; missing without any, and at most 20.
    """

    accepted: int
    left_out: int
    partition: NotRequired[int]
    offset: NotRequired[int]
    erased: NotRequired[int]
    after: NotRequired[str]
    unread: NotRequired[dict[str, int]]


MOST_UNREAD: Final = 20
"""How many unread columns an answer names."""


@attrs.frozen(kw_only=True)
class Fed:
    """A dataset that the endpoint feeds, and how."""

    dataset: Dataset
    source: Source


@router.post(
    "/log",
    responses=raises(UserCodeError, SandboxUnavailable, EndpointHeld),
    openapi_extra=IDEMPOTENT,
)
def log_rows(
    call: LogCall, services: ServicesDep, access: AccessDep, caller: IdentityDep
) -> AcceptedRows:
    """Accept rows, or refuse the whole call and name every bad row."""
    wanted = WebhookEndpoint(webhook=call.webhook, endpoint=call.endpoint)
    branch, snapshot, fed = feeding(access, wanted)
    sent = _rows(call.data)
    # The rows of all branches: a row reaches every branch that has the endpoint.
    endpoint = f"{call.webhook}/{call.endpoint}"
    blocked = services.blocked_keys.among(endpoint, sent)
    rows = [row for number, row in enumerate(sent) if number not in blocked]
    now_us = to_micros(dt.datetime.now(dt.UTC))
    calls = BranchCalls(services.workers, branch, snapshot)
    problems, left_out = _check(fed, rows, now_us=now_us, calls=calls)
    if problems:
        raise InvalidRequest(
            f"{len(problems)} problems; no row was accepted\n"
            + "\n".join(problems[:GREATEST_PROBLEMS]),
            errors=problems[:GREATEST_PROBLEMS],
        )
    services.meters.erased.add(len(blocked), webhook=call.webhook, endpoint=call.endpoint)
    if not rows:
        return _with_erased({"accepted": 0, "left_out": 0}, len(blocked))
    value = _record_of(fed, rows)
    topic = snapshot.topic(f"webhook/{call.webhook}/{call.endpoint}/ingest")
    if services.blocked_keys.is_held(endpoint, topic):
        raise EndpointHeld(endpoint)
    key = caller.sent_key
    if len(key.encode()) > GREATEST_KEY_BYTES:
        raise InvalidRequest(f"the idempotency key has more than {GREATEST_KEY_BYTES} bytes")
    append = functools.partial(
        services.producer.append,
        topic,
        key=None,
        value=value,
        headers={"received_at": str(now_us), KEY_HEADER: key},
    )
    delivered = (
        services.once.append(topic, key, value, append)
        if key
        else append().result(timeout=DELIVERY_S)
    )
    services.meters.accepted.add(len(rows), webhook=call.webhook, endpoint=call.endpoint)
    accepted: AcceptedRows = {
        "accepted": len(rows),
        "left_out": left_out,
        "partition": delivered.partition,
        "offset": delivered.offset,
        "after": render_positions({topic: {delivered.partition: delivered.offset + 1}}),
    }
    if unread := _unread(fed, rows):
        accepted["unread"] = unread
    return _with_erased(accepted, len(blocked))


def _with_erased(accepted: AcceptedRows, erased: int) -> AcceptedRows:
    return {**accepted, "erased": erased} if erased else accepted


def _unread(fed: Sequence[Fed], rows: Sequence[Mapping[str, Json]]) -> dict[str, int]:
    """Return the columns that no source of the endpoint reads, and how many rows have each."""
    read = [read_columns(one.source, one.dataset.schema) for one in fed]
    known: set[str] = set()
    for names in read:
        if names is None:
            return {}
        known |= names
    found = Counter(name for row in rows for name in row if name not in known)
    return dict(found.most_common(MOST_UNREAD))


def _record_of(fed: Sequence[Fed], rows: Sequence[Mapping[str, Json]]) -> bytes:
    """Render the record of a call.

    Raises:
        TooLarge: the record, or one of its rows, is too large for the logs.
    """
    encoded = [json.dumps(_with_micros(fed, row)) for row in rows]
    longest = max(range(len(encoded)), key=lambda number: len(encoded[number]))
    if len(encoded[longest]) > GREATEST_ROW_BYTES:
        raise TooLarge(f"row {longest} has more than {GREATEST_ROW_BYTES} bytes")
    value = f'{{"rows": [{", ".join(encoded)}]}}'.encode()
    if len(value) > GREATEST_RECORD_BYTES:
        raise TooLarge(f"the call has {len(value)} bytes; send fewer rows a call")
    return value


def feeding(access: Access, wanted: WebhookEndpoint) -> tuple[str, BranchSnapshot, tuple[Fed, ...]]:
    """Find the datasets that an endpoint feeds.

    They are those of the given branch, else of the principal's first branch that has the endpoint.
    An endpoint has one ingest topic, so its rows reach every branch that has the endpoint; a token
    for some branches may write rows only if the endpoint belongs to one of these.
    """
    for name in _branches(access) if may_write_rows(access, wanted) else ():
        snapshot = access.snapshots.deployed(name)
        fed = _fed(snapshot, wanted) if snapshot else ()
        if snapshot and not _are_seen(access, snapshot, fed):
            continue
        if snapshot and fed:
            return name, snapshot, fed
    raise Missing(f"no dataset of any branch has the endpoint `{wanted.webhook}/{wanted.endpoint}`")


def _are_seen(access: Access, snapshot: BranchSnapshot, fed: Sequence[Fed]) -> bool:
    seen = access.visibility(snapshot.definitions)
    return all(seen.of_dataset(one.dataset.name) for one in fed)


def _branches(access: Access) -> Iterator[str]:
    yield access.branch
    for branch in access.ledger.branches.all(access.tenant):
        is_other = branch.state == "active" and branch.name != access.branch
        if is_other and access.principal.may_name(branch.name):
            yield branch.name


def _fed(snapshot: BranchSnapshot, wanted: WebhookEndpoint) -> tuple[Fed, ...]:
    return tuple(
        Fed(dataset=dataset, source=source)
        for dataset in snapshot.definitions.datasets
        for source in dataset.sources
        if source.connector == wanted
    )


def _rows(
    data: dict[str, list[Json]] | list[dict[str, Json]],
) -> list[Mapping[str, Json]]:
    if isinstance(data, list):
        return list(data)
    lengths = {len(column) for column in data.values()}
    if len(lengths) > 1:
        raise InvalidRequest(f"columns differ in length: {sorted(lengths)}")
    names = list(data)
    return [dict(zip(names, row, strict=True)) for row in zip(*data.values(), strict=True)]


def _check(
    fed: Sequence[Fed], rows: Sequence[Mapping[str, Json]], *, now_us: int, calls: BranchCalls
) -> tuple[list[str], int]:
    problems: list[tuple[int, str]] = []
    left_out = 0
    for one in fed:
        # Enforced expectations are left to the source's job: they refuse rows, and no calls.
        row_parser = RowParser.of(one.source, one.dataset.schema)
        runner = calls.feeding(one.dataset.name)
        outcomes = row_parser.parse_rows(rows, now_us=[now_us] * len(rows), runner=runner)
        for number, admission in enumerate(outcomes):
            match admission:
                case RejectedRow(problems=found):
                    name = one.dataset.name
                    problems += [(number, f"row {number}, {name}: {p}") for p in found]
                case FilteredRow():
                    left_out += 1
                case _:
                    pass
    return [text for _, text in sorted(problems, key=lambda one: one[0])], left_out


def _with_micros(fed: Sequence[Fed], row: Mapping[str, Json]) -> dict[str, Json]:
    """Return the row with numeric instants as text, so that no later reader guesses their unit.

    Old clients send epoch milliseconds; the type check has already accepted them.
    """
    rendered = dict(row)
    for one in fed:
        if one.source.cdc is Cdc.DEBEZIUM:  # its columns are the envelope's, not the row's
            continue
        constants = {name for name, p in one.source.preproc if isinstance(p, Constant)}
        for field in one.dataset.schema.fields:
            raw = raw_name(one.source, field.name)
            value = rendered.get(raw)
            if raw in constants or isinstance(value, bool) or not isinstance(value, int | float):
                continue
            if isinstance(inner(field.type), Datetime):
                rendered[raw] = _instant_text(value)
    return rendered


def raw_name(source: Source, field: str) -> str:
    """Return the raw column that a field of a source is read from."""
    for name, preproc in source.preproc:
        if name == field:
            return getattr(preproc, "column", field)
    return field


def _instant_text(value: float) -> Json:
    try:
        return render_cell(coerce(value, Datetime()), Datetime())
    except MistypedError:  # every reader filters this row out as well
        return value
