"""`narthex audit`: with a dataset, its history against its promises; without, what should exist.

Both hold what is said against what is there.
"""

import datetime as dt
import json
import sys
from typing import Annotated

import typer

from narthex.records import Json
from narthex.settings import NotInstalledError, Settings, load_settings
from narthex.times import to_micros
from narthex_expectations.audits import AuditResult, audit, newest_hour
from narthex_expectations.server import (
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


def _of_assets(settings: Settings, *, adopt: bool, as_json: bool) -> None:
    if adopt:
        adopted = adopt_stores(settings)
        sys.stdout.write(json.dumps(adopted) + "\n")
        return
    found = audit_assets(settings)
    sys.stdout.write(json.dumps(found) + "\n" if as_json else render_assets(found))
    if not found["complete"]:
        raise typer.Exit(_OURS)
    if not found["sound"]:
        raise typer.Exit(_YOURS)


def render_assets(found: dict[str, Json]) -> str:
    """Tell people what an audit of the stores found, a line a finding."""
    lines = []
    systems = found["systems"]
    for system in systems if isinstance(systems, list) else ():
        if not isinstance(system, dict):
            continue
        lines.append(f"{system['kind']}: {system['listed']} there {system['error']}".rstrip())
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
        str, typer.Argument(help="The dataset's name [none: the ledger against the stores].")
    ] = "",
    *,
    from_: Annotated[str | None, typer.Option("--from", metavar="RFC3339")] = None,
    to: Annotated[str | None, typer.Option("--to", metavar="RFC3339")] = None,
    last_hour: Annotated[
        bool, typer.Option("--last-hour", help="The hour that ends with the newest row.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    suite: Annotated[
        bool, typer.Option("--suite", help="Print the Great Expectations suite, and do no more.")
    ] = False,
    branch: Annotated[str, typer.Option(help="Whose version of the dataset.")] = "main",
    adopt: Annotated[
        bool,
        typer.Option(
            "--adopt", help="After a restore: let this ledger's word count in the stores."
        ),
    ] = False,
) -> None:
    """Hold a dataset's history against its expectations; or the ledger against the stores.

    With a DATASET: the rows in [FROM, TO). The result is kept by the server. The exit status says
    whether the audit could be made, not whether promises were kept: that is in the result.

    Without: every topic, index, history and checkpoint. The exit status is 0 when all is as the
    ledger says, 1 when something is not, 3 when a store or the server did not answer.
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
        raise typer.BadParameter("give --from and --to, or --last-hour")
    return _instant(from_), _instant(to)


def _instant(text: str) -> int:
    try:
        return to_micros(dt.datetime.fromisoformat(text))
    except ValueError:
        raise typer.BadParameter(f"`{text}` is no instant such as 2013-01-01T00:00:00Z") from None


def _told(result: AuditResult) -> str:
    lines = [f"{result.dataset}@{result.version}: {result.rows} rows"]
    for finding in result.findings:
        broken = finding.error or finding.counts.get("unexpected_count", 0)
        lines.append(f"{'kept  ' if finding.success else 'BROKEN'} {finding.kind} ({broken})")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    typer.run(main)
