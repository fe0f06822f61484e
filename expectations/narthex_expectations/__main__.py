"""`narthex audit DATASET`: hold the rows of a span of history against the dataset's promises."""

import datetime as dt
import json
import sys
from typing import Annotated

import typer

from narthex.settings import NotInstalledError, load_settings
from narthex.times import to_micros
from narthex_expectations.audits import AuditResult, audit, newest_hour
from narthex_expectations.server import (
    AuditedDataset,
    ServerRefusedError,
    audited_dataset,
    keep_audit,
)
from narthex_expectations.suites import UnknownExpectationError, suite_json
from narthex_stores import StoreError

_YOURS, _OURS = 1, 3


def main(  # noqa: PLR0913 - one argument an option
    dataset: Annotated[str, typer.Argument(help="The dataset's name.")],
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
) -> None:
    """Hold the rows of a dataset's history in [FROM, TO) against its expectations.

    The result is kept by the server. The exit status says whether the audit could be made, not
    whether promises were kept: that is in the result.
    """
    try:
        settings = load_settings()
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
