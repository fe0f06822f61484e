"""One run of `narthex audit`: what it checks, prints and stores."""

import datetime as dt
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import attrs
import typer

from narthex._base import HOUR_US, Backoff, Json, to_micros
from narthex._ir import Featureset
from narthex.cli.error_reports import log_crash
from narthex.cli.exit_codes import ExitCode
from narthex.cli.output import (
    cell,
    print_done,
    print_json,
    print_json_line,
    print_table,
    tell,
)
from narthex.settings import Settings, load_settings
from narthex_expectations.audit_results import AuditResult, By
from narthex_expectations.audits import audit, audit_arrived, newest_hour
from narthex_expectations.data_context import DataContext, ValidationRun, interval_name
from narthex_expectations.feature_audits import audit_answers
from narthex_expectations.frames import open_history
from narthex_expectations.runs_by_name import RunByName
from narthex_expectations.server_client import (
    AuditedDataset,
    adopt_stores,
    audit_assets,
    audited_entities,
    keep_audit,
)
from narthex_expectations.suites import compile_suite, suite_json, suite_of
from narthex_stores import (
    HistoryTable,
    LogReader,
    TransientError,
    platform_broker,
)

REACHED_WITHIN_S: Final = 120.0
"""How long to wait until the histories contain the rows that have arrived."""
LOOKS: Final = Backoff(first_s=0.5, greatest_s=2.0)


def _of_assets(settings: Settings, *, adopt: bool, as_json: bool) -> None:
    if adopt:
        adopted = adopt_stores(settings)
        kinds = cell(adopted.get("adopted")) or "no store"
        print_done(adopted, f"this ledger owns {kinds}", as_json=as_json)
        return
    drift = audit_assets(settings)
    if as_json:
        print_json_line(drift)
    else:
        sys.stdout.write(render_assets(drift))
    if not drift["complete"]:
        raise typer.Exit(ExitCode.OUR_FAULT)
    if not drift["sound"]:
        raise typer.Exit(ExitCode.YOUR_MISTAKE)


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


def run(  # noqa: PLR0913 - those of the command
    names: Sequence[str],
    *,
    from_: str | None,
    to: str | None,
    last_hour: bool,
    by_event_time: bool,
    by_arrival: bool,
    suite: bool,
    branch: str,
    adopt: bool,
    as_json: bool,
) -> None:
    """Audit as `narthex audit` does, whose arguments these are; exit with its status."""
    of_names = RunByName(command="audit", as_json=as_json)
    with of_names.looking_up():
        settings = load_settings()
        if not names:
            _of_assets(settings, adopt=adopt, as_json=as_json)
            return
        span = None if suite or last_hour else _span(from_, to)
        found = audited_entities(settings, names, branch=branch)
    audits = AuditsOfCall(
        settings=settings,
        branch=branch,
        by_event_time=by_event_time,
        by_arrival=by_arrival,
        span=span,
    )
    shown = _print_suite if suite else audits.print_stored
    try:
        of_names.for_each(found, partial(shown, as_json=as_json))
    finally:
        audits.publish()


