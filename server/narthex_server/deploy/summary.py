"""A plan in words: what a commit creates, shares, backfills, flips and releases."""

from collections import Counter

from narthex.assets import Blueprint, PipelineJobSpec, SourceJobSpec
from narthex.changes import Changes
from narthex_ledger import CommitPlan, PlannedAsset

SHOWN = 6


def render_summary(
    plan: CommitPlan | None, changes: Changes, blueprint: Blueprint | None = None
) -> list[str]:
    """Give the lines that a person reads before or after a commit.

    Args:
        plan: What the commit does; None where that is not known yet.
        changes: What it changes in the definitions.
        blueprint: Says how each job runs that the plan creates, and why.
    """
    lines = list(changes.summary)
    if plan is None:
        return lines
    lines.append(_line("+ create", plan.create))
    lines.append(_line("~ share", plan.share))
    lines.append(_line("! backfill", plan.backfill))
    lines.append(_line("- release", plan.release))
    if plan.flip:
        lines.append(f"> flip      {len(plan.flip)}  when caught up")
    if blueprint is not None:
        created = {(asset.kind, asset.fingerprint) for asset in plan.create}
        lines += [
            f"* {asset.label}: {asset.spec.trigger.value}, {asset.spec.reason}"
            for asset in blueprint.assets
            if (asset.kind, asset.fingerprint) in created
            and isinstance(asset.spec, SourceJobSpec | PipelineJobSpec)
        ]
    return lines


def _line(sign: str, assets: tuple[PlannedAsset, ...]) -> str:
    kinds = Counter(asset.kind.value for asset in assets)
    said = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    labels = ", ".join(asset.label for asset in assets[:SHOWN])
    more = f" and {len(assets) - SHOWN} more" if len(assets) > SHOWN else ""
    return f"{sign:<10} {len(assets):>3}  {said}" + (f"   ({labels}{more})" if labels else "")
