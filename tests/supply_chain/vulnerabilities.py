"""Look up the known vulnerabilities of all dependencies, and never call silence a result."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import attrs

from tests.supply_chain.bill_of_materials import TOOLS


@attrs.frozen(kw_only=True)
class Audit:
    """The result of a look-up.

    Attributes:
        audited: The distributions that were looked up.
        not_audited: Those that were not, each with a reason.
        found: Each vulnerability: distribution, version, its id and the versions that mend it.
    """

    audited: tuple[str, ...]
    not_audited: dict[str, str]
    found: tuple[str, ...]


def audit(lock: Path) -> Audit:
    """Look up every distribution of a lock file; this needs the network."""
    done = subprocess.run(
        [
            *(str(TOOLS / "pip-audit"), "--requirement", str(lock), "--require-hashes"),
            *("--disable-pip", "--format", "json", "--progress-spinner", "off"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if not done.stdout.strip():
        reason = done.stderr.strip().rpartition("\n")[2]
        return Audit(audited=(), not_audited={"all": reason or "no answer"}, found=())
    return parse(json.loads(done.stdout)["dependencies"])


def parse(dependencies: Sequence[dict[str, object]]) -> Audit:
    """Sort the answers of the look-up."""
    skipped = {
        str(one["name"]): str(one["skip_reason"]) for one in dependencies if "skip_reason" in one
    }
    found: list[str] = []
    for one in dependencies:
        vulnerabilities = one.get("vulns")
        for each in vulnerabilities if isinstance(vulnerabilities, list) else ():
            mended = ", ".join(each["fix_versions"]) or "no version"
            found.append(f"{one['name']} {one['version']}: {each['id']}, mended in {mended}")
    audited = tuple(str(one["name"]) for one in dependencies if "skip_reason" not in one)
    return Audit(audited=audited, not_audited=skipped, found=tuple(found))
