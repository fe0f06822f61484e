# ruff: noqa: INP001
"""Writes `docs/carriers.md`: `python -m docs.render_carriers`.

It compiles the conformance cases and names what carries the jobs with each operator and aggregate.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from narthex._analysis.schemas.pipelines import all_steps
from narthex._compiler import compile_blueprint
from narthex._connectors import Input, kinds
from narthex._ir import AssetBlueprint, AssetKind, Blueprint, PipelineJobSpec, Trigger
from narthex._ir.operators import Aggregate
from narthex_reference.conformance import CASES
from narthex_spark_apps.jobs.application import STAGE_RUNNER, task_of

PAGE: Final = Path(__file__).parent / "carriers.md"

BACKFILL: Final[Mapping[Trigger, str]] = {
    Trigger.REAL_TIME: "in columns",
    Trigger.STAGE: "in Python workers",
    Trigger.STATEFUL: "in one Python worker",
}
STAGE: Final = f"standing task `{STAGE_RUNNER}`"
SOURCES: Final[Mapping[Input, tuple[str, str]]] = {
    Input.INGEST: (STAGE, "`availableNow` query, in Python workers"),
    Input.TOPIC: (STAGE, "`availableNow` query, in Python workers"),
    Input.FILES: ("job of Spark for each file", "job of Spark for each file"),
    Input.POLLED: (STAGE, "task of Spark that reads up to the source's present end"),
}
SINK = (STAGE, "none: the live sink starts at the beginning of its log")
FEED: Final = "the same, as the backfill appends to the log"

_INTRODUCTION: Final = """# Carriers

This page is for contributors and operators: it names the part of Spark that carries each operator,
aggregate, source and sink, live and in a backfill. A
[standing task](decisions/0035-standing-tasks-for-live-python.md) is a task of Spark that never
ends. An operator with several carriers runs in the one that the rest of its pipeline needs.

`python -m docs.render_carriers` writes this page from the conformance cases and the registry of
connectors.
"""


def operators() -> dict[str, set[Trigger]]:
    """Return the triggers of the jobs with each operator, over the pipelines of all cases."""
    found: dict[str, set[Trigger]] = {}
    for case in CASES:
        jobs = _jobs(compile_blueprint(case.definitions))
        for dataset in case.definitions.datasets:
            for pipeline in dataset.pipelines:
                trigger = jobs[dataset.name, pipeline.name].trigger
                for step in all_steps(pipeline.terminal):
                    found.setdefault(type(step).__name__, set()).add(trigger)
    return {name: found[name] for name in sorted(found.keys() - {"DatasetRef"})}


def aggregates() -> list[str]:
    """Return the names of the aggregates in all cases."""
    terminals = (p.terminal for c in CASES for d in c.definitions.datasets for p in d.pipelines)
    steps = (step for terminal in terminals for step in all_steps(terminal))
    specs = (spec for step in steps if isinstance(step, Aggregate) for spec in step.specs)
    return sorted({type(spec).__name__ for spec in specs})


def feeds() -> dict[AssetKind, str]:
    """Return the standing tasks of the feeds of indexes and of histories."""
    assets = (asset for case in CASES for asset in compile_blueprint(case.definitions).assets)
    kinds_of_feeds = {AssetKind.INDEX_FEED, AssetKind.HISTORY_FEED}
    return {asset.kind: live(asset) for asset in assets if asset.kind in kinds_of_feeds}


def _jobs(blueprint: Blueprint) -> dict[tuple[str, str], PipelineJobSpec]:
    specs = (asset.spec for asset in blueprint.assets)
    return {(s.dataset, s.pipeline): s for s in specs if isinstance(s, PipelineJobSpec)}


def live(asset: AssetBlueprint) -> str:
    """Return what carries a job or a feed live."""
    task = task_of(asset)
    return "streaming query in Real-time Mode" if task is None else f"standing task `{task}`"


def _live_of(trigger: Trigger) -> str:
    """Return what carries the pipelines with a trigger live."""
    assets = (asset for case in CASES for asset in compile_blueprint(case.definitions).assets)
    return next(
        live(asset)
        for asset in assets
        if isinstance(asset.spec, PipelineJobSpec) and asset.spec.trigger is trigger
    )


def render() -> str:
    """Render the page."""
    return "\n".join([_INTRODUCTION, *_lines()])


def _lines() -> Iterator[str]:
    yield "## Operators\n"
    yield from _header("operator")
    carriers = {trigger: _live_of(trigger) for trigger in BACKFILL}
    for name, triggers in operators().items():
        chosen = [trigger for trigger in BACKFILL if trigger in triggers]
        running = "; ".join(dict.fromkeys(carriers[trigger] for trigger in chosen))
        yield f"| `{name}` | {running} | {_bounded(*chosen)} |"
    yield "\n## Aggregates, indexes and histories\n"
    yield "Jobs append the contributions of rows to a log; these tasks read the log.\n"
    yield from _header("part")
    of_feeds = feeds()
    for name in aggregates():
        yield f"| `{name}` | {of_feeds[AssetKind.INDEX_FEED]} | {FEED} |"
    yield f"| index of a dataset | {of_feeds[AssetKind.INDEX_FEED]} | {FEED} |"
    yield f"| history of a dataset | {of_feeds[AssetKind.HISTORY_FEED]} | {FEED} |"
    yield "\n## Sources\n"
    yield from _header("kind")
    for kind in kinds():
        if kind.source is not None:
            live, backfill = SOURCES[kind.source.input]
            yield f"| {kind.title} | {live} | {backfill} |"
    yield "\n## Sinks\n"
    yield from _header("kind")
    for kind in kinds():
        if kind.sink is not None:
            yield f"| {kind.title} | {SINK[0]} | {SINK[1]} |"
    yield ""


def _bounded(*triggers: Trigger) -> str:
    return "`availableNow` query, " + " or ".join(BACKFILL[trigger] for trigger in triggers)


def _header(first: str) -> tuple[str, str]:
    return f"| {first} | live | backfill |", "|---|---|---|"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
