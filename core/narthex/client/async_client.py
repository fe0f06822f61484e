# mypy: disable-error-code="type-arg, explicit-any"
"""The client for programs on asyncio: rows, queries and lookups."""

import os
from collections.abc import Sequence
from datetime import datetime
from types import TracebackType
from typing import Self

import pandas as pd

from narthex._base.plain_values import values_of
from narthex._formats.pandas.frames import frame_of_columns
from narthex._sdk.datasets.datasets import Dataset
from narthex._server_calls.query_calls import (
    DataRequest,
    QueryOptions,
    carried_out_in_loop,
    query_call,
)
from narthex._server_calls.references import (
    dataset_name,
    dataset_types,
    input_names,
    known_types,
    output_names,
)
from narthex._server_calls.responses import ReadInfo, Response
from narthex._server_calls.transport import AsyncTransport
from narthex.client.frame_calls import log_call, lookup_call, require_columns


class AsyncClient:
    """A client of one server and one branch, called from one loop of asyncio.

    Any number of calls may wait at once. Arguments, results and errors are those of `Client`, which
    has all other calls. Use it as `async with AsyncClient(url, token) as client`.
    """

    def __init__(self, url: str, token: str = "", branch: str | None = None) -> None:
        """Open the connections; send nothing yet.

        Args:
            url: The server.
            token: Its token.
            branch: The branch of all calls; by default, that of the environment variable
                `NARTHEX_BRANCH`, or `main`.
        """
        self._transport = AsyncTransport(
            url, token, branch or os.environ.get("NARTHEX_BRANCH") or "main"
        )

    async def __aenter__(self) -> Self:
        """Return the client."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connections."""
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()

    def branch(self) -> str:
        """Return the branch of all calls."""
        return self._transport.branch

    async def log(
        self, webhook: str, endpoint: str, df: pd.DataFrame, batch_size: int = 1000
    ) -> Response | None:
        """Push rows to a webhook's endpoint in batches, one after the other, as `Client.log` does.

        Raises:
            Refused: Rows do not match the schema; the message names them.
        """
        return await carried_out_in_loop(log_call(webhook, endpoint, df, batch_size), self._sent)

    async def query(  # noqa: PLR0913 (those of `Client.query`)
        self,
        inputs: Sequence[object],
        outputs: Sequence[object],
        input_dataframe: pd.DataFrame,
        *,
        log: bool = False,
        workflow: str | None = None,
        sampling_rate: float | None = None,
        as_of: datetime | str | None = None,
        after: str | None = None,
    ) -> tuple[pd.DataFrame, ReadInfo | None]:
        """Compute features from input features, as `Client.query` does.

        Returns:
            The answer, and the commit and the instant that it was read at.

        Raises:
            ArgumentsUnfit: A column is missing.
            Refused: The server cannot answer, or the rows are not contained in time.
        """
        names = input_names(inputs)
        if not names or not outputs:
            return pd.DataFrame(), None
        require_columns(names, input_dataframe)
        columns = {name: values_of(input_dataframe[name]) for name in names}
        options = QueryOptions(
            as_of=as_of, log=log, workflow=workflow, sampling_rate=sampling_rate, after=after
        )
        call = query_call(names, output_names(outputs), columns, options)
        answers, read = await carried_out_in_loop(call, self._sent)
        return frame_of_columns(answers, known_types(outputs)), read

    async def lookup(
        self,
        dataset: Dataset | type | str,
        keys: pd.DataFrame,
        fields: Sequence[str] | None = None,
        timestamps: pd.Series | Sequence[datetime | str] | None = None,
    ) -> tuple[pd.DataFrame | pd.Series, pd.Series]:
        """Return a dataset's rows by key, and which were found, as `Client.lookup` does."""
        types = dataset_types(dataset)
        call = lookup_call(dataset_name(dataset), keys, fields, timestamps, types)
        return await carried_out_in_loop(call, self._sent)

    async def _sent(self, request: DataRequest) -> Response:
        return await self._transport.send(request.path, request.body, key=request.key)
