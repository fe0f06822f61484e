# mypy: disable-error-code="type-arg, explicit-any"
"""The client's calls for training sets: answers of offline queries that are kept under a name."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

import attrs
import pandas as pd

from narthex._base.records import Json
from narthex._formats.pandas.spines import answered_frame, plain_dtypes
from narthex._server_calls.answers import columns_in
from narthex._server_calls.notebook_views import MOST_ROWS, facts_view, rows_view
from narthex._server_calls.transport import text_of
from narthex._server_calls.waiting import Tell
from narthex._training import SET_NAME
from narthex.client.offline_queries import (
    OFFLINE_TIMEOUT_S,
    OfflineCalls,
    asked_spine,
    types_in,
)
from narthex.errors import ArgumentsUnfit

_FEATURE: Final = re.compile(r"[^\W\d]\w*\.[^\W\d]\w*")


@attrs.frozen(kw_only=True, eq=False)
class TrainingSet:
    """A training set: rows with their features, kept under a name, that never changes.

    Attributes:
        name: Its name, of which a branch has one.
        frame: Its rows: the columns of the spine, then the features.
        features: The full names of its features.
        timestamp_column: The column with the instants.
        commit_id: The commit whose features it has.
        offsets: The log offsets at which it was answered: the `at` of `query_offline`.
        statistics: For each feature, numbers of rows, nulls and defaults; of numbers, mean, sample
            standard deviation and percentiles 0 to 100; of other values, the most frequent ones.
        data_sha256: The hash of the file of its rows.
        created_at: The instant at which it was stored.
    """

    name: str
    frame: pd.DataFrame
    features: tuple[str, ...]
    timestamp_column: str
    commit_id: str
    offsets: Json
    statistics: Mapping[str, Mapping[str, Json]]
    data_sha256: str
    created_at: str

    def _repr_html_(self) -> str:
        facts = {
            "training set": self.name,
            "rows": len(self.frame),
            "commit": self.commit_id,
            "created": self.created_at,
        }
        shown = self.frame.head(MOST_ROWS)
        rows = [[*row] for row in shown.itertuples(index=False, name=None)]
        return facts_view(facts.items()) + rows_view([str(one) for one in shown.columns], rows)


class TrainingSetCalls(OfflineCalls):
    """The calls of a client that concern training sets."""

    def training_set(  # noqa: PLR0913 (keywords)
        self,
        name: str,
        spine: pd.DataFrame | None = None,
        features: Sequence[object] = (),
        *,
        timestamp_column: str = "timestamp",
        inputs: Sequence[object] | None = None,
        at: Mapping[str, Json] | None = None,
        timeout_s: float = OFFLINE_TIMEOUT_S,
        tell: Tell | None = None,
    ) -> TrainingSet:
        """Return a training set; with a spine, make it unless it is stored already.

        The features of each row are those as of its instant, from history. The set stays as it is:
        the same call returns it again, even after other commits, and another spine, other features
        or other offsets are refused under its name. It is kept until `delete_training_set`.

        Args:
            name: Its name: letters, digits, `_`, `.` and `-`, at most 100.
            spine: The rows, with labels and whatever else belongs to them; without one, the set is
                loaded.
            features: The features, or whole featuresets, to compute.
            timestamp_column: The column with the instants.
            inputs: The given features; by default, the columns named like one,
                `Featureset.feature`.
            at: The log offsets to answer at; by default, the newest.
            timeout_s: The longest time to wait; the query itself continues, and the same call waits
                for it again.
            tell: Receives the progress; by default, it is printed on stderr.

        Raises:
            ArgumentsUnfit: The spine cannot be answered for; the message has all problems.
            CommitFailed: The query failed, was cancelled, or did not finish in time.
            Refused: The name is taken by another set, or, without a spine, there is none.
        """
        if re.fullmatch(SET_NAME, name) is None:
            raise ArgumentsUnfit(
                f"`{name}` is not the name of a training set",
                hint="use letters, digits, `_`, `.` and `-`, at most 100",
            )
        if spine is None:
            return self._loaded(name)
        if not features:
            raise ArgumentsUnfit("there are no features to compute", hint="pass `features`")
        given = [one for one in map(str, spine.columns) if _FEATURE.fullmatch(one)]
        asked = asked_spine(given if inputs is None else inputs, timestamp_column, spine, None)
        body = {**asked.body(features, at), "name": name}
        answer = self._transport.send("training_sets", body).body
        if text_of(answer, "status") != "stored":
            request_id = text_of(answer, "request_id")
            self._wait_for(request_id, timeout_s=timeout_s, tell=tell)
            self._transport.send(f"training_sets/{name}", {"request_id": request_id})
        return self._loaded(name)

    def _loaded(self, name: str) -> TrainingSet:
        told = self._transport.read(f"training_sets/{name}").body
        columns = columns_in(self._transport.read(f"training_sets/{name}/rows").body)
        features = told.get("features")
        wanted = [str(one) for one in features] if isinstance(features, list) else []
        dtypes = plain_dtypes(told.get("dtypes"))
        added = {one for one in wanted if one not in dtypes}
        timestamp_column = text_of(told, "timestamp_column")
        frame = answered_frame(
            {one: values for one, values in columns.items() if one not in added},
            {one: values for one, values in columns.items() if one in added},
            timestamp_column=timestamp_column,
            types=types_in(told.get("types")),
            dtypes=dtypes,
        )
        statistics = told.get("statistics")
        return TrainingSet(
            name=name,
            frame=frame,
            features=tuple(wanted),
            timestamp_column=timestamp_column,
            commit_id=text_of(told, "commit_id"),
            offsets=told.get("offsets"),
            statistics={
                feature: of
                for feature, of in (statistics if isinstance(statistics, dict) else {}).items()
                if isinstance(of, dict)
            },
            data_sha256=text_of(told, "data_sha256"),
            created_at=text_of(told, "created_at"),
        )
