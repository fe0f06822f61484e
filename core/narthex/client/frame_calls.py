# mypy: disable-error-code="type-arg, explicit-any"
"""Calls with frames - `log`, `lookup` - as the requests that they send, for any transport."""

import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime

import pandas as pd

from narthex._base.plain_values import JsonColumns, values_of
from narthex._base.records import Json
from narthex._formats.log_positions import united_positions
from narthex._formats.pandas.frames import columns_of, frame_of_columns, rows_of, series_of
from narthex._ir.types import DataType
from narthex._server_calls.answers import columns_in
from narthex._server_calls.query_calls import DataCall, DataRequest
from narthex._server_calls.responses import Response
from narthex.errors import AnswerNotUnderstood, ArgumentsUnfit

_FOUND = "found"


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


def require_columns(names: Sequence[str], frame: pd.DataFrame) -> None:
    """Raise `ArgumentsUnfit` if a frame lacks a column."""
    missing = [name for name in names if name not in frame.columns]
    if missing:
        has = ", ".join(f"`{name}`" for name in frame.columns) or "none"
        raise ArgumentsUnfit(f"the frame has no column `{missing[0]}`; it has {has}")


def _json(columns: Mapping[str, Json] | JsonColumns) -> Json:
    return dict(columns.items())
