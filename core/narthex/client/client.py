# mypy: disable-error-code="type-arg, explicit-any"
"""The client: commit definitions, push rows, query features."""

import secrets
from collections.abc import Sequence
from datetime import datetime

import pandas as pd

from narthex._base.plain_values import values_of
from narthex._base.records import Json
from narthex._formats.pandas.frames import frame_of_columns, frame_of_rows, rows_of
from narthex._ir.types import DataType
from narthex._sdk.datasets.datasets import Dataset
from narthex._server_calls.answers import columns_in
from narthex._server_calls.plain_client import PAUSE_S, PlainClient
from narthex._server_calls.query_calls import carried_out
from narthex._server_calls.references import (
    dataset_name,
    dataset_types,
    input_names,
    known_types,
    output_names,
)
from narthex._server_calls.responses import Response
from narthex._server_calls.transport import Caller
from narthex.client.frame_calls import log_call, lookup_call, require_columns
from narthex.client.training_sets import TrainingSetCalls
from narthex.errors import ArgumentsUnfit


class Client(PlainClient, TrainingSetCalls):
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
        super().__init__(url, token, branch, pause_s=pause_s, caller=caller)

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

    def erase(
        self,
        dataset_name: Dataset | type | str,
        erase_keys: pd.DataFrame,
        *,
        leave_sinks: Sequence[str] = (),
    ) -> Response:
        """Erase the rows of keys from a dataset, and from all that is derived from them.

        From the response on, endpoints leave out rows with these keys. The removal goes on in the
        background; `erasure` returns how far it is, and the certificate at its end.

        Args:
            dataset_name: The dataset, or its name.
            erase_keys: A column for each of its erase keys.
            leave_sinks: The targets of sinks with the rows that stay as they are, such as
                `kafka:broker:9092/members`; the certificate lists them as not erased. Those must be
                named in which sinks cannot delete. Sinks delete the rows in the other ones.

        Returns:
            The response, with the `erasure_id` and the `state`.

        Raises:
            ArgumentsUnfit: A column is missing, or is not an erase key.
            Refused: The platform cannot erase all rows that are derived from the dataset's, or a
                target in which a sink cannot delete is not named.
        """
        _check_erase_keys(dataset_name, list(erase_keys.columns))
        rows: list[Json] = [{**row} for row in rows_of(erase_keys)]
        path = f"dataset/{_name_of(dataset_name)}/erase"
        call: dict[str, Json] = {"erase_keys": rows}
        if leave_sinks:
            call["leave_sinks"] = [*leave_sinks]
        return self._transport.send(path, call, key=secrets.token_hex(16))

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


def _name_of(dataset: Dataset | type | str) -> str:
    return dataset_name(dataset)


def _check_erase_keys(dataset: Dataset | type | str, given: list[str]) -> None:
    if not isinstance(dataset, Dataset):
        return
    wanted = dataset.erase_key_fields
    wrong = sorted(set(wanted) ^ set(given))
    if wrong or not wanted:
        names = ", ".join(f"`{name}`" for name in wanted) or "none"
        found = ", ".join(f"`{name}`" for name in given) or "none"
        raise ArgumentsUnfit(
            f"`{dataset.fqn()}` is erased by {names}; the frame has {found}",
            hint="mark the keys with `field(key=True, erase_key=True)`" if not wanted else "",
        )
