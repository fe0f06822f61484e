# mypy: disable-error-code="explicit-any"
"""The client with Fennel's import path."""

import inspect
from typing import Any, Final

import pandas as pd
from typing_extensions import override

import narthex.client
from narthex.client import Response

__all__ = ["Client"]

SIZES: Final = ("workflow", "use_v2", "num_dpus")
"""Arguments that name and size the jobs of another platform."""


class FennelClient(narthex.client.Client):
    """The client, which accepts the arguments of Fennel's that have no effect here."""

    @override
    def log(
        self, webhook: str, endpoint: str, df: pd.DataFrame, batch_size: int = 1000
    ) -> Response:
        """Push rows; without any, return the response that would accept them."""
        answer = super().log(webhook, endpoint, df, batch_size)
        return Response(status_code=200, headers={}, body={}) if answer is None else answer

    @override
    def query_offline(self, *args: Any, **given: Any) -> pd.DataFrame:
        """Query offline; `SIZES` are left out."""
        bound = inspect.signature(super().query_offline).bind(*args, **given)
        for name in SIZES:
            bound.arguments.pop(name, None)
        return super().query_offline(**bound.arguments)


Client = FennelClient
