"""Queries of plain columns as the requests that they send, for any transport.

A call is a generator: it yields requests, gets their responses, and returns the result.
"""

import json
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from datetime import datetime
from typing import TypeAlias, TypeVar

import attrs

from narthex._base.plain_values import values_of
from narthex._base.records import Json
from narthex._base.times import render_instant, to_micros
from narthex._server_calls.answers import columns_in
from narthex._server_calls.query_parts import Answer, ask_in_parts, greatest_rows
from narthex._server_calls.references import input_names, output_names
from narthex._server_calls.responses import Response, parse_read
from narthex.errors import Refused

_T = TypeVar("_T")


@attrs.frozen(kw_only=True)
class DataRequest:
    """One request; with a `key`, it can be retried and runs once."""

    path: str
    body: Json
    key: str = ""


DataCall: TypeAlias = Generator[DataRequest, Response, _T]


def carried_out(call: DataCall[_T], send: Callable[[DataRequest], Response]) -> _T:
    """Send the requests of a call, one after the other, and return its result."""
    try:
        request = next(call)
        while True:
            try:
                response = send(request)
            except Refused as error:
                request = call.throw(error)
            else:
                request = call.send(response)
    except StopIteration as ended:
        result: _T = ended.value
        return result


async def carried_out_in_loop(
    call: DataCall[_T], send: Callable[[DataRequest], Awaitable[Response]]
) -> _T:
    """Send the requests of a call, one after the other, and return its result."""
    try:
        request = next(call)
        while True:
            try:
                response = await send(request)
            except Refused as error:
                request = call.throw(error)
            else:
                request = call.send(response)
    except StopIteration as ended:
        result: _T = ended.value
        return result


@attrs.frozen(kw_only=True)
class QueryOptions:
    """The options of a query, as `Client.query` has them."""

    as_of: datetime | str | None = None
    log: bool = False
    workflow: str | None = None
    sampling_rate: float | None = None
    explain: bool = False
    after: str | None = None

    def parts(self) -> dict[str, Json]:
        """Return the parts of the body that they add."""
        body: dict[str, Json] = {}
        if self.as_of is not None:
            body["as_of"] = _instant(self.as_of)
        if self.log:
            body |= {"log": True, "workflow": self.workflow, "sampling_rate": self.sampling_rate}
        if self.explain:
            body["explain"] = True
        if self.after is not None:
            body["after"] = self.after
        return body


def query_call(
    inputs: Sequence[object],
    outputs: Sequence[object],
    columns: Mapping[str, Sequence[object]],
    options: QueryOptions,
) -> DataCall[Answer]:
    """Query with plain columns; in parts, if the server refuses so many values at once."""
    body: dict[str, Json] = {
        "inputs": [*input_names(inputs)],
        "outputs": [*output_names(outputs)],
        "data": {name: values_of(values) for name, values in columns.items()},
        **options.parts(),
    }
    try:
        return (yield from _asked(body))
    except Refused as error:
        most = greatest_rows(error)
        if not most or options.explain:
            raise
    return (yield from ask_in_parts(_asked, body, most=most))


def _asked(body: dict[str, Json]) -> DataCall[Answer]:
    """Send a query; return the columns, and the data that they were read from."""
    answer = yield DataRequest(path="query", body=body)
    if body.get("explain"):
        read = parse_read(answer.body.get("read"), answer.body.get("features"))
        return columns_in(answer.body.get("answers")), read
    header = answer.headers.get("x-narthex-read", "")
    return columns_in(answer.body), parse_read(json.loads(header) if header else None)


def _instant(instant: datetime | str) -> str:
    return instant if isinstance(instant, str) else render_instant(to_micros(instant))
