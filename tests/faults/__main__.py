"""`make faults`: switch deliberate faults on, one after the other, and print who finds them."""

import json
import sys
from collections.abc import Sequence
from typing import Annotated, Final

import attrs
import typer

from tests.faults.faults import Fault, all_faults
from tests.faults.faulty_copy import FaultyCopy
from tests.whole_files import MARKED_APART, NIGHTLY

LONG: Final = " or ".join(MARKED_APART)
TIERS: Final = {
    "make test": f"path or not ({LONG})",
    "make test-all": f"({LONG}) and not {NIGHTLY}",
}
"""Each tier, and the markers of the tests that only it and the later ones run."""

NOT_FOUND: Final = "not found"
SHARE_OF_TEST: Final = 0.9
"""The share of the faults that `make test` must find."""


@attrs.frozen(kw_only=True)
class Finding:
    """Who finds a fault: the tier, the test, and what this said; or why nobody does."""

    fault: Fault
    tier: str
    test: str
    message: str
    seconds: float

    @property
    def plain(self) -> dict[str, str | float]:
        """The finding in JSON."""
        names = {"fault": self.fault.name, "page": self.fault.page, "promise": self.fault.promise}
        return {**names, **attrs.asdict(self, filter=lambda one, _: one.name != "fault")}

    @property
    def line(self) -> str:
        """The finding in a line of the table."""
        page = self.fault.page.removeprefix("docs/")
        took = f"{self.tier:13} {self.seconds:4.0f} s"
        return f"{self.fault.name:78} {page:48} {took}  {self.test or self.message}"


def found(copied: FaultyCopy, fault: Fault, *, within_s: float) -> Finding:
    """Switch a fault on, and run its tests, tier by tier, until one fails."""
    seconds, said = 0.0, []
    with copied.having(fault):
        for tier, markers in TIERS.items():
            run = copied.run(fault.found_by, markers=markers, within_s=within_s)
            seconds += run.seconds
            if run.failed:
                return Finding(
                    fault=fault, tier=tier, test=run.failed, message=run.message, seconds=seconds
                )
            said += [run.message] if run.message else []
    return Finding(fault=fault, tier=NOT_FOUND, test="", message="; ".join(said), seconds=seconds)


def fail_without_faults(copied: FaultyCopy, faults: Sequence[Fault], *, within_s: float) -> str:
    """Run all named tests without a fault; return which one fails, or why the run failed."""
    named = sorted({test for fault in faults for test in fault.found_by})
    run = copied.run(named, markers="", within_s=within_s * len(faults))
    return "" if run.is_green else f"{run.failed} {run.message}"


def main(
    only: Annotated[str, typer.Option(help="Only faults whose names contain this.")] = "",
    within: Annotated[
        float, typer.Option(help="How many seconds the tests of a fault have.")
    ] = 900,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")] = False,
) -> None:
    """Exit with 1 if a fault is not found, or if `make test` finds fewer than nine in ten."""
    chosen = [fault for fault in all_faults() if only.lower() in fault.name.lower()]
    findings: list[Finding] = []
    with FaultyCopy.made() as copied:
        wrong = fail_without_faults(copied, chosen, within_s=within)
        if wrong or not chosen:
            sys.stderr.write(f"without any fault: {wrong or 'no fault has this name'}\n")
            raise typer.Exit(1)
        for fault in chosen:
            findings.append(found(copied, fault, within_s=within))
            sys.stderr.write(f"{findings[-1].line}\n") if as_json else _write(findings[-1].line)
    if as_json:
        _write(json.dumps([finding.plain for finding in findings], indent=1))
    else:
        counts = {tier: [one.tier for one in findings].count(tier) for tier in (*TIERS, NOT_FOUND)}
        _write(f"{len(findings)} faults: " + ", ".join(f"{t} {n}" for t, n in counts.items()))
    raise typer.Exit(0 if are_enough(findings) else 1)


def are_enough(findings: Sequence[Finding]) -> bool:
    """Return whether all faults are found, and enough of them by `make test`."""
    first = [finding.tier == next(iter(TIERS)) for finding in findings]
    is_whole = all(finding.tier != NOT_FOUND for finding in findings)
    return is_whole and (len(findings) == 1 or sum(first) >= SHARE_OF_TEST * len(findings))


def _write(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    typer.run(main)
