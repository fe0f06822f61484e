"""Summaries of the logged answers of features, by the hour.

A task summarizes the log of logged queries and posts the summaries with the offsets that they are
of; a repetition, or a second task, is refused. People read the statistics of the merged hours.
"""

import contextlib
import datetime as dt
from collections.abc import Collection, Iterator
from typing import Annotated, TypeAlias

from fastapi import APIRouter, Query
from pydantic import AwareDatetime, BaseModel, ConfigDict, JsonValue
from typing_extensions import TypedDict

from narthex._base import Json
from narthex._drift import FeatureSummary, InvalidSummaryError, kind_of
from narthex_ledger import HourSummary, NotFound
from narthex_server.errors import Conflicting, InvalidRequest, Missing
from narthex_server.security.dataset_access import Access
from narthex_server.security.request_access import AccessDep
from narthex_server.security.route_rights import Extent, Right, requires
from narthex_server.services.branch_snapshots import BranchSnapshot
from narthex_server.services.container import Services, ServicesDep
from narthex_server.web.error_responses import raises
from narthex_server.web.plain_routes import Instant, PlainRoute

HOUR = dt.timedelta(hours=1)
MOST_HOURS = 31 * 24
"""The greatest number of hours of a span."""

Span: TypeAlias = tuple[dt.datetime, dt.datetime]
From: TypeAlias = Annotated[AwareDatetime | None, Query(alias="from")]
To: TypeAlias = Annotated[AwareDatetime | None, Query()]
Names: TypeAlias = Annotated[list[str] | None, Query()]

STEP = requires(Right.STEP, extent=Extent.INSTALLATION)
router = APIRouter(route_class=PlainRoute)


class UploadedSummary(BaseModel):
    """The summary of the answers of one feature in one hour.

    Attributes:
        summary: The counts, as `narthex._drift` renders them.
    """

    model_config = ConfigDict(extra="forbid")

    branch: str
    feature: str
    hour: AwareDatetime
    summary: JsonValue


class SummaryUpload(BaseModel):
    """Summaries of the logged queries between offsets.

    Attributes:
        start: The first offset of each partition that was read, as it was stored before.
        end: The offset after the last one.
    """

    model_config = ConfigDict(extra="forbid")

    start: dict[int, int]
    end: dict[int, int]
    summaries: list[UploadedSummary]


class SummaryState(TypedDict):
    """The state of the summaries, for the task that continues them.

    Attributes:
        offsets: Up to where it is summarized, by partition.
        kinds: How the values of each feature are counted, by branch and full name.
    """

    offsets: dict[str, int]
    kinds: dict[str, dict[str, str]]


class StoredSummaries(TypedDict):
    """The number of summaries that were stored."""

    stored: int


class SummarizedFeature(TypedDict):
    """Statistics of the logged answers of a feature.

    Attributes:
        statistics: As those of training sets.
        histogram: For numbers, lower bounds of bins and how many values each has.
    """

    feature: str
    statistics: JsonValue
    histogram: list[list[float]]


SummarizedFeatures = TypedDict(
    "SummarizedFeatures",
    {"from": Instant, "to": Instant, "features": list[SummarizedFeature]},
)
"""Statistics of features over the hours from `from` to `to`."""


@router.get("/feature_summaries/state", dependencies=[STEP])
def state(services: ServicesDep) -> SummaryState:
    """Return up to where logged queries are summarized, and how features are counted."""
    kinds: dict[str, dict[str, str]] = {}
    for branch, snapshot in served(services):
        kinds[branch] = {
            f"{featureset.name}.{feature.name}": kind_of(feature.type).value
            for featureset in snapshot.definitions.featuresets
            for feature in featureset.features
        }
    offsets = services.ledger.feature_summaries.offsets()
    return {"offsets": {str(p): offset for p, offset in offsets.items()}, "kinds": kinds}


@router.post("/feature_summaries", responses=raises(Conflicting), dependencies=[STEP])
def add(upload: SummaryUpload, services: ServicesDep) -> StoredSummaries:
    """Merge summaries into those of their hours, unless the offsets have moved meanwhile."""
    services.ledger.feature_summaries.add(
        [hour_summary(one.branch, one.feature, one.hour, one.summary) for one in upload.summaries],
        start=upload.start,
        end=upload.end,
    )
    return {"stored": len(upload.summaries)}


