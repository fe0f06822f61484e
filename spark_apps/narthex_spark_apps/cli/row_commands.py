"""Commands for quarantined and late rows: `narthex quarantine` and `narthex late`."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import attrs
import typer

from narthex._base import Json, render_instant
from narthex._ir import LogSpec, ResolvedAsset, SourceJobSpec
from narthex._runtime.ingest import render_late_row
from narthex.errors import ArgumentsUnfit
from narthex.settings import Settings, load_settings
from narthex_ledger import TENANT, Ledger
from narthex_spark_apps.row_inspection.late_rows import LateEntry, late_rows
from narthex_spark_apps.row_inspection.quarantine_replay import (
    QuarantinedRow,
    Replay,
    ReplayedRow,
    quarantined_rows,
)
from narthex_spark_apps.sources.topics.scan import scan
from narthex_stores import LogProducer

_SHOWN = 100

Dataset = Annotated[str, typer.Argument(help="The name of the dataset.")]
Branch = Annotated[str, typer.Option(envvar="NARTHEX_BRANCH", help="The name of the branch.")]
Limit = Annotated[int, typer.Option(help="The largest number of rows to print, newest first.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    quarantine = typer.Typer(
        name="quarantine",
        help="List and show the rows in quarantine; replay those that a source rejected.",
        no_args_is_help=True,
    )
    quarantine.command("list")(list_rows)
    quarantine.command("show")(show)
    quarantine.command("replay")(replay)
    app.add_typer(quarantine)
    app.command("late")(late)


def list_rows(
    dataset: Dataset, *, branch: Branch = "main", limit: Limit = _SHOWN, as_json: AsJson = False
) -> None:
    """List the quarantined rows of a dataset, the newest last."""
    found = _open(dataset, branch).quarantined()
    shown = found[-limit:] if limit > 0 else ()
    if as_json:
        _print([_listed(row) for row in shown])
    else:
        for row in shown:
            at = render_instant(row.rejected_at)
            sys.stdout.write(f"{row.name}  {at}  {_where(row)}  {row.reason}\n")
    _print_line(f"{len(found)} in quarantine, {len(shown)} shown")


def show(
    dataset: Dataset,
    row: Annotated[str, typer.Argument(help="The name of the row, from `quarantine list`.")],
    *,
    branch: Branch = "main",
) -> None:
    """Print one row as JSON: its payload, its position, and why it was rejected."""
    (found,) = _named(_open(dataset, branch).quarantined(), [row])
    _print(_listed(found) | {"kind": found.kind.value, "payload": found.payload})


def replay(
    dataset: Dataset,
    rows: Annotated[
        list[str] | None, typer.Argument(help="The names of rows, from `quarantine list`.")
    ] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="Replay all quarantined rows.")] = False,
    payload: Annotated[
        Path | None,
        typer.Option(help="A JSON object that replaces the payload of one row.", exists=True),
    ] = None,
    branch: Branch = "main",
    as_json: AsJson = False,
) -> None:
    """Validate rows again, each at its position; exit with 1 if some are still rejected.

    An accepted or filtered row leaves the quarantine. Replaying a row twice changes nothing. A row
    on which a pipeline's code failed cannot be replayed: a new version of its dataset computes it.
    """
    opened = _open(dataset, branch)
    found = opened.quarantined()
    if every == bool(rows):
        raise ArgumentsUnfit("no rows are given: pass their names or `--all`")
    chosen = found if every else _named(found, rows or [])
    repaired = _repaired(chosen, payload)
    with LogProducer(opened.settings.kafka) as producer:
        replaying = Replay(jobs=opened.sources, settings=opened.settings, producer=producer)
        done = replaying.run(chosen, repaired)
    if as_json:
        _print([{"row": one.row.name, **_outcome(one)} for one in done])
    else:
        for one in done:
            sys.stdout.write(f"{one.row.name}  {one.outcome}  {one.reason}".rstrip() + "\n")
    rejected = sum(row.outcome == "rejected" for row in done)
    _print_line(f"{len(done) - rejected} of {len(done)} rows left the quarantine")
    if rejected:
        raise typer.Exit(1)


def late(
    dataset: Dataset, *, branch: Branch = "main", limit: Limit = _SHOWN, as_json: AsJson = False
) -> None:
    """List the rows that came later than the dataset's `disorder`, and what each changed."""
    opened = _open(dataset, branch)
    log = opened.log
    disorder = {
        asset.spec.source_id: asset.spec.source.disorder_us
        for asset in opened.sources
        if isinstance(asset.spec, SourceJobSpec)
    }
    if not disorder:
        raise ArgumentsUnfit(
            f"`{dataset}` has no source; only source datasets have late rows",
            hint="name the dataset that it is derived from",
        )
    rows = late_rows(scan(opened.settings.kafka, opened.topic), log, disorder)
    shown = rows[-limit:] if limit > 0 else ()
    if as_json:
        _print([_late(entry, log, opened.changed) for entry in shown])
    else:
        for entry in shown:
            fields = _late(entry, log, opened.changed)
            place = f"{fields['source']} {fields['partition']}:{fields['offset']}"
            sys.stdout.write(
                f"{fields['event_time']}  {fields['late_s']} s late  {place}  "
                f"changed {', '.join(opened.changed) or 'nothing else'}\n"
            )
    _print_line(f"{len(rows)} rows came late, {len(shown)} shown")


