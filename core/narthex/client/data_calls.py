# mypy: disable-error-code="type-arg, explicit-any"
"""Calls for data - `log`, `query`, `lookup` - as the requests that they send, for any transport.

Each is a generator: it yields requests, gets their responses, and returns the result.
"""

import json
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from datetime import datetime
from typing import TypeAlias, TypeVar

import attrs
import pandas as pd

from narthex._base.records import Json
from narthex._base.times import render_instant, to_micros
from narthex._formats.log_positions import united_positions
from narthex._formats.pandas.frames import (
    JsonColumns,
    columns_of,
    frame_of_columns,
    rows_of,
    series_of,
    values_of,
)
from narthex._ir.types import DataType
from narthex.client.answers import columns_in
from narthex.client.query_parts import Answer, ask_in_parts, greatest_rows
from narthex.client.references import input_names, output_names
from narthex.client.responses import Response, parse_read
from narthex.errors import AnswerNotUnderstood, ArgumentsUnfit, Refused

_T = TypeVar("_T")
_FOUND = "found"


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


def log_call(
    webhook: str, endpoint: str, df: pd.DataFrame, batch_size: int
) -> DataCall[Response | None]:
    """Push rows in batches; return the last response, with the positions of all batches."""
    answer: Response | None = None
    after: list[str] = []
    unread: Counter[str] = Counter()
    for start in range(0, len(df), batch_size):
        batch = df.iloc[start : start + batch_size]
        answer = yield DataRequest(
            path="log",
            body={"webhook": webhook, "endpoint": endpoint, "data": _json(columns_of(batch))},
            key=secrets.token_hex(16),
        )
        if isinstance(position := answer.body.get("after"), str):
            after.append(position)
        if isinstance(names := answer.body.get("unread"), dict):
            unread.update({name: count for name, count in names.items() if type(count) is int})
    if answer is not None and after:
        answer.body["after"] = united_positions(after)
    if answer is not None and unread:
        answer.body["unread"] = dict(unread)
    return answer


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


def lookup_call(
    dataset: str,
    keys: pd.DataFrame,
    fields: Sequence[str] | None,
    timestamps: pd.Series | Sequence[datetime | str] | None,
    types: Mapping[str, DataType],
) -> DataCall[tuple[pd.DataFrame | pd.Series, pd.Series]]:
    """Look rows up by key; return them, and which were found."""
    body: dict[str, Json] = {"keys": [*map(_json, rows_of(keys))], "fields": [*(fields or ())]}
    if timestamps is not None:
        body["timestamps"] = values_of(list(timestamps))
    answer = yield DataRequest(path=f"dataset/{dataset}/lookup", body=body)
    found, data = answer.body.get(_FOUND), answer.body.get("data")
    if not isinstance(found, list) or not isinstance(data, dict):
        raise AnswerNotUnderstood("the answer has no rows")
    frame = frame_of_columns(columns_in(data), types)
    was_found = series_of(found)
    if fields is not None and len(fields) == 1:
        return frame[fields[0]], was_found
    return frame, was_found


def _asked(body: dict[str, Json]) -> DataCall[Answer]:
    """Send a query; return the columns, and the data that they were read from."""
    answer = yield DataRequest(path="query", body=body)
    if body.get("explain"):
        read = parse_read(answer.body.get("read"), answer.body.get("features"))
        return columns_in(answer.body.get("answers")), read
    header = answer.headers.get("x-narthex-read", "")
    return columns_in(answer.body), parse_read(json.loads(header) if header else None)


def _json(columns: Mapping[str, Json] | JsonColumns) -> Json:
    return dict(columns.items())


def _instant(instant: datetime | str) -> str:
    return instant if isinstance(instant, str) else render_instant(to_micros(instant))


def require_columns(names: Sequence[str], frame: pd.DataFrame) -> None:
    """Raise `ArgumentsUnfit` if a frame lacks a column."""
    missing = [name for name in names if name not in frame.columns]
    if missing:
        has = ", ".join(f"`{name}`" for name in frame.columns) or "none"
        raise ArgumentsUnfit(f"the frame has no column `{missing[0]}`; it has {has}")
