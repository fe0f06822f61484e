# mypy: disable-error-code="type-arg, explicit-any"
"""The client: commit definitions, push rows, query features."""

import os
import secrets
import weakref
from collections.abc import Mapping, Sequence
from datetime import datetime

import pandas as pd

from narthex._base.records import Json
from narthex._formats.pandas.frames import (
    frame_of_columns,
    frame_of_rows,
    values_of,
)
from narthex._ir.types import DataType
from narthex._sdk.commit_definitions import encoded_commit
from narthex._sdk.datasets.datasets import Dataset
from narthex._sdk.features.featuresets import Featureset
from narthex.client.administration import Administration
from narthex.client.answers import columns_in
from narthex.client.data_calls import (
    DataRequest,
    QueryOptions,
    carried_out,
    log_call,
    lookup_call,
    query_call,
    require_columns,
)
from narthex.client.drift import DriftCalls
from narthex.client.references import (
    dataset_name,
    dataset_types,
    input_names,
    known_types,
    output_names,
)
from narthex.client.responses import ReadInfo, Response
from narthex.client.row_inspection import RowInspection
from narthex.client.training_sets import TrainingSetCalls
from narthex.client.transport import Caller, Transport, text_of
from narthex.client.value_diffs import ValueDiffCalls
from narthex.client.waiting import Tell, print_news, wait_for_commit
from narthex.errors import ArgumentsUnfit

PAUSE_S = 1.0
COMMIT_TIMEOUT_S = 1800.0


