"""Summaries of the rows that arrived in datasets, by column and hour.

A task summarizes the hours of each dataset's log and posts them; a repetition of an hour replaces
it. People read the statistics of the merged hours.
"""

import datetime as dt

from fastapi import APIRouter
from pydantic import AwareDatetime, BaseModel, ConfigDict, JsonValue
from typing_extensions import TypedDict

from narthex._base import to_plain
from narthex._ir import AssetKind
from narthex_ledger import HourSummary
from narthex_server.data.feature_summaries import (
    From,
    Names,
    To,
    hour_summary,
    hours_of,
    served,
    visible_columns,
)
from narthex_server.security.request_access import AccessDep
from narthex_server.security.route_rights import Extent, Right, requires
from narthex_server.services.container import ServicesDep
from narthex_server.web.plain_routes import Instant, PlainRoute

STEP = requires(Right.STEP, extent=Extent.INSTALLATION)
router = APIRouter(route_class=PlainRoute)


class SummarizedDataset(TypedDict):
    """A dataset of a branch, for the task that summarizes its rows.

    Attributes:
        plan: The record by which its rows are read.
        history: The name of its history, in the directory of histories.
        topic: The topic of its log.
        newest: The newest hour that is stored; null without one.
    """

    branch: str
    dataset: str
    plan: JsonValue
    history: str
    topic: str
    newest: Instant | None


class SummarizedDatasets(TypedDict):
    """The datasets of all branches."""

    datasets: list[SummarizedDataset]


class UploadedColumn(BaseModel):
    """The summary of the values of one column that arrived in one hour.

    Attributes:
        summary: The counts, as `narthex._drift` renders them.
    """

    model_config = ConfigDict(extra="forbid")

    branch: str
    dataset: str
    column: str
    hour: AwareDatetime
    summary: JsonValue


class ColumnUpload(BaseModel):
    """Summaries of hours, each of which replaces that of the same hour."""

    model_config = ConfigDict(extra="forbid")

    summaries: list[UploadedColumn]


class StoredColumns(TypedDict):
    """The number of summaries that were stored."""

    stored: int


class SummarizedColumn(TypedDict):
    """Statistics of a column of a dataset.

    Attributes:
        statistics: As those of training sets.
        histogram: For numbers, lower bounds of bins and how many values each has.
    """

    column: str
    statistics: JsonValue
    histogram: list[list[float]]


SummarizedColumns = TypedDict(
    "SummarizedColumns",
    {"from": Instant, "to": Instant, "columns": list[SummarizedColumn]},
)
"""Statistics of columns over the hours from `from` to `to` in which their rows arrived."""


@router.get("/column_summaries/state", dependencies=[STEP])
def state(services: ServicesDep) -> SummarizedDatasets:
    """List the datasets that each branch serves, and up to which hour they are summarized."""
    newest = services.ledger.feature_summaries.newest_hours()
    found: list[SummarizedDataset] = []
    for branch, snapshot in served(services):
        histories = snapshot.assets(AssetKind.HISTORY)
        for dataset in snapshot.definitions.datasets:
            history = histories.get(f"dataset/{dataset.name}/history")
            if history is None:
                continue
            plan = snapshot.dataset(dataset.name)
            hour = newest.get((branch, dataset.name))
            found.append(
                {
                    "branch": branch,
                    "dataset": dataset.name,
                    "plan": to_plain(plan),
                    "history": history.physical_name,
                    "topic": snapshot.topic(f"dataset/{dataset.name}/log"),
                    "newest": None if hour is None else hour.astimezone(dt.UTC).isoformat(),
                }
            )
    return {"datasets": found}


@router.post("/column_summaries", dependencies=[STEP])
def put(upload: ColumnUpload, services: ServicesDep) -> StoredColumns:
    """Store summaries of hours, over those of the same hours."""
    services.ledger.feature_summaries.replace([_hour_summary(one) for one in upload.summaries])
    return {"stored": len(upload.summaries)}


@router.get("/column_summaries", dependencies=[requires(Right.READ_DATA)])
def statistics(
    access: AccessDep, from_: From = None, to: To = None, dataset: Names = None
) -> SummarizedColumns:
    """Return statistics of the rows that arrived in datasets, in the last 24 hours by default."""
    span = hours_of(from_, to)
    found = access.ledger.feature_summaries.merged(access.branch, span)
    return {
        "from": span[0].isoformat(),
        "to": span[1].isoformat(),
        "columns": [
            {
                "column": column,
                "statistics": found[column].statistics().plain(),
                "histogram": [[*one] for one in found[column].histogram()],
            }
            for column in visible_columns(access, found, datasets=dataset)
        ],
    }


def _hour_summary(uploaded: UploadedColumn) -> HourSummary:
    name = f"{uploaded.dataset}.{uploaded.column}"
    return hour_summary(uploaded.branch, name, uploaded.hour, uploaded.summary)
