"""The request of an offline query, as the server stores it in the ledger."""

import json
from collections.abc import Iterable
from pathlib import Path

import attrs

from narthex._base import Json, from_plain
from narthex._ir import DatasetPlan, Definitions
from narthex.settings import OFFLINE_SPINE, Settings


@attrs.frozen(kw_only=True)
class OfflineDataset:
    """The location of a dataset's history.

    Attributes:
        log: The physical name of its topic, which is the key of its offsets.
    """

    plan: DatasetPlan
    history: str
    log: str


@attrs.frozen(kw_only=True)
class OfflineQuery:
    """An offline query as stored by the server.

    Attributes:
        offsets_column: The column with the log offsets of each row, as JSON text.
        at: The log offsets of the rows that have none of their own, as JSON text; empty for those
            that the histories contain when the query begins.
        spine: The Parquet file of its rows.
        output: The Parquet file that gets the answers.
    """

    definitions: Definitions
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    timestamp_column: str
    offsets_column: str | None
    at: str = ""
    spine: Path
    output: Path
    datasets: dict[str, OfflineDataset]


def parse_query(request: Json, settings: Settings, *, request_id: str, epoch: int) -> OfflineQuery:
    """Parse a request of the server.

    Args:
        request: The request as the ledger stores it.
        settings: The installation's settings.
        request_id: Its id, which determines where its spine is.
        epoch: The fence of this run; each run writes answers of its own.

    Raises:
        TypeError: The request is not an offline query.
    """
    if not isinstance(request, dict) or not isinstance(request["datasets"], dict):
        raise TypeError("not an offline query")
    definitions = from_plain(request["definitions"])
    if not isinstance(definitions, Definitions):
        raise TypeError("an offline query without definitions")
    return OfflineQuery(
        definitions=definitions,
        inputs=tuple(_texts(request["inputs"])),
        outputs=tuple(_texts(request["outputs"])),
        timestamp_column=str(request["timestamp_column"]),
        offsets_column=str(request["offsets_column"]) if request["offsets_column"] else None,
        at=json.dumps(request["at"]) if request.get("at") else "",
        spine=settings.offline_directory(request_id) / OFFLINE_SPINE,
        output=settings.offline_answers(request_id, epoch),
        datasets={name: _dataset(one) for name, one in request["datasets"].items()},
    )


def _texts(items: Json) -> Iterable[str]:
    return (str(item) for item in items) if isinstance(items, list) else ()


def _dataset(request: Json) -> OfflineDataset:
    if not isinstance(request, dict):
        raise TypeError("not a dataset of an offline query")
    plan = from_plain(request["plan"])
    if not isinstance(plan, DatasetPlan):
        raise TypeError("a dataset without a plan")
    return OfflineDataset(plan=plan, history=str(request["history"]), log=str(request["log"]))
