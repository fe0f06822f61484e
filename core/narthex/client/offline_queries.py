# mypy: disable-error-code="type-arg, explicit-any"
"""The client's calls for offline queries: many rows, each as of its own instant."""

from collections.abc import Mapping, Sequence
from typing import Final

import attrs
import pandas as pd

from narthex._authoring.source_locations import author_origin
from narthex._base.plain_values import JsonColumns, values_of
from narthex._base.records import Json, from_plain
from narthex._formats.pandas.spines import answered_frame, dtypes_of, plain_dtypes
from narthex._ir.node_schema import did_you_mean, listed
from narthex._ir.types import DataType
from narthex._query import report_of, spine_problems
from narthex._server_calls.answers import columns_in
from narthex._server_calls.offline_records import OfflineRecords
from narthex._server_calls.references import input_names, known_types, output_names
from narthex._server_calls.transport import text_of
from narthex._server_calls.waiting import Tell, print_news, wait_for_answers
from narthex.errors import ArgumentsUnfit, NotYetSupported

OFFLINE_TIMEOUT_S: Final = 3600.0


@attrs.frozen(kw_only=True)
class AskedSpine:
    """The rows of an offline query, as they are sent.

    Attributes:
        inputs: The names of the given features.
        columns: A column for each input, the instants, and all other columns of the frame.
        dtypes: The dtypes of the frame's columns.
    """

    inputs: list[str]
    columns: JsonColumns
    timestamp_column: str
    dtypes: dict[str, str]

    def body(self, outputs: Sequence[object], at: Mapping[str, Json] | None) -> dict[str, Json]:
        """Return the request for features of these rows."""
        return {
            "inputs": [*self.inputs],
            "outputs": [*output_names(outputs)],
            "timestamp_column": self.timestamp_column,
            "data": dict(self.columns.items()),
            "dtypes": dict(self.dtypes.items()),
            **({"at": dict(at)} if at is not None else {}),
        }


