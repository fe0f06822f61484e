"""The kinds of jobs that projects should have, those of `docs/carriers.md`, and how many have them.

A kind is a part, such as an operator or a source, with what carries it live or in a backfill.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from docs.render_carriers import BACKFILL, aggregates, operators
from narthex._analysis.schemas import all_steps
from narthex._compiler.blueprint import compile_blueprint
from narthex._connectors import kind_of, kinds
from narthex._ir import (
    Aggregate,
    AssetKind,
    Cdc,
    DatasetRef,
    Definitions,
    Filter,
    Operator,
    PipelineJobSpec,
    Trigger,
    UserCode,
)
from tests.differential.connecting import read_by_a_job

LEAST_SHARE: Final = 0.05
"""The share of the projects that each kind is in, at least."""

LEAST_PROJECTS: Final = 200
"""From fewer projects no share is judged."""

_ACCOUNT: Final = "it needs an account"
_OWN_TESTS: Final = "no project has one; tests/spark_apps test it"
NOT_DRAWN: Final[Mapping[str, str]] = {
    "history of a dataset": "deployments have none; tests/stores/history compare histories",
    **{f"source {title}": _ACCOUNT for title in ("Kinesis", "Pub/Sub", "MongoDB")},
    **{f"source {title}": _ACCOUNT for title in ("Snowflake", "BigQuery", "Redshift")},
    "sink Snowflake": _ACCOUNT,
    **{f"source {title}": _OWN_TESTS for title in ("Files", "Postgres", "MySQL")},
    **{f"sink {title}": _OWN_TESTS for title in ("Files", "Postgres", "HTTP")},
}
"""The parts on the page of carriers that no project has, and why."""

LIVE_IN: Final[Mapping[Trigger, str]] = {
    Trigger.REAL_TIME: "live in a streaming query",
    Trigger.STAGE: "live in a standing task",
    Trigger.STATEFUL: "live in a standing task",
}
_WAYS: Final = ("live", "in a backfill")


def wanted_kinds() -> frozenset[str]:
    """Return the kinds that projects should have."""
    found = {
        kind
        for name, triggers in operators().items()
        for trigger in triggers
        for kind in _operator_kinds(name, trigger)
    }
    parts = [f"aggregate {name}" for name in aggregates()]
    parts += ["index of a dataset", "history of a dataset", "filter by author code"]
    parts += [f"rows by {cdc.value}" for cdc in Cdc if cdc is not Cdc.NATIVE]
    parts += [f"source {kind.title}" for kind in kinds() if kind.source is not None]
    # A sink has no backfill: it reads the whole log live.
    sinks = {f"sink {kind.title}, live" for kind in kinds() if kind.sink is not None}
    found |= {f"{part}, {way}" for part in parts for way in _WAYS} | sinks
    return frozenset(kind for kind in found if kind.partition(", ")[0] not in NOT_DRAWN)


def kinds_in(definitions: Definitions) -> frozenset[str]:
    """Return the kinds of the jobs and feeds of definitions, which run live and as a backfill."""
    assets = compile_blueprint(definitions).assets
    # Datasets that mean the same share one job.
    triggers = {
        path.split("/")[1]: one.spec.trigger
        for one in assets
        if isinstance(one.spec, PipelineJobSpec)
        for path in one.paths
    }
    parts: set[str] = set()
    found: set[str] = set()
    for dataset in definitions.datasets:
        for step in (step for one in dataset.pipelines for step in all_steps(one.terminal)):
            if not isinstance(step, DatasetRef):
                found |= set(_operator_kinds(type(step).__name__, triggers[dataset.name]))
            parts |= set(_parts_of(step))
        if read_by_a_job(dataset):
            parts |= {f"source {kind_of(one.connector).title}" for one in dataset.sources}
            parts |= {f"rows by {one.cdc.value}" for one in dataset.sources}
        found |= {f"sink {kind_of(one.target).title}, live" for one in dataset.sinks}
    if any(one.kind is AssetKind.INDEX_FEED for one in assets):
        parts.add("index of a dataset")
    return frozenset(found | {f"{part}, {way}" for part in parts for way in _WAYS})


def _operator_kinds(name: str, trigger: Trigger) -> Iterator[str]:
    yield f"operator {name}, {LIVE_IN[trigger]}"
    yield f"operator {name}, in a backfill {BACKFILL[trigger]}"


def _parts_of(step: Operator) -> Iterator[str]:
    match step:
        case Aggregate(specs=specs):
            yield from (f"aggregate {type(spec).__name__}" for spec in specs)
        case Filter(predicate=UserCode()):
            yield "filter by author code"
        case _:
            pass


def table_of(counts: Counter[str], *, projects: int) -> str:
    """Render how many projects have each kind that is wanted, the rarest first."""
    rows = sorted((counts[kind], kind) for kind in wanted_kinds())
    lines = [f"{count:6} {count / max(projects, 1):6.1%}  {kind}" for count, kind in rows]
    missing = [f"     -      -  {part}: {reason}" for part, reason in sorted(NOT_DRAWN.items())]
    return "\n".join([f"{projects} projects; those that have each kind:", *lines, *missing])


def rare_kinds(counts: Mapping[str, int], *, projects: int) -> tuple[str, ...]:
    """Return the kinds that too few projects have; none of fewer than `LEAST_PROJECTS`."""
    if projects < LEAST_PROJECTS:
        return ()
    least = LEAST_SHARE * projects
    return tuple(sorted(kind for kind in wanted_kinds() if counts.get(kind, 0) < least))


def count_kinds(projects: Iterable[Definitions]) -> Counter[str]:
    """Return how many projects have each kind."""
    return Counter(kind for definitions in projects for kind in kinds_in(definitions))