@attrs.define(kw_only=True)
class AuditsOfCall:
    """The audits of one call of the command.

    Attributes:
        by_event_time: Whether rows are audited by their event time.
        by_arrival: Whether they are audited by their arrival.
        span: The first instant and the one to stop before; None for the last hour of each name.
        waits_until: The instant of the monotonic clock until which histories are awaited. All
            names share it: what was not there in time for the first has had longer since.
    """

    settings: Settings
    branch: str
    by_event_time: bool
    by_arrival: bool
    span: tuple[int, int] | None
    waits_until: float = attrs.field(factory=lambda: time.monotonic() + REACHED_WITHIN_S)
    _data_context: DataContext = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._data_context = DataContext(directory=self.settings.expectations_dir)

    def publish(self) -> None:
        """Bring the Data Docs up to date; if that fails, say so: the results are stored."""
        try:
            self._data_context.publish(now_us=time.time_ns() // 1000)
        except Exception as error:  # noqa: BLE001 - whatever it is, every audit has run
            tell(f"narthex audit: the Data Docs are not up to date: {log_crash(error)}")

    def print_stored(self, found: AuditedDataset | Featureset, *, as_json: bool) -> None:
        """Audit as `stored` does, and print the results."""
        for result in self.stored(found):
            _print(result, as_json=as_json)

    def stored(self, found: AuditedDataset | Featureset) -> list[AuditResult]:
        """Audit a dataset or a featureset, store each result on the server, and return them.

        Raises:
            FileNotFoundError: There is no history.
            ServerRefusedError: The server did not store a result.
            StoreError: A store did not answer, or the history is not as far as its log.
            TooManyStatesError: A key of an aggregate has too many states.
            UnknownExpectationError: An expectation is of a kind that this version does not support.
        """
        from_us, to_us = self.span or _last_hour(found)
        if isinstance(found, Featureset):
            results = [
                audit_answers(
                    self.settings,
                    found,
                    branch=self.branch,
                    from_us=from_us,
                    to_us=to_us,
                    run=self._run(By.LOGGED, from_us, to_us),
                )
            ]
        else:
            results = [*self._of_rows(found, from_us, to_us)]
        for result in results:
            keep_audit(self.settings, result, branch=self.branch)
        return results

    def _of_rows(self, found: AuditedDataset, from_us: int, to_us: int) -> Iterator[AuditResult]:
        """Yield the audit by arrival, then the one by event time, as far as they are asked for.

        Aggregates have no rows that arrive: their values are audited as of the end of the interval.
        """
        if self.by_arrival and not found.plan.aggregates:
            with LogReader(platform_broker(self.settings)) as reader:
                since, offsets = (
                    reader.offsets_since(found.topic, since_ms=-(-instant // 1000))
                    for instant in (from_us, to_us)
                )
            yield audit_arrived(
                found.plan,
                self._reached(found, offsets),
                from_us=from_us,
                to_us=to_us,
                since=since,
                offsets=offsets,
                run=self._run(By.ARRIVAL, from_us, to_us),
            )
        if self.by_event_time or found.plan.aggregates:
            yield audit(
                found.plan,
                found.history_path,
                from_us=from_us,
                to_us=to_us,
                run=self._run(By.EVENT_TIME, from_us, to_us),
            )

    def _run(self, by: By, from_us: int, to_us: int) -> ValidationRun:
        return self._data_context.run(
            interval_name(by, from_us=from_us, to_us=to_us),
            branch=self.branch,
            now_us=time.time_ns() // 1000,
        )

    def _reached(self, found: AuditedDataset, offsets: Mapping[int, int]) -> HistoryTable:
        """Wait until a history contains everything below some offsets of its log.

        Raises:
            TransientError: It did not in time.
        """
        table = open_history(found.plan, found.history_path)
        known: dict[int, int] = {}
        for _ in LOOKS.attempts(within_s=self.waits_until - time.monotonic()):
            known = table.offsets()
            if all(known.get(partition, 0) >= at for partition, at in offsets.items()):
                return table
        raise TransientError(
            f"the history of `{found.plan.name}` is at the offsets {known} and not yet at {offsets}"
        )


def _print_suite(found: AuditedDataset | Featureset, *, as_json: bool) -> None:
    (print_json_line if as_json else print_json)(_suite(found))


def _suite(found: AuditedDataset | Featureset) -> Json:
    if isinstance(found, Featureset):
        return suite_json(suite_of(found.name, found.expectations, found.columns))
    return suite_json(compile_suite(found.plan))


def _span(from_: str | None, to: str | None) -> tuple[int, int]:
    if from_ is None or to is None:
        raise typer.BadParameter("pass --from and --to, or --last-hour")
    return _instant(from_), _instant(to)


def _last_hour(found: AuditedDataset | Featureset) -> tuple[int, int]:
    now_us = time.time_ns() // 1000
    if isinstance(found, Featureset):
        return now_us - HOUR_US, now_us
    return newest_hour(found.plan, found.history_path, now_us=now_us)


def _instant(text: str) -> int:
    try:
        return to_micros(dt.datetime.fromisoformat(text))
    except ValueError:
        raise typer.BadParameter(
            f"`{text}` is not an instant such as 2013-01-01T00:00:00Z"
        ) from None


def _print(result: AuditResult, *, as_json: bool) -> None:
    if as_json:
        print_json_line(result.to_json())
        return
    by = result.by.value.replace("_", " ")
    what = "answers" if result.by is By.LOGGED else "rows"
    entity = f"{result.dataset}@{result.version}" if result.version else result.dataset
    tell(f"{entity}: {result.rows} {what} by {by}")
    rows: list[list[Json]] = [
        [
            "kept" if one.success else "BROKEN",
            one.severity.value,
            one.kind,
            one.counts.get("unexpected_count", 0),
            one.error,
        ]
        for one in result.findings
    ]
    headings = ("outcome", "severity", "expectation", "unexpected", "error")
    print_table(headings, rows, empty="it has no expectation")
