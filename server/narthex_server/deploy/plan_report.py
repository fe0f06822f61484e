"""Reports of a plan, for people and programs: the same content in lines and in JSON."""

from collections import Counter
from collections.abc import Iterator
from typing import NotRequired

import attrs
from pydantic import JsonValue
from typing_extensions import TypedDict

from narthex._analysis import ChangeCause, Changes
from narthex._ir import (
    AssetKind,
    AssetRef,
    Blueprint,
    IndexSpec,
    PipelineJobSpec,
    Severity,
    SourceJobSpec,
    TopicRole,
    TopicSpec,
)
from narthex_ledger import CommitPlan, PlannedAsset
from narthex_server.deploy.backfill_estimates import BackfillEstimate, Estimate

SHOWN = 6
MINUTE_S, HOUR_S = 60, 3600
KILO = 1000.0


class AssetInPlan(TypedDict):
    """An asset of a plan.

    Attributes:
        paths: The names under which the branch binds the asset.
        shared_with: The other branches that bind it.
        parts: How many partitions a new log has, or how many shards a new index has.
    """

    kind: str
    label: str
    fingerprint: str
    paths: list[str]
    shared_with: NotRequired[list[str]]
    parts: NotRequired[int]


class JobInPlan(TypedDict):
    """A new job: how it runs, and why."""

    label: str
    trigger: str
    reason: str


class CheckInPlan(TypedDict):
    """A dataset whose history is checked before readers flip.

    Attributes:
        critical: How many expectations stop the commit if they are broken.
        warning: How many expectations are only reported.
    """

    dataset: str
    critical: int
    warning: int


class CauseInPlan(TypedDict):
    """An edited definition because of which the commit creates assets.

    Attributes:
        path: The place of the first difference in the definition.
        downstream: The other entities that it affects.
    """

    entity: str
    what: str
    path: str | None
    old: JsonValue
    new: JsonValue
    downstream: list[str]


class PlanHash(TypedDict):
    """The part of a plan that every author may read.

    Attributes:
        plan_sha256: The value for `expect_plan`.
    """

    branch: str
    plan_sha256: str


class PlanSummary(PlanHash):
    """The effects of a commit.

    Attributes:
        plan_sha256: The value for `expect_plan`.
        removed: The datasets and featuresets that the branch loses.
        flip: The names that readers will see bound to other assets.
        quality: The datasets that are checked against their expectations before that.
        metadata: Changes that need no new asset.
        why: The causes of the changes.
    """

    base_seq: int
    removed: list[str]
    create: list[AssetInPlan]
    share: list[AssetInPlan]
    backfill: list[BackfillEstimate]
    flip: list[str]
    quality: list[CheckInPlan]
    release: list[AssetInPlan]
    metadata: list[str]
    jobs: list[JobInPlan]
    why: list[CauseInPlan]


