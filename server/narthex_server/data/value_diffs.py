"""The route that compares the values of a dataset or a featureset on two branches."""

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Final

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from narthex._base import Json, to_micros
from narthex._ir import Definitions, LookupExtractor
from narthex.settings import Settings
from narthex_server.definitions.data_flow import flow
from narthex_server.deploy.feature_diffs import FeatureManifest, feature_question, logged_rows
from narthex_server.deploy.value_diffs import OF_A_CLIENT_S, answers_to, question, side_of
from narthex_server.errors import Conflicting, Forbidden, InvalidRequest, Missing
from narthex_server.security.dataset_access import Access
from narthex_server.security.request_access import AccessDep
from narthex_server.security.route_rights import Extent, Right, requires
from narthex_server.security.visibility import Visibility
from narthex_server.services.branch_snapshots import BranchSnapshot
from narthex_server.services.container import SettingsDep
from narthex_server.services.row_inspections import RUNS
from narthex_server.services.value_diff_reports import DatasetDiff, value_diff
from narthex_server.web.error_responses import raises
from narthex_server.web.plain_routes import PlainRoute

router = APIRouter(route_class=PlainRoute)

_MOST_KEYS: Final = 10_000


class DiffCall(BaseModel):
    """A dataset or a featureset, the two branches, and which keys to compare as of when.

    Attributes:
        dataset: The name of the dataset, or of the featureset.
        branches: The first and the second side.
        share: The share of keys; as many as are compared at most, by default. Both sides have the
            same keys of a sample.
        keys: The keys instead, which requires the right to read data. Those of a featureset are
            rows of the features that callers give, by their full names; without them, rows of
            logged queries of the first branch are asked, else keys of datasets.
        at: The instant; by default the newest event time up to which both sides have rows.
    """

    model_config = ConfigDict(extra="forbid")

    dataset: str
    branches: Annotated[list[str], Field(min_length=2, max_length=2)]
    share: Annotated[float, Field(gt=0, le=1)] | None = None
    keys: Annotated[list[dict[str, JsonValue]], Field(max_length=_MOST_KEYS)] | None = None
    at: dt.datetime | None = None


class BranchDiff(DatasetDiff):
    """The difference between the values of a dataset or a featureset on two branches.

    Attributes:
        features: The features of the second branch that depend on a column that differs; none for
            a featureset, whose `columns` are its features.
    """

    features: dict[str, list[str]]


@router.post(
    "/diff",
    responses=raises(Conflicting, Missing),
    dependencies=[requires(Right.READ_DEFINITIONS, extent=Extent.OWN_BRANCHES)],
)
def diff(call: DiffCall, access: AccessDep, settings: SettingsDep) -> BranchDiff:
    """Compare the values of a dataset, or of a featureset, on two branches, as of one instant.

    A token that may not read data gets counts only.
    """
    may_read = Right.READ_DATA in access.principal.rights
    if call.keys is not None and not may_read:
        raise Forbidden
    snapshots = [_snapshot(access, branch) for branch in call.branches]
    visible = [access.visibility(snapshot.definitions) for snapshot in snapshots]
    asked = _question(call, access, snapshots, visible, settings)
    answer = _answer(asked, call.branches[0])

    def sees(name: str) -> bool:
        is_feature = "." in name
        return all(one.of_feature(name) if is_feature else one.of_dataset(name) for one in visible)

    first, second = call.branches
    found = value_diff(
        call.dataset,
        answer["result"],
        answer["examples"],
        sees=sees,
        has_values=may_read,
        sides=(f"on {first}", f"on {second}"),
    )
    features = _features(call.dataset, snapshots[1].definitions, visible[1])
    differing = {one["column"] for one in found["columns"] if one["differ"] != 0}
    return {**found, "features": {name: features.get(name, []) for name in sorted(differing)}}


def _snapshot(access: Access, branch: str) -> BranchSnapshot:
    access.require_branch(branch)
    return access.snapshots.serving_or_head(branch)


