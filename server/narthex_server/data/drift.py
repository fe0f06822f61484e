"""Drift: logged answers, and rows that arrived, compared with training sets and pinned windows.

A scheduled task compares each hour and stores the results. By default a feature is compared with
the newest training set that has it. People compare any hours, which stores nothing.
"""

import datetime as dt
from collections.abc import Collection, Iterable, Mapping
from typing import Annotated, Final, TypeAlias, assert_never

import attrs
from fastapi import APIRouter, Depends, Path, Query
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, JsonValue, StringConstraints
from typing_extensions import TypedDict

from narthex._drift import DriftReference, FeatureSummary, drift_of
from narthex._training import SET_NAME, FeatureStatistics
from narthex_ledger import DriftView, NotFound, ReferenceKind, TrainingSetView
from narthex_server.data.feature_summaries import (
    From,
    Names,
    Span,
    To,
    hours_of,
    visible_columns,
    visible_features,
)
from narthex_server.data.training_sets import is_visible_set, set_of, statistics_by_feature
from narthex_server.errors import Conflicting, InvalidRequest
from narthex_server.security.dataset_access import Access
from narthex_server.security.request_access import AccessDep
from narthex_server.security.route_rights import Right, requires
from narthex_server.web.error_responses import raises
from narthex_server.web.plain_routes import Instant, Number, PlainRoute

DAY: Final = dt.timedelta(hours=24)
MOST_SETS: Final = 100
"""How many of the newest training sets of a branch are looked at for its features."""

Name: TypeAlias = Annotated[str, StringConstraints(pattern=f"^{SET_NAME}$")]
WindowName: TypeAlias = Annotated[str, Path(pattern=f"^{SET_NAME}$")]
Kind: TypeAlias = Annotated[ReferenceKind | None, Query()]

router = APIRouter(route_class=PlainRoute)


class DriftCall(BaseModel):
    """The reference and the hours of a comparison that is stored.

    Attributes:
        from_at: The first instant; the hour of it is compared as a whole.
        to_at: The instant to stop before; if it is within an hour, that hour is compared as well.
    """

    model_config = ConfigDict(extra="forbid")

    reference_kind: ReferenceKind
    reference: Name
    from_at: AwareDatetime = Field(alias="from")
    to_at: AwareDatetime = Field(alias="to")


class WindowCall(BaseModel):
    """The name and the hours of a window to pin."""

    model_config = ConfigDict(extra="forbid")

    name: Name
    from_at: AwareDatetime = Field(alias="from")
    to_at: AwareDatetime = Field(alias="to")


class DriftReferenceEntry(TypedDict):
    """A training set or a window with which features are compared.

    Attributes:
        features: The features that are compared with it by default.
    """

    kind: str
    name: str
    features: list[str]


class DriftReferences(TypedDict):
    """The references of a branch."""

    references: list[DriftReferenceEntry]


ComparedFeature = TypedDict(
    "ComparedFeature",
    {
        "branch": str,
        "feature": str,
        "reference_kind": str,
        "reference": str,
        "from": Instant,
        "to": Instant,
        "rows": int,
        "reference_rows": int,
        "is_compared": bool,
        "severity": str | None,
        "metrics": JsonValue,
        "at": Instant | None,
    },
)
"""The values of a feature in the hours from `from` to `to`, compared with a reference.

`feature` is a feature, whose values are logged answers, or a column of a dataset, `Dataset.column`,
whose values are those of the rows that arrived.

`severity` is `warning` or `critical` if a metric is beyond its threshold and is not chance; null
otherwise. `is_compared` is false if there were too few rows. `at` is null if it is not stored.
"""


class FeatureDrifts(TypedDict):
    """Compared features; without an answer in the hours, a feature is left out."""

    drift: list[ComparedFeature]


PinnedWindow = TypedDict(
    "PinnedWindow",
    {"name": str, "from": Instant, "to": Instant, "features": list[str]},
)
"""A pinned window of answers, with which others are compared."""


class PinnedWindows(TypedDict):
    """Pinned windows, by name."""

    windows: list[PinnedWindow]


class DeletedWindow(TypedDict):
    """The name of a window that was deleted."""

    name: str


@attrs.frozen(kw_only=True)
class LoadedReference:
    """A reference with the statistics of some features."""

    kind: ReferenceKind
    name: str
    features: Mapping[str, DriftReference]