@attrs.frozen(kw_only=True)
class _Opened:
    """A dataset in the serving commit of a branch.

    Attributes:
        changed: The datasets that pipelines derive from it.
    """

    settings: Settings
    name: str
    topic: str
    log: LogSpec
    bindings: Mapping[str, ResolvedAsset]
    changed: tuple[str, ...]

    @property
    def sources(self) -> tuple[ResolvedAsset, ...]:
        begin = f"job/{self.name}/source/"
        return tuple(
            asset
            for path, asset in self.bindings.items()
            if path.startswith(begin) and isinstance(asset.spec, SourceJobSpec)
        )

    def quarantined(self) -> tuple[QuarantinedRow, ...]:
        asset = self.bindings.get(f"dataset/{self.name}/quarantine")
        if asset is None:
            raise ArgumentsUnfit(
                f"`{self.name}` has no quarantine: no source feeds it, and no step of its pipeline "
                "can fail on a row",
                hint="name the dataset that it is derived from",
            )
        return quarantined_rows(self.settings, asset.physical_name)


def _open(dataset: str, branch: str) -> _Opened:
    settings = load_settings()
    ledger = Ledger(settings.ledger_dsn)
    view = ledger.branches.get(ledger.installation.ensure_tenant(TENANT), branch)
    commit = view.serving_commit_id or view.head_commit_id
    if commit is None:
        raise ArgumentsUnfit(f"branch `{branch}` serves no commit yet")
    manifest = ledger.manifests.get(commit)
    plans = {plan.name: plan for plan in manifest.plans}
    if dataset not in plans:
        raise ArgumentsUnfit(
            f"branch `{branch}` has no dataset `{dataset}`; it has {', '.join(sorted(plans))}"
        )
    return _Opened(
        settings=settings,
        name=dataset,
        topic=manifest.bindings[f"dataset/{dataset}/log"].physical_name,
        log=plans[dataset].log,
        bindings=manifest.bindings,
        changed=_made_from(manifest.bindings, dataset),
    )


def _made_from(bindings: Mapping[str, ResolvedAsset], dataset: str) -> tuple[str, ...]:
    """Return the datasets that jobs derive from a dataset, directly or indirectly."""
    reads: dict[str, set[str]] = {}
    for path, asset in bindings.items():
        match path.split("/"):
            case ["job", name, "pipeline", _]:
                roles = [need.role.partition(":") for need in asset.needs]
                reads[name] = {of for kind, _, of in roles if kind in {"input", "right"}}
            case _:
                pass
    found = {dataset}
    while new := {name for name, read in reads.items() if read & found} - found:
        found |= new
    return tuple(sorted(found - {dataset}))


def _named(found: tuple[QuarantinedRow, ...], names: list[str]) -> tuple[QuarantinedRow, ...]:
    by_name = {row.name: row for row in found}
    missing = [name for name in names if name not in by_name]
    if missing:
        raise ArgumentsUnfit(
            f"no row in quarantine is named {', '.join(missing)}",
            hint="see `narthex quarantine list`",
        )
    return tuple(by_name[name] for name in names)


def _repaired(
    chosen: tuple[QuarantinedRow, ...], payload: Path | None
) -> dict[str, dict[str, Json]]:
    if payload is None:
        return {}
    if len(chosen) != 1:
        raise ArgumentsUnfit(f"`--payload` replaces one row, not {len(chosen)}; name a single row")
    fields = json.loads(payload.read_text())
    if not isinstance(fields, dict):
        raise ArgumentsUnfit(f"`{payload}` does not contain a JSON object")
    return {chosen[0].name: fields}


def _where(row: QuarantinedRow) -> str:
    """Return where a row was rejected: its position in its source, or its pipeline and line."""
    failure = row.failure
    if failure is None:
        return f"{row.source_id} {row.place().partition}:{row.place().offset}"
    return f"{row.source_id} {failure.place}"


def _listed(row: QuarantinedRow) -> dict[str, Json]:
    listed: dict[str, Json] = {"row": row.name, "rejected_at": render_instant(row.rejected_at)}
    failure = row.failure
    if failure is not None:
        return listed | {
            "pipeline": failure.pipeline,
            "step": failure.step,
            "file": failure.place.file,
            "line": failure.place.line,
            "row_id": failure.row_id,
            "together": failure.together,
            "reason": row.reason,
        }
    place = row.place()
    return listed | {
        "source": row.source_id,
        "partition": place.partition,
        "offset": place.offset,
        "ordinal": place.ordinal,
        "field": row.field,
        "reason": row.reason,
    }


def _outcome(one: ReplayedRow) -> dict[str, Json]:
    outcome: dict[str, Json] = {"outcome": one.outcome}
    return outcome | {"reason": one.reason} if one.reason else outcome


def _late(entry: LateEntry, log: LogSpec, changed: tuple[str, ...]) -> dict[str, Json]:
    until = None if entry.until is None else render_instant(entry.until)
    return {
        **render_late_row(entry.row, log.keys),
        "row_id": entry.row_id.hex(),
        "alive": entry.alive,
        "log_partition": entry.log_partition,
        "log_offset": entry.log_offset,
        "changed_from": render_instant(entry.row.event_time),
        "changed_until": until,
        "changed_datasets": list(changed),
    }


def _print(value: Json) -> None:
    sys.stdout.write(json.dumps(value, indent=2) + "\n")


def _print_line(line: str) -> None:
    sys.stderr.write(f"{line}\n")