class OfflineCalls(OfflineRecords):
    """The calls of a client that ask and answer offline queries."""

    _pause_s: float
    _tell: Tell = staticmethod(print_news)

    def query_offline(  # noqa: PLR0913, PLR0917 (Fennel's signature)
        self,
        inputs: Sequence[object],
        outputs: Sequence[object],
        timestamp_column: str,
        input_dataframe: pd.DataFrame | None = None,
        input_s3: object = None,
        output_s3: object = None,
        feature_to_column_map: Mapping[object, str] | None = None,
        workflow: str | None = None,
        use_v2: bool = True,
        num_dpus: int | None = None,
        *,
        at: Mapping[str, Json] | None = None,
        timeout_s: float = OFFLINE_TIMEOUT_S,
        tell: Tell | None = None,
    ) -> pd.DataFrame:
        """Query features for many rows, each as of its own instant; wait, and return a frame.

        The frame has the columns of `input_dataframe` in their order, with inputs under the names
        of their features, and then the features that are not among them. Instants are datetimes in
        UTC, features have the dtypes of their types, and the index counts from 0. Its
        `attrs["request_id"]` is the id of the query.

        Args:
            inputs: The given features.
            outputs: The features, or whole featuresets, to compute.
            timestamp_column: The column with the instants.
            input_dataframe: The rows; the frame is not changed.
            input_s3: Refused: answers are for frames only.
            output_s3: Refused, likewise.
            feature_to_column_map: Maps inputs to their columns, if these have other names.
            workflow: Refused: offline queries are not logged.
            use_v2: Refused unless True: there is one engine.
            num_dpus: Refused: the platform's settings size its drivers.
            at: The log offsets to answer at: `offsets` of the status of a query that is done. While
                the branch has the same commit, the answers are the same. Without them, rows are
                answered at the newest offsets.
            timeout_s: The longest time to wait; the query itself continues.
            tell: Receives the progress; by default, it is printed on stderr.

        Raises:
            ArgumentsUnfit: The frame cannot be answered for; the message has all problems.
            NotYetSupported: An argument would have no effect; the message has all of them.
            CommitFailed: The query failed, was cancelled, or did not finish in time.
        """
        _require_effects(
            input_s3=input_s3,
            output_s3=output_s3,
            workflow=workflow,
            use_v2=None if use_v2 else use_v2,
            num_dpus=num_dpus,
        )
        spine = asked_spine(inputs, timestamp_column, input_dataframe, feature_to_column_map)
        request_id = self._start(spine.body(outputs, at))
        return self._answered(request_id, spine, timeout_s=timeout_s, tell=tell)

    def start_offline_query(
        self,
        inputs: Sequence[object],
        outputs: Sequence[object],
        timestamp_column: str,
        input_dataframe: pd.DataFrame,
        *,
        feature_to_column_map: Mapping[object, str] | None = None,
        at: Mapping[str, Json] | None = None,
    ) -> str:
        """Queue an offline query and return its id, without waiting; see `query_offline`.

        `track_offline_query` returns its status, `offline_answers` waits and returns the frame.

        Raises:
            ArgumentsUnfit: The frame cannot be answered for; the message has all problems.
        """
        spine = asked_spine(inputs, timestamp_column, input_dataframe, feature_to_column_map)
        return self._start(spine.body(outputs, at))

    def query_offline_columns(  # noqa: PLR0913 (keywords)
        self,
        inputs: Sequence[object],
        outputs: Sequence[object],
        columns: Mapping[str, Sequence[object]],
        *,
        timestamp_column: str,
        offsets_column: str | None = None,
        at: Mapping[str, Json] | None = None,
        timeout_s: float = OFFLINE_TIMEOUT_S,
        tell: Tell | None = None,
    ) -> dict[str, list[object]]:
        """Query with plain columns, wait, and return plain columns in the same row order.

        Args:
            inputs: The given features.
            outputs: The features, or whole featuresets, to compute.
            columns: A column for each input, and those named below.
            timestamp_column: The column with the instants.
            offsets_column: A column with the log offsets at which to answer each row, as JSON text:
                those that `query_columns` returned with an online answer.
            at: The log offsets of the rows without offsets of their own, as in `query_offline`.
            timeout_s: The longest time to wait.
            tell: Receives the progress; by default, it is printed on stderr.
        """
        spine = AskedSpine(
            inputs=input_names(inputs),
            columns={name: values_of(values) for name, values in columns.items()},
            timestamp_column=timestamp_column,
            dtypes={},
        )
        offsets: dict[str, Json] = {"offsets": offsets_column} if offsets_column else {}
        request_id = self._start({**spine.body(outputs, at), **offsets})
        self._wait_for(request_id, timeout_s=timeout_s, tell=tell)
        return columns_in(self._part(request_id, "answers"))

    def offline_answers(
        self, request_id: str, *, timeout_s: float = OFFLINE_TIMEOUT_S, tell: Tell | None = None
    ) -> pd.DataFrame:
        """Wait for an offline query and return its frame, as `query_offline` does.

        Raises:
            CommitFailed: The query failed, was cancelled, or did not finish in time.
            Refused: There is no such query, or its answers were deleted, a week after its end.
        """
        status = self._wait_for(request_id, timeout_s=timeout_s, tell=tell)
        spine = self._part(request_id, "spine")
        return self._frame(
            request_id,
            columns_in(spine.get("columns")),
            types_in(status.get("types")),
            timestamp_column=text_of(spine, "timestamp_column"),
            dtypes=plain_dtypes(spine.get("dtypes")),
        )

    def _start(self, body: dict[str, Json]) -> str:
        return text_of(self._transport.send("query_offline", body).body, "request_id")

    def _wait_for(self, request_id: str, *, timeout_s: float, tell: Tell | None) -> dict[str, Json]:
        return wait_for_answers(
            self._transport,
            request_id,
            tell=tell or self._tell,
            timeout_s=timeout_s,
            pause_s=self._pause_s,
        )

    def _answered(
        self, request_id: str, spine: AskedSpine, *, timeout_s: float, tell: Tell | None
    ) -> pd.DataFrame:
        status = self._wait_for(request_id, timeout_s=timeout_s, tell=tell)
        return self._frame(
            request_id,
            spine.columns,
            types_in(status.get("types")),
            timestamp_column=spine.timestamp_column,
            dtypes=spine.dtypes,
        )

    def _frame(
        self,
        request_id: str,
        columns: Mapping[str, Sequence[object]],
        types: Mapping[str, DataType],
        *,
        timestamp_column: str,
        dtypes: Mapping[str, str],
    ) -> pd.DataFrame:
        answers = columns_in(self._part(request_id, "answers"))
        frame = answered_frame(
            columns, answers, timestamp_column=timestamp_column, types=types, dtypes=dtypes
        )
        frame.attrs["request_id"] = request_id
        return frame


