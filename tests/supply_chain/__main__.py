"""`make sbom`, `make audit`: what is installed, and whether a known vulnerability is in it.

    python -m tests.supply_chain sbom | audit | licences

`sbom` writes `build/narthex.cdx.json`. `audit` exits with 1 for a known vulnerability, and with 3
if any package could not be looked up: the look-up needs the network. `licences` writes
`docs/licences.md`.
"""

import argparse
import sys

from tests.supply_chain.bill_of_materials import write_bill
from tests.supply_chain.licences import LOCK, PAGE, ROOT, render
from tests.supply_chain.vulnerabilities import audit

SHOWN = 5


def main() -> int:
    """Run one of the three; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.supply_chain", description=__doc__)
    parser.add_argument("what", choices=["sbom", "audit", "licences"])
    asked = parser.parse_args()
    match asked.what:
        case "sbom":
            path = ROOT / "build" / "narthex.cdx.json"
            count = write_bill(path)
            sys.stderr.write(f"{count} components\n")
            sys.stdout.write(f"{path.relative_to(ROOT)}\n")
        case "licences":
            PAGE.write_text(render(), encoding="utf-8")
        case _:
            return _audited()
    return 0


def _audited() -> int:
    result = audit(LOCK)
    for line in result.found:
        sys.stdout.write(f"{line}\n")
    sys.stderr.write(f"{len(result.audited)} packages looked up, {len(result.found)} findings\n")
    if result.not_audited:
        sys.stderr.write(f"not audited: {len(result.not_audited)} packages, such as\n")
        for name in sorted(result.not_audited)[:SHOWN]:
            sys.stderr.write(f"  {name}: {result.not_audited[name]}\n")
        sys.stderr.write("run it where the advisories of the package index can be reached\n")
    return 1 if result.found else 3 if result.not_audited else 0


if __name__ == "__main__":
    sys.exit(main())
