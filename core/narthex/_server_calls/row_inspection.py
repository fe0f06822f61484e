"""The client's calls for rejected rows, which are not in their dataset, and for late rows."""

from collections.abc import Mapping, Sequence
from urllib.parse import quote

from narthex._base.records import Json
from narthex._sdk.datasets.datasets import Dataset
from narthex._server_calls.references import dataset_name
from narthex._server_calls.transport import Caller


class RowInspection:
    """The calls of a client that concern quarantined and late rows."""

    _transport: Caller

    def quarantined_rows(
        self, dataset: Dataset | type | str, *, limit: int = 100, before: str | None = None
    ) -> dict[str, Json]:
        """Return rows in a dataset's quarantine, newest first.

        `rows` has them, with the beginning of each `payload`; `total` is their number, and `next`
        the `before` of the next page, None on the last one.

        Raises:
            Refused: The dataset does not exist, has no quarantine, or is hidden from the token.
        """
        return self._transport.read(self._of(dataset, "quarantine"), _page(limit, before)).body

    def quarantined_row(self, dataset: Dataset | type | str, row: str) -> dict[str, Json]:
        """Return one row in quarantine by its name, with its whole payload.

        Raises:
            Refused: There is no such row.
        """
        path = self._of(dataset, f"quarantine/{quote(row, safe='')}")
        return self._transport.read(path).body

    def replay_rows(
        self,
        dataset: Dataset | type | str,
        rows: Sequence[str] | None = None,
        *,
        every: bool = False,
        payload: Mapping[str, Json] | None = None,
    ) -> list[Json]:
        """Validate rows that a source rejected again; accepted rows leave the quarantine.

        Args:
            dataset: The dataset.
            rows: The names of rows.
            every: All rows of the quarantine instead.
            payload: Replaces the payload of a single row.

        Returns:
            The `outcome` of each `row`, and the `reason` of one that is still rejected.

        Raises:
            Refused: A row does not exist, or comes from a pipeline.
        """
        body: dict[str, Json] = {
            "rows": None if rows is None else [*rows],
            "every": every,
            "payload": None if payload is None else {**payload},
        }
        return _rows(self._transport.send(self._of(dataset, "quarantine/replay"), body).body)

    def discard_rows(self, dataset: Dataset | type | str, rows: Sequence[str]) -> list[Json]:
        """Remove rows from a dataset's quarantine.

        Raises:
            Refused: A row does not exist.
        """
        path = self._of(dataset, "quarantine/discard")
        return _rows(self._transport.send(path, {"rows": [*rows]}).body)

    def late_rows(
        self, dataset: Dataset | type | str, *, limit: int = 100, before: str | None = None
    ) -> dict[str, Json]:
        """Return the rows that arrived later than the dataset's `disorder`, newest first.

        `rows` has them with their values, and with the span of instants and the datasets that each
        changed; `total` and `next` are as in `quarantined_rows`.

        Raises:
            Refused: The dataset does not exist, or has no source.
        """
        return self._transport.read(self._of(dataset, "late"), _page(limit, before)).body

    @staticmethod
    def _of(dataset: Dataset | type | str, what: str) -> str:
        return f"datasets/{quote(dataset_name(dataset), safe='')}/{what}"


def _page(limit: int, before: str | None) -> dict[str, str | int]:
    return {"limit": limit} | ({} if before is None else {"before": before})


def _rows(body: Mapping[str, Json]) -> list[Json]:
    rows = body.get("rows")
    return rows if isinstance(rows, list) else []