def asked_spine(
    inputs: Sequence[object],
    timestamp_column: str,
    frame: pd.DataFrame | None,
    names: Mapping[object, str] | None,
) -> AskedSpine:
    """Return a frame as the rows of an offline query.

    Args:
        inputs: The given features.
        timestamp_column: The column with the instants.
        frame: The rows.
        names: Maps inputs to their columns, if these have other names.

    Raises:
        ArgumentsUnfit: The frame cannot be answered for; the message has all problems.
    """
    if frame is None:
        raise ArgumentsUnfit("there are no rows to answer for", hint="pass `input_dataframe`")
    features = input_names(inputs)
    columns_of = _columns_by_feature(names or {}, features)
    twice = dict.fromkeys(frame.columns[frame.columns.duplicated()])
    problems = [f"two columns are named `{name}`" for name in twice]
    lost = {feature: column for feature, column in columns_of.items() if column not in frame}
    problems += [
        f"the frame has no column `{c}`, which is `{feature}`" for feature, c in lost.items()
    ]
    series = _renamed(frame.loc[:, ~frame.columns.duplicated()], columns_of, kept=timestamp_column)
    columns = {name: values_of(values) for name, values in series.items()}
    problems += spine_problems(
        columns,
        [name for name in features if name not in lost],
        timestamp_column=timestamp_column,
        types=known_types(inputs),
    )
    if problems:
        raise ArgumentsUnfit(report_of(problems))
    return AskedSpine(
        inputs=features,
        columns=columns,
        timestamp_column=timestamp_column,
        dtypes=dtypes_of(pd.DataFrame(series)),
    )


def types_in(plain: Json) -> dict[str, DataType]:
    """Return types that a server sent, by the name of their feature."""
    found = {name: from_plain(of) for name, of in plain.items()} if isinstance(plain, dict) else {}
    return {name: of for name, of in found.items() if isinstance(of, DataType)}


def _require_effects(**arguments: object) -> None:
    given = [name for name, value in arguments.items() if value is not None]
    if given:
        raise NotYetSupported(
            f"{listed(given)} of `query_offline` would have no effect",
            origin=author_origin(),
            hint="leave it out" if len(given) == 1 else "leave them out",
        )


def _columns_by_feature(names: Mapping[object, str], inputs: Sequence[str]) -> dict[str, str]:
    columns = {input_names([feature])[0]: column for feature, column in names.items()}
    for feature in columns:
        if feature not in inputs:
            raise ArgumentsUnfit(
                f"`feature_to_column_map` has `{feature}`, which is not an input",
                hint=did_you_mean(feature, inputs),
            )
    return columns


def _renamed(
    frame: pd.DataFrame, columns_of: Mapping[str, str], *, kept: str
) -> dict[str, pd.Series]:
    """Return a frame's columns; each that inputs are mapped to is there under their names."""
    features: dict[str, list[str]] = {}
    for feature, column in columns_of.items():
        features.setdefault(column, []).append(feature)
    found: dict[str, pd.Series] = {}
    for column in map(str, frame.columns):
        mapped = features.get(column, [column])
        for name in dict.fromkeys([column, *mapped] if column == kept else mapped):
            found[name] = frame[column]
    return found
