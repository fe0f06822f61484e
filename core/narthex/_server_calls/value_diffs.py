"""The client's call that compares the values of a dataset or a featureset on two branches."""

import datetime as dt
from collections.abc import Mapping, Sequence

from narthex._base.records import Json
from narthex._sdk.datasets.datasets import Dataset
from narthex._sdk.features.featuresets import Featureset
from narthex._server_calls.references import dataset_name
from narthex._server_calls.transport import Caller
from narthex.errors import ArgumentsUnfit


class ValueDiffCalls:
    """The calls of a client that compare values."""

    _transport: Caller

    def diff(
        self,
        dataset: Dataset | Featureset | type | str,
        first: str,
        second: str,
        *,
        share: float | None = None,
        keys: Sequence[Mapping[str, Json]] | None = None,
        at: dt.datetime | None = None,
    ) -> dict[str, Json]:
        """Compare the values of a dataset, or of a featureset, on two branches.

        Both branches read their histories, as of one instant. The features of a featureset are
        asked for rows of logged queries of the first branch, if there are any, else for keys of the
        datasets that they look up.

        Args:
            dataset: The dataset or the featureset.
            first: A branch.
            second: The branch that is compared with it.
            share: The share of keys to compare, more than 0 and at most 1. Both branches have the
                same keys of a sample. By default, as many are compared as the server allows.
            keys: The keys to compare instead: for each, the values of all key columns; of a
                featureset the features that callers give, by their full names.
            at: The instant as of which values are compared, in a time zone; by default the newest
                event time up to which both branches have rows.

        Returns:
            `keys` counts the keys that differ, `columns` has the difference of each column,
            `features` the features that depend on these, `causes` the datasets or features that
            are the first to differ, walking upstream, `examples` some keys with both values, and
            `summary` a sentence. Without the right to read data there are counts only.

        Raises:
            ArgumentsUnfit: Both `share` and `keys` are given, or the instant lacks a zone.
            Refused: A branch has no such dataset or featureset, or the sides cannot be compared.
        """
        if share is not None and keys is not None:
            raise ArgumentsUnfit("pass either `share` or `keys`, not both")
        if at is not None and at.tzinfo is None:
            raise ArgumentsUnfit("`at` needs a time zone, such as `datetime.UTC`")
        body: dict[str, Json] = {
            "dataset": (
                dataset.fqn() if isinstance(dataset, Featureset) else dataset_name(dataset)
            ),
            "branches": [first, second],
            "share": share,
            "keys": None if keys is None else [{**key} for key in keys],
            "at": None if at is None else at.isoformat(),
        }
        return self._transport.send("diff", body).body