@router.get("/feature_summaries", dependencies=[requires(Right.READ_DATA)])
def statistics(
    access: AccessDep, from_: From = None, to: To = None, featureset: Names = None
) -> SummarizedFeatures:
    """Return statistics of the logged answers of features, of the last 24 hours by default."""
    span = hours_of(from_, to)
    found = access.ledger.feature_summaries.merged(access.branch, span)
    shown = visible_features(access, found, featuresets=featureset)
    return {
        "from": span[0].isoformat(),
        "to": span[1].isoformat(),
        "features": [
            {
                "feature": feature,
                "statistics": found[feature].statistics().plain(),
                "histogram": [[*one] for one in found[feature].histogram()],
            }
            for feature in shown
        ],
    }


def served(services: Services) -> Iterator[tuple[str, BranchSnapshot]]:
    """Yield the branches that readers read, each with what it serves."""
    for branch in services.ledger.branches.all(services.tenant):
        if branch.serving_commit_id is not None:
            with contextlib.suppress(Missing, NotFound):  # deleted meanwhile
                yield branch.name, services.snapshots.serving(branch.name)


def hours_of(start: dt.datetime | None, end: dt.datetime | None) -> Span:
    """Return the whole hours that a span touches; the 24 hours before its end by default.

    Raises:
        InvalidRequest: The span is empty, or longer than 31 days.
    """
    last = dt.datetime.now(tz=dt.UTC) if end is None else end.astimezone(dt.UTC)
    to = last.replace(minute=0, second=0, microsecond=0)
    to = to if to == last else to + HOUR
    first = to - 24 * HOUR if start is None else start.astimezone(dt.UTC)
    first = first.replace(minute=0, second=0, microsecond=0)
    if not first < to <= first + MOST_HOURS * HOUR:
        raise InvalidRequest(
            f"the hours from {first.isoformat()} to {to.isoformat()} are none, or more than 31 days"
        )
    return first, to


def visible_features(
    access: Access, names: Collection[str], *, featuresets: Collection[str] | None = None
) -> list[str]:
    """Return those features that the principal sees, by name, optionally of some featuresets."""
    visibility = access.visibility_of(access.branch)
    datasets = dataset_names(access)
    return [
        name
        for name in _of(names, featuresets)
        if name.partition(".")[0] not in datasets and visibility.of_output(name)
    ]


def visible_columns(
    access: Access, names: Collection[str], *, datasets: Collection[str] | None = None
) -> list[str]:
    """Return those columns that the principal sees, by name, optionally of some datasets."""
    visibility = access.visibility_of(access.branch)
    known = dataset_names(access)
    return [
        name
        for name in _of(names, datasets)
        if (dataset := name.partition(".")[0]) in known and visibility.of_dataset(dataset)
    ]


def dataset_names(access: Access) -> frozenset[str]:
    """Return the names of the datasets of the branch; no featureset has one of them."""
    snapshot = access.snapshots.deployed(access.branch)
    datasets = () if snapshot is None else snapshot.definitions.datasets
    return frozenset(one.name for one in datasets)


def _of(names: Collection[str], entities: Collection[str] | None) -> list[str]:
    wanted = None if entities is None else frozenset(entities)
    return [one for one in sorted(names) if wanted is None or one.partition(".")[0] in wanted]


def hour_summary(branch: str, name: str, at: dt.datetime, plain: Json) -> HourSummary:
    """Return the summary of a feature, or of a column of a dataset, in an hour.

    Raises:
        InvalidRequest: It is not a summary, or the instant is not the beginning of an hour.
    """
    hour = at.astimezone(dt.UTC)
    if hour != hour.replace(minute=0, second=0, microsecond=0):
        raise InvalidRequest(f"`{at.isoformat()}` is not the beginning of an hour")
    try:
        summary = FeatureSummary.of_plain(plain)
    except InvalidSummaryError as error:
        raise InvalidRequest(f"the summary of `{name}`: {error}") from None
    return HourSummary(branch=branch, feature=name, hour=hour, summary=summary)