@router.get("/drift/references", dependencies=[requires(Right.READ_DEFINITIONS)])
def references(access: AccessDep) -> DriftReferences:
    """List the references of the branch, and the features that are compared with each."""
    sets = _features_by_set(access)
    windows = access.ledger.drift.windows(access.branch)
    return {
        "references": [
            *(_entry(ReferenceKind.TRAINING_SET, name, shown) for name, shown in sets.items()),
            *(
                _entry(ReferenceKind.WINDOW, one.name, shown)
                for one in windows
                if (shown := _visible(access, one.features))
            ),
        ]
    }


@router.post("/drift", dependencies=[requires(Right.STEP)])
def compare(call: DriftCall, access: AccessDep) -> FeatureDrifts:
    """Compare the answers of some hours with a reference, and store the results.

    Features that a newer training set has are left out. A feature with few answers in these hours
    is compared over the 24 hours until their end.
    """
    reference = _reference(access, call.reference_kind, call.reference)
    if reference.kind is ReferenceKind.TRAINING_SET:
        names = _features_by_set(access).get(reference.name, [])
        features = {name: reference.features[name] for name in names}
        reference = attrs.evolve(reference, features=features)
    span = hours_of(call.from_at, call.to_at)
    found = _compared(access, reference, span)
    few = {one.feature for one in found if not one.is_compared}
    if few and span[1] - span[0] < DAY:
        rare = {name: of for name, of in reference.features.items() if name in few}
        whole = attrs.evolve(reference, features=rare)
        day = _compared(access, whole, (span[1] - DAY, span[1]))
        found = [one for one in found if one.is_compared] + day
    access.ledger.drift.record(found)
    return {"drift": [*map(_shown, found)]}


@router.get("/drift", dependencies=[requires(Right.READ_DEFINITIONS)])
def newest(
    access: AccessDep, limit: Number = 100, current: bool = False, this_branch: bool = False
) -> FeatureDrifts:
    """List the newest stored comparisons of the principal's branches.

    With `current`, list the findings of now: the newest comparison of each feature with each
    reference, if it has a severity and is not older than a day. With `this_branch`, list those of
    the request's branch.
    """
    ledger = access.ledger.drift
    branches = [access.branch] if this_branch else access.branches
    if current:
        found = ledger.current(branches=branches)[:limit]
    else:
        found = ledger.newest(limit, branches=branches)
    return {"drift": [_shown(one) for one in found if access.sees_feature(one.branch, one.feature)]}


def _entities(featureset: Names = None, dataset: Names = None) -> list[str] | None:
    """Return the featuresets and datasets that a request names; None for all."""
    if featureset is None and dataset is None:
        return None
    return [*(featureset or ()), *(dataset or ())]


@router.get("/drift/comparison", dependencies=[requires(Right.READ_DATA)])
def comparison(
    access: AccessDep,
    reference_kind: Kind = None,
    reference: Annotated[str | None, Query(pattern=f"^{SET_NAME}$")] = None,
    from_: From = None,
    to: To = None,
    entities: Annotated[list[str] | None, Depends(_entities)] = None,
) -> FeatureDrifts:
    """Compare answers and columns with one reference, or with all, and store nothing.

    The last 24 hours are compared by default. With `featureset` or `dataset`, only those features
    and columns are compared.
    """
    if (reference is None) != (reference_kind is None):
        raise InvalidRequest("pass both or neither of `reference_kind` and `reference`")
    span = hours_of(from_, to)
    if reference is not None and reference_kind is not None:
        wanted = [_reference(access, reference_kind, reference)]
    else:
        wanted = [*_all_references(access)]
    found = [one for each in wanted for one in _compared(access, each, span, entities)]
    return {"drift": [*map(_shown, found)]}


@router.get("/drift/windows", dependencies=[requires(Right.READ_DEFINITIONS)])
def windows(access: AccessDep) -> PinnedWindows:
    """List the pinned windows of the branch."""
    return {
        "windows": [
            {
                "name": one.name,
                "from": one.from_at.isoformat(),
                "to": one.to_at.isoformat(),
                "features": _visible(access, one.features),
            }
            for one in access.ledger.drift.windows(access.branch)
        ]
    }


@router.post(
    "/drift/windows",
    responses=raises(Conflicting),
    dependencies=[requires(Right.WRITE_DEFINITIONS)],
)
def pin(call: WindowCall, access: AccessDep) -> PinnedWindow:
    """Pin the logged answers and the rows that arrived in some hours, to compare later ones."""
    span = hours_of(call.from_at, call.to_at)
    summaries = access.ledger.feature_summaries.merged(access.branch, span)
    if not _visible(access, summaries):
        summaries = {}  # as if there were no hidden ones
    access.ledger.drift.pin(access.branch, call.name, span, summaries)
    return {
        "name": call.name,
        "from": span[0].isoformat(),
        "to": span[1].isoformat(),
        "features": _visible(access, summaries),
    }