@attrs.frozen(kw_only=True)
class PlanReport:
    """The effects of a commit, whom they affect, for how long, and why."""

    branch: str
    plan: CommitPlan
    blueprint: Blueprint
    changes: Changes
    reasons: tuple[ChangeCause, ...]
    estimates: tuple[Estimate, ...]

    def plain(self) -> PlanSummary:
        """Render as JSON; `plan_sha256` is the value for `--expect-plan`."""
        plan, parts = self.plan, self._parts()
        return {
            "branch": self.branch,
            "base_seq": plan.base_seq,
            "plan_sha256": plan.sha256.hex(),
            "removed": [*self.changes.removed],
            "create": [_created(asset, parts.get(_ref(asset))) for asset in plan.create],
            "share": [
                {**_asset(asset), "shared_with": list(asset.shared_with)} for asset in plan.share
            ],
            "backfill": [estimate.plain() for estimate in self.estimates],
            "flip": list(plan.flip),
            "quality": [*self._quality()],
            "release": [_asset(asset) for asset in plan.release],
            "metadata": list(self.changes.metadata_only),
            "jobs": [
                {"label": label, "trigger": trigger, "reason": reason}
                for label, trigger, reason in self._jobs()
            ],
            "why": [_reason(reason) for reason in self.reasons],
        }

    def lines(self) -> list[str]:
        """Render for a person."""
        plan = self.plan
        numbers = f"base {plan.base_seq} → {plan.base_seq + 1}"
        return [
            f"Plan {plan.sha256.hex()[:12]}…  branch {self.branch}  {numbers}",
            *(f"! removes {one}" for one in self.changes.removed),
            _line("+ create", plan.create),
            _line("~ share", plan.share) + _with_whom(plan.share),
            *self._backfill(),
            *self._checks(),
            *([f"> flip       {len(plan.flip):>3}  when caught up"] if plan.flip else []),
            _line("- release", plan.release)
            + ("   retained, then destroyed" if plan.release else ""),
            *(f"= metadata   {text}" for text in self.changes.metadata_only),
            *(f"* {label}: {trigger}, {reason}" for label, trigger, reason in self._jobs()),
            *self._divisions(),
            *(f"why: {_why(reason)}" for reason in self.reasons),
        ]

    def _quality(self) -> Iterator[CheckInPlan]:
        """Yield the datasets with expectations whose history or expectations differ."""
        for dataset in self.blueprint.datasets:
            is_new = f"dataset/{dataset.name}/history" in self.plan.flip
            if dataset.expectations and (is_new or dataset.name in self.changes.expectations):
                severities = Counter(one.severity for one in dataset.expectations)
                yield {
                    "dataset": dataset.name,
                    "critical": severities[Severity.CRITICAL],
                    "warning": severities[Severity.WARNING],
                }

    def _checks(self) -> Iterator[str]:
        checks = [*self._quality()]
        if checks:
            names = ", ".join(
                f"{one['dataset']}: {one['critical']} critical, {one['warning']} warning"
                for one in checks
            )
            yield f"? check     {len(checks):>4}  before readers flip   ({names})"

    def _jobs(self) -> Iterator[tuple[str, str, str]]:
        """Yield, for each new job, how it runs, and why."""
        created = {(asset.kind, asset.fingerprint) for asset in self.plan.create}
        for asset in self.blueprint.assets:
            if (asset.kind, asset.fingerprint) in created and isinstance(
                asset.spec, SourceJobSpec | PipelineJobSpec
            ):
                yield asset.label, asset.spec.trigger.value, asset.spec.reason

    def _divisions(self) -> Iterator[str]:
        """Yield how each new log and index is divided."""
        parts = self._parts()
        for asset in self.plan.create:
            count = parts.get(_ref(asset))
            if count is not None:
                part = "shard" if asset.kind is AssetKind.INDEX else "partition"
                yield f"* {asset.label}: {count} {part}{'s' if count > 1 else ''}"

    def _parts(self) -> dict[AssetRef, int]:
        found: dict[AssetRef, int] = {}
        for asset in self.blueprint.assets:
            match asset.spec:
                case TopicSpec(role=TopicRole.DATASET, partitions=count):
                    found[asset.ref] = count
                case IndexSpec(shards=count):
                    found[asset.ref] = count
                case _:
                    continue
        return found

    def _backfill(self) -> list[str]:
        if not self.estimates:
            return ["! backfill     0"]
        lines = [f"! backfill   {len(self.estimates):>3}"]
        for estimate in self.estimates:
            rows = "unknown number of rows" if estimate.rows is None else f"{estimate.rows:,} rows"
            size = "" if estimate.size_bytes is None else f", {_size(estimate.size_bytes)}"
            time = "" if estimate.seconds is None else f", about {_span(estimate.seconds)}"
            lines.append(f"    {estimate.label}: {rows}{size}{time} ({estimate.basis})")
        return lines


def _asset(asset: PlannedAsset) -> AssetInPlan:
    return {
        "kind": asset.kind.value,
        "label": asset.label,
        "fingerprint": asset.fingerprint.hex(),
        "paths": list(asset.paths),
    }


def _created(asset: PlannedAsset, parts: int | None) -> AssetInPlan:
    plain = _asset(asset)
    return plain if parts is None else {**plain, "parts": parts}


def _ref(asset: PlannedAsset) -> AssetRef:
    return AssetRef(asset.kind, asset.fingerprint)


def _reason(reason: ChangeCause) -> CauseInPlan:
    found = reason.difference
    return {
        "entity": reason.entity,
        "what": reason.what,
        "path": found.path if found else None,
        "old": found.old if found else None,
        "new": found.new if found else None,
        "downstream": list(reason.downstream),
    }


def _why(reason: ChangeCause) -> str:
    what = f"{reason.entity} is {reason.what}"
    if reason.difference is not None:
        what += f": {reason.difference}"
    if reason.downstream:
        shown = ", ".join(reason.downstream[:SHOWN])
        more = " …" if len(reason.downstream) > SHOWN else ""
        what += f"  ({len(reason.downstream)} downstream: {shown}{more})"
    return what


def _line(sign: str, assets: tuple[PlannedAsset, ...]) -> str:
    kinds = Counter(asset.kind.value for asset in assets)
    counts = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    labels = ", ".join(asset.label for asset in assets[:SHOWN])
    more = f" and {len(assets) - SHOWN} more" if len(assets) > SHOWN else ""
    return f"{sign:<12} {len(assets):>3}  {counts}" + (f"   ({labels}{more})" if labels else "")


def _with_whom(assets: tuple[PlannedAsset, ...]) -> str:
    branches = Counter(name for asset in assets for name in asset.shared_with)
    counts = ", ".join(f"{count} with {name}" for name, count in sorted(branches.items()))
    return f"   [{counts}]" if counts else ""


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < KILO:
            return f"{count:.0f} {unit}"
        count /= KILO
    return f"{count:.1f} TB"


def _span(seconds: float) -> str:
    if seconds < MINUTE_S:
        return f"{seconds:.0f} s"
    if seconds < HOUR_S:
        return f"{seconds / MINUTE_S:.0f} min"
    return f"{seconds / HOUR_S:.1f} h"
