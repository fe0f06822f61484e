"""`narthex audit`: check a dataset against its expectations, or the stores against the ledger."""

import datetime as dt
import json
import sys
from typing import Annotated

import typer

from narthex._base import Json, to_micros
from narthex.settings import NotInstalledError, Settings, load_settings
from narthex_expectations.audits import AuditResult, audit, newest_hour
from narthex_expectations.server_client import (
    AuditedDataset,
    ServerRefusedError,
    adopt_stores,
    audit_assets,
    audited_dataset,
    keep_audit,
)
from narthex_expectations.suites import UnknownExpectationError, suite_json
from narthex_stores import StoreError

_YOURS, _OURS = 1, 3


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("audit")(main)


def _of_assets(settings: Settings, *, adopt: bool, as_json: bool) -> None:
    if adopt:
        adopted = adopt_stores(settings)
        sys.stdout.write(json.dumps(adopted) + "\n")
        return
    drift = audit_assets(settings)
    sys.stdout.write(json.dumps(drift) + "\n" if as_json else render_assets(drift))
    if not drift["complete"]:
        raise typer.Exit(_OURS)
    if not drift["sound"]:
        raise typer.Exit(_YOURS)


def render_assets(found: dict[str, Json]) -> str:
    """Render the result of an audit of the stores for people, one line per finding."""
    lines = []
    systems = found["systems"]
    for system in systems if isinstance(systems, list) else ():
        if not isinstance(system, dict):
            continue
        lines.append(f"{system['kind']}: {system['listed']} found {system['error']}".rstrip())
        findings = system["findings"]
        for one in findings if isinstance(findings, list) else ():
            if isinstance(one, dict):
                seen = "" if one["confirmed"] else " (seen once; the next scan confirms it)"
                lines.append(f"  {one['class']} {one['name']}: {one['what']}{seen}")
        destroyed = system["destroyed"]
        if isinstance(destroyed, list):
            lines += [f"  destroyed {name}" for name in destroyed]
        if system["tripped"]:
            lines.append(f"  stopped: {system['tripped']}")
    lines.append("sound" if found["sound"] else "not sound")
    return "\n".join(lines) + "\n"


def main(  # noqa: PLR0913 - one argument an option
    dataset: Annotated[
        str, typer.Argument(help="The name of a dataset [audit the stores instead].")
    ] = "",
    *,
    from_: Annotated[
        str | None, typer.Option("--from", metavar="RFC3339", help="The start, included.")
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="RFC3339", help="The end, excluded.")
    ] = None,
    last_hour: Annotated[
        bool, typer.Option("--last-hour", help="Audit the hour that ends with the newest row.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    suite: Annotated[
        bool, typer.Option("--suite", help="Only print the Great Expectations suite.")
    ] = False,
    branch: Annotated[
        str, typer.Option(envvar="NARTHEX_BRANCH", help="The branch of the dataset.")
    ] = "main",
    adopt: Annotated[
        bool,
        typer.Option("--adopt", help="After a restore: make this ledger the owner of the stores."),
    ] = False,
) -> None:
    """Check a dataset against its expectations, or all stores against the ledger.

    With DATASET: check the rows in [FROM, TO). The server stores the result. The exit status is 0
    if the audit ran, even if expectations failed: the result lists those.

    Without DATASET: check every topic, index, history and checkpoint. The exit status is 0 if all
    match the ledger, 1 if something differs, 3 if a store or the server did not answer.
    """
    try:
        settings = load_settings()
        if not dataset:
            _of_assets(settings, adopt=adopt, as_json=as_json)
            return
        found = audited_dataset(settings, dataset, branch=branch)
        if suite:
            sys.stdout.write(json.dumps(suite_json(found.plan), indent=2) + "\n")
            return
        from_us, to_us = _span(found, from_, to, last_hour=last_hour)
        result = audit(found.plan, found.history_path, from_us=from_us, to_us=to_us)
        keep_audit(settings, result, branch=branch)
    except (ServerRefusedError, StoreError, FileNotFoundError) as error:
        typer.echo(f"narthex audit: {error}", err=True)
        raise typer.Exit(_OURS) from None
    except (NotInstalledError, UnknownExpectationError) as error:
        typer.echo(f"narthex audit: {error}", err=True)
        raise typer.Exit(_YOURS) from None
    sys.stdout.write(json.dumps(result.to_json()) + "\n" if as_json else _told(result))


def _span(
    found: AuditedDataset, from_: str | None, to: str | None, *, last_hour: bool
) -> tuple[int, int]:
    if last_hour:
        return newest_hour(found.plan, found.history_path)
    if from_ is None or to is None:
        raise typer.BadParameter("pass --from and --to, or --last-hour")
    return _instant(from_), _instant(to)


def _instant(text: str) -> int:
    try:
        return to_micros(dt.datetime.fromisoformat(text))
    except ValueError:
        raise typer.BadParameter(
            f"`{text}` is not an instant such as 2013-01-01T00:00:00Z"
        ) from None


def _told(result: AuditResult) -> str:
    lines = [f"{result.dataset}@{result.version}: {result.rows} rows"]
    for finding in result.findings:
        broken = finding.error or finding.counts.get("unexpected_count", 0)
        kept = "kept  " if finding.success else "BROKEN"
        lines.append(f"{kept} {finding.severity.value:<8} {finding.kind} ({broken})")
    return "\n".join(lines) + "\n"