class Client(Administration, RowInspection, TrainingSetCalls, DriftCalls, ValueDiffCalls):
    """A client of one server and one branch.

    Create it once, and use it from one thread at a time. `last_read` describes the data that the
    last answer of `query` was read from; `pause_s` is the longest interval between the polls of
    calls that wait.
    """

    def __init__(
        self,
        url: str,
        token: str = "",
        branch: str | None = None,
        *,
        pause_s: float = PAUSE_S,
        caller: Caller | None = None,
    ) -> None:
        """Open the connections; send nothing yet.

        Args:
            url: The server.
            token: Its token.
            branch: The branch of all calls; by default, that of the environment variable
                `NARTHEX_BRANCH`, or `main`.
            pause_s: The longest interval between the polls of calls that wait.
            caller: Makes the calls; by default, over HTTP.
        """
        self._transport: Caller = caller or Transport(
            url, token, branch or os.environ.get("NARTHEX_BRANCH") or "main"
        )
        # A client that is never closed, as in a command, must not leave connections open.
        weakref.finalize(self, self._transport.close)
        self._url = url
        self._added: dict[str, Dataset | Featureset] = {}
        self._pause_s = pause_s
        self.last_read: ReadInfo | None = None

    def branch(self) -> str:
        """Return the branch of all calls."""
        return self._transport.branch

    def checkout(self, name: str, init: bool = False) -> None:
        """Use another branch for all later calls; with `init`, create it if it does not exist."""
        if init and name not in self.list_branches():
            self.init_branch(name)
        self._transport.branch = name

    def add(self, obj: Dataset | Featureset) -> None:
        """Add an entity to the next commit; a preview includes it and leaves it for the commit.

        Raises:
            ArgumentsUnfit: An entity of that name was already added, or it is not an entity.
        """
        if not isinstance(obj, Dataset | Featureset):
            raise ArgumentsUnfit(f"`{obj!r}` is neither a dataset nor a featureset")
        if obj.fqn() in self._added:
            raise ArgumentsUnfit(f"`{obj.fqn()}` waits for the next commit already")
        self._added[obj.fqn()] = obj

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def read(self, path: str, parameters: Mapping[str, str | int] | None = None) -> dict[str, Json]:
        """Return the server's response for a path below `/api/v1`, such as `jobs`."""
        return self._transport.read(path, parameters).body

    def commit(  # noqa: PLR0913, PLR0917 (Fennel's signature)
        self,
        message: str,
        datasets: Sequence[Dataset | type] | None = None,
        featuresets: Sequence[Featureset | type] | None = None,
        preview: bool = False,
        env: str | None = None,
        incremental: bool = False,
        backfill: bool = True,
        *,
        expect_plan: str = "",
        confirm_empty: bool = False,
        wait: bool = True,
        timeout_s: float = COMMIT_TIMEOUT_S,
        tell: Tell = print_news,
    ) -> Response:
        """Commit definitions to the branch, and wait until they serve.

        Progress is reported on stderr. With `preview`, return the plan and change nothing.

        Args:
            message: The purpose of the commit.
            datasets: All datasets of the branch; with `incremental`, those to add or change.
            featuresets: All featuresets of the branch; with `incremental`, those to add or change.
            preview: Only plan.
            env: Select the declarations for this env and those without an env.
            incremental: Keep all other definitions of the branch.
            backfill: Fill new assets with history; if false, a commit that needs it is refused.
            expect_plan: The `plan_sha256` of a preview; a commit with any other plan is refused.
            confirm_empty: Remove all definitions of the branch if the commit has none; if false,
                such a commit is refused.
            wait: Wait until readers read it; if false, until it is accepted.
            timeout_s: The longest time to wait; the commit continues by itself.
            tell: Receives each line of progress.

        Raises:
            DefinitionErrors: All errors in the definitions, each with its file and line.
            CommitFailed: The commit failed and was removed completely.
            Refused: The server refused it, for instance because another one is in progress.
        """
        added = self._added.values()
        payload = encoded_commit(
            message,
            [*(datasets or ()), *(one for one in added if isinstance(one, Dataset))],
            [*(featuresets or ()), *(one for one in added if isinstance(one, Featureset))],
            env=env,
            preview=preview,
            incremental=incremental,
            backfill=backfill,
        )
        answer = self._transport.send(
            "commit",
            payload,
            parameters={
                "preview": str(preview).lower(),
                "incremental": str(incremental).lower(),
                "backfill": str(backfill).lower(),
                **({"expect_plan": expect_plan} if expect_plan else {}),
                **({"confirm_empty": "true"} if confirm_empty else {}),
            },
            key=secrets.token_hex(16),
        )
        if not preview:
            self._added.clear()
        for line in _texts(answer.body.get("summary")):
            tell(line)
        if preview or not wait:
            return answer
        commit_id = text_of(answer.body, "commit_id")
        return self.wait(commit_id, timeout_s=timeout_s, tell=tell)

    def wait(
        self, commit_id: str, *, timeout_s: float = COMMIT_TIMEOUT_S, tell: Tell = print_news
    ) -> Response:
        """Wait until readers read a commit.

        Raises:
            CommitFailed: The commit failed, or did not finish in time.
        """
        return wait_for_commit(
            self._transport, commit_id, tell=tell, timeout_s=timeout_s, pause_s=self._pause_s
        )

    def log(
        self, webhook: str, endpoint: str, df: pd.DataFrame, batch_size: int = 1000
    ) -> Response | None:
        """Push rows to a webhook's endpoint, in batches; each is accepted whole or not at all.

        Return the last response, whose `after` waits for all batches, and whose `unread` counts the
        rows of all batches that have a column that no dataset reads; None if there are no rows.

        Raises:
            Refused: Rows do not match the schema; the message names them.
        """
        return carried_out(log_call(webhook, endpoint, df, batch_size), self._sent)

    def query(  # noqa: PLR0913, PLR0917 (Fennel's signature)
        self,
        inputs: Sequence[object],
        outputs: Sequence[object],
        input_dataframe: pd.DataFrame,
        log: bool = False,
        workflow: str | None = None,
        sampling_rate: float | None = None,
        as_of: datetime | str | None = None,
        *,
        explain: bool = False,
        after: str | None = None,
    ) -> pd.DataFrame:
        """Compute features from input features, as of now or of one instant.

        Args:
            inputs: The given features.
            outputs: The features, or whole featuresets, to compute.
            input_dataframe: A column for each input, named by its full name.
            log: Whether the platform stores the answer, with the log offsets at which it was read.
            workflow: A name for the purpose of the query; stored with the answer.
            sampling_rate: The share of answers to store; by default, all.
            as_of: The instant; by default, now.
            explain: Whether `last_read` has the log offsets that the answer contains, with which
                an offline query gives the same answer again, and the origin of each feature.
            after: `after` of the response of `log`: the query waits until its datasets contain
                those rows, up to a minute.

        Raises:
            ArgumentsUnfit: A column is missing.
            Refused: The server cannot answer, or the rows are not contained in time.
        """
        names = input_names(inputs)
        if not names or not outputs:
            return pd.DataFrame()
        require_columns(names, input_dataframe)
        columns = {name: values_of(input_dataframe[name]) for name in names}
        answers, _ = self.query_columns(
            names,
            output_names(outputs),
            columns,
            as_of=as_of,
            log=log,
            workflow=workflow,
            sampling_rate=sampling_rate,
            explain=explain,
            after=after,
        )
        return frame_of_columns(answers, self._types_of(outputs))

    def query_columns(  # noqa: PLR0913 (those of `query`)
        self,
        inputs: Sequence[object],
        outputs: Sequence[object],
        columns: Mapping[str, Sequence[object]],
        *,
        as_of: datetime | str | None = None,
        log: bool = False,
        workflow: str | None = None,
        sampling_rate: float | None = None,
        explain: bool = False,
        after: str | None = None,
    ) -> tuple[dict[str, list[object]], dict[str, Json]]:
        """Query with plain columns; return plain columns, and the data that they were read from.

        Its log offsets are known only of a query with `explain`. A query of more values than the
        server answers at once is asked in parts, as of one instant, unless it has `explain`.
        """
        options = QueryOptions(
            as_of=as_of,
            log=log,
            workflow=workflow,
            sampling_rate=sampling_rate,
            explain=explain,
            after=after,
        )
        call = query_call(inputs, outputs, columns, options)
        answers, read = carried_out(call, self._sent)
        self.last_read = read
        return answers, read.plain() if read else {}

    def lookup(
        self,
        dataset: Dataset | type | str,
        keys: pd.DataFrame,
        fields: Sequence[str] | None = None,
        timestamps: pd.Series | Sequence[datetime | str] | None = None,
    ) -> tuple[pd.DataFrame | pd.Series, pd.Series]:
        """Return a dataset's rows by key, as of now or of an instant each, and which were found.

        With exactly one field, return a series instead of a frame.
        """
        types = self._types_in(dataset)
        call = lookup_call(dataset_name(dataset), keys, fields, timestamps, types)
        return carried_out(call, self._sent)

    def _sent(self, request: DataRequest) -> Response:
        return self._transport.send(request.path, request.body, key=request.key)

    def inspect(self, dataset: Dataset | type | str, n: int = 10) -> pd.DataFrame:
        """Return some of a dataset's newest rows."""
        body = self._transport.read(f"dataset/{dataset_name(dataset)}/inspect", {"n": n}).body
        rows = body.get("items", body.get("rows"))
        if isinstance(rows, list):
            return frame_of_rows([row for row in rows if isinstance(row, dict)])
        return frame_of_columns(columns_in(body), self._types_in(dataset))

    def _types_of(self, outputs: Sequence[object]) -> dict[str, DataType]:
        """Return the types of features that were passed as objects, by full name."""
        return known_types(outputs)

    def _types_in(self, dataset: Dataset | type | str) -> dict[str, DataType]:
        """Return the types of a dataset's fields; none if only its name is known."""
        return dataset_types(dataset)


def _texts(lines: Json) -> list[str]:
    return [str(line) for line in lines] if isinstance(lines, list) else []