@router.delete("/drift/windows/{name}", dependencies=[requires(Right.WRITE_DEFINITIONS)])
def unpin(name: WindowName, access: AccessDep) -> DeletedWindow:
    """Delete a pinned window; results that were stored remain."""
    if not access.ledger.drift.unpin(access.branch, name):
        raise NotFound(f"there is no window `{name}`")
    return {"name": name}


def _features_by_set(access: Access) -> dict[str, list[str]]:
    """Map the training sets of the branch to the features of which they are the newest set."""
    found: dict[str, list[str]] = {}
    seen: set[str] = set()
    for view in access.ledger.training_sets.newest(access.branch, limit=MOST_SETS):
        if not is_visible_set(access, view):
            continue
        fresh = [name for name in statistics_by_feature(view) if name not in seen]
        seen.update(fresh)
        shown = visible_features(access, fresh)
        if shown:
            found[view.name] = shown
    return found


def _all_references(access: Access) -> Iterable[LoadedReference]:
    for name, features in _features_by_set(access).items():
        whole = _reference(access, ReferenceKind.TRAINING_SET, name)
        # Of several sets with one name, only the oldest one that the principal sees is a reference.
        shown = {one: whole.features[one] for one in features if one in whole.features}
        yield attrs.evolve(whole, features=shown)
    for window in access.ledger.drift.windows(access.branch):
        yield _reference(access, ReferenceKind.WINDOW, window.name)


def _reference(access: Access, kind: ReferenceKind, name: str) -> LoadedReference:
    """Return a reference with all of its features.

    Raises:
        NotFound: The branch has none of that name that the principal sees.
    """
    match kind:
        case ReferenceKind.TRAINING_SET:
            features = _of_set(set_of(name, access))
        case ReferenceKind.WINDOW:
            features = _of_window(access.ledger.drift.window(access.branch, name))
        case _:
            assert_never(kind)
    return LoadedReference(kind=kind, name=name, features=features)


def _of_set(view: TrainingSetView) -> dict[str, DriftReference]:
    return {
        feature: DriftReference(statistics=FeatureStatistics.of_plain(plain))
        for feature, plain in statistics_by_feature(view).items()
    }


def _of_window(summaries: Mapping[str, FeatureSummary]) -> dict[str, DriftReference]:
    return {
        feature: DriftReference(
            statistics=summary.statistics(), dropped_bits=summary.numbers.dropped_bits
        )
        for feature, summary in summaries.items()
    }


def _compared(
    access: Access, reference: LoadedReference, span: Span, entities: list[str] | None = None
) -> list[DriftView]:
    shown = _visible(access, reference.features, entities)
    live = access.ledger.feature_summaries.merged(access.branch, span, features=shown)
    found = []
    for feature, summary in live.items():
        drift = drift_of(reference.features[feature], summary, features=len(live))
        found.append(
            DriftView(
                branch=access.branch,
                feature=feature,
                reference_kind=reference.kind,
                reference=reference.name,
                from_at=span[0],
                to_at=span[1],
                rows=drift.rows,
                reference_rows=drift.reference_rows,
                is_compared=drift.is_compared,
                severity=drift.severity,
                metrics={metric.name: metric.plain() for metric in drift.metrics},
            )
        )
    return found


def _visible(
    access: Access, names: Collection[str], entities: Collection[str] | None = None
) -> list[str]:
    """Return those features and columns that the principal sees, by name."""
    return [
        *visible_features(access, names, featuresets=entities),
        *visible_columns(access, names, datasets=entities),
    ]


def _entry(kind: ReferenceKind, name: str, features: list[str]) -> DriftReferenceEntry:
    return {"kind": kind.value, "name": name, "features": features}


def _shown(view: DriftView) -> ComparedFeature:
    return {
        "branch": view.branch,
        "feature": view.feature,
        "reference_kind": view.reference_kind.value,
        "reference": view.reference,
        "from": _instant(view.from_at),
        "to": _instant(view.to_at),
        "rows": view.rows,
        "reference_rows": view.reference_rows,
        "is_compared": view.is_compared,
        "severity": None if view.severity is None else view.severity.value,
        "metrics": view.metrics,
        "at": None if view.at is None else _instant(view.at),
    }


def _instant(at: dt.datetime) -> str:
    return at.astimezone(dt.UTC).isoformat()