def _question(
    call: DiffCall,
    access: Access,
    snapshots: Sequence[BranchSnapshot],
    visible: Sequence[Visibility],
    settings: Settings,
) -> dict[str, Json]:
    if all(_has_featureset(snapshot, call.dataset) for snapshot in snapshots):
        return _of_features(call, access, snapshots, settings)
    sides = []
    for snapshot, one in zip(snapshots, visible, strict=True):
        access.require_dataset(snapshot, call.dataset)
        snapshot.dataset(call.dataset)
        sides.append(_side(call.dataset, snapshot, one, settings))
    return question(call.dataset, sides, _choice(call))


def _has_featureset(snapshot: BranchSnapshot, name: str) -> bool:
    return any(one.name == name for one in snapshot.definitions.featuresets)


def _of_features(
    call: DiffCall, access: Access, snapshots: Sequence[BranchSnapshot], settings: Settings
) -> dict[str, Json]:
    for snapshot in snapshots:
        access.require_features(snapshot, [call.dataset])
    if call.share is not None:
        raise InvalidRequest("`share` is of the keys of a dataset; pass `keys` of a featureset")
    choice = _choice(call)
    given = choice.pop("keys")
    rows = given if given is not None else logged_rows(settings, call.branches[0]) or None
    return feature_question(
        call.dataset,
        [
            FeatureManifest(
                definitions=one.definitions, plans=[*one.plans.values()], bindings=one.bindings
            )
            for one in snapshots
        ],
        history_dir=settings.history_dir,
        choice={**choice, "rows": rows, "is_logged": given is None},
    )


def _side(
    dataset: str, snapshot: BranchSnapshot, visibility: Visibility, settings: Settings
) -> dict[str, Json]:
    side = side_of(
        dataset,
        snapshot.plans.values(),
        snapshot.bindings,
        history_dir=settings.history_dir,
        hidden=frozenset(name for name in snapshot.plans if not visibility.of_dataset(name)),
    )
    if side is None:
        raise InvalidRequest(f"`{dataset}` has no history, so its values cannot be compared")
    return side


def _choice(call: DiffCall) -> dict[str, Json]:
    at = call.at
    if at is not None and at.tzinfo is None:
        raise InvalidRequest("`at` needs a time zone, such as Z")
    return {
        "share": call.share,
        "keys": None if call.keys is None else [*call.keys],
        "at": None if at is None else to_micros(at),
    }


def _answer(asked: dict[str, Json], branch: str) -> Mapping[str, Json]:
    """Run the comparison.

    Raises:
        InvalidRequest: The sides cannot be compared.
        Conflicting: A history cannot be read at present, or the comparison took too long.
    """
    with RUNS.one(branch):
        answers, ending = answers_to([asked], within_s=OF_A_CLIENT_S)
    match answers:
        case [{"result": dict(), "examples": list()} as answer]:
            return answer
        case [{"error": str(error), "caller": True}]:
            raise InvalidRequest(error)
        case [{"error": str(error)}]:
            raise Conflicting(f"the histories cannot be read: {error}; retry")
        case _:
            raise Conflicting(f"{ending}; compare fewer keys")


def _features(
    dataset: str, definitions: Definitions, visibility: Visibility
) -> dict[str, list[str]]:
    """Return the features that depend on each column of a dataset, directly or indirectly."""
    following: dict[str, list[str]] = {}
    for (kind, start), (_, end) in flow(definitions):
        if kind == "feature":
            following.setdefault(start, []).append(end)
    return {
        column: sorted(filter(visibility.of_feature, _reached(first, following)))
        for column, first in _direct(dataset, definitions)
    }


def _direct(dataset: str, definitions: Definitions) -> Iterator[tuple[str, list[str]]]:
    columns: dict[str, list[str]] = {}
    for featureset in definitions.featuresets:
        for extractor in featureset.extractors:
            if isinstance(extractor, LookupExtractor) and extractor.dataset == dataset:
                name = f"{featureset.name}.{extractor.feature}"
                columns.setdefault(extractor.column, []).append(name)
    yield from columns.items()


def _reached(first: list[str], following: Mapping[str, list[str]]) -> set[str]:
    found: set[str] = set()
    waiting = [*first]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += following.get(name, ())
    return found
