"""Diffs of values between two manifests, computed by a process from histories.

A branch is compared with another when a client asks, and a commit with what readers read before a
person approves it (`commit_diffs`).
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from narthex._base import Json, to_plain
from narthex._ir import DatasetPlan, ResolvedAsset
from narthex._processes import ProcessGroup
from narthex_ledger import ManifestView
from narthex_stores import history_path

DIFFER: Final = "narthex_expectations.comparisons.diff_process"
"""The module that compares histories; it is not imported here, but run as a process."""

OF_A_CLIENT_S: Final = 300.0
"""How long the diff of a client may take."""

MOST_OF_A_COMMIT: Final = 50
"""How many datasets of a commit are compared."""

_MARK: Final = "NARTHEX_OPERATOR_HOME"


def side_of(
    dataset: str,
    plans: Iterable[DatasetPlan],
    bindings: Mapping[str, ResolvedAsset],
    *,
    history_dir: str,
    hidden: frozenset[str] = frozenset(),
) -> dict[str, Json] | None:
    """Return a dataset with all that it is made from, as the process reads a side.

    Args:
        dataset: The dataset.
        plans: The plans of a manifest.
        bindings: The assets of the manifest.
        history_dir: The directory of histories.
        hidden: Datasets that are not followed.

    Returns:
        None if the dataset has no history.
    """
    by_name = {plan.name: plan for plan in plans}
    found: dict[str, Json] = {}
    waiting = [dataset]
    while waiting:
        name = waiting.pop()
        history = bindings.get(f"dataset/{name}/history")
        if name in found or name in hidden or history is None or name not in by_name:
            continue
        reads = sorted(_reads(name, bindings))
        found[name] = {
            "plan": to_plain(by_name[name]),
            "history_path": history_path(history_dir, history.physical_name),
            "asset_id": history.asset_id,
            "reads": [*reads],
        }
        waiting += reads
    return found if dataset in found else None


def _reads(dataset: str, bindings: Mapping[str, ResolvedAsset]) -> set[str]:
    begin = f"job/{dataset}/pipeline/"
    roles = [
        need.role.partition(":")
        for path, asset in bindings.items()
        if path.startswith(begin)
        for need in asset.needs
    ]
    return {of for kind, _, of in roles if kind in {"input", "right"}}


def answers_to(questions: Sequence[Json], *, within_s: float) -> tuple[list[dict[str, Json]], str]:
    """Run the process; return the answers that it gave in time, in order, and how it ended."""
    process = ProcessGroup.start(
        [sys.executable, "-m", DIFFER], environment=_environment(), has_pipes=True
    )
    asked = json.dumps({"questions": [*questions]}).encode()
    try:
        output, _ = process.popen.communicate(asked, timeout=within_s)
        ending = process.ending
    except subprocess.TimeoutExpired as late:
        output, ending = late.output or b"", f"took more than {within_s:.0f} s"
    finally:
        process.kill()
    return [*_read(output)], f"the comparison {ending}"


def _environment() -> dict[str, str]:
    """Return the environment without the platform's own secrets, of which it needs none."""
    return {
        name: value
        for name, value in os.environ.items()
        if name == _MARK or not name.startswith("NARTHEX_")
    }


def _read(output: bytes) -> Iterator[dict[str, Json]]:
    for line in output.decode().splitlines():
        try:
            found: Json = json.loads(line)
        except ValueError:
            # The process was ended while it printed.
            continue
        if isinstance(found, dict) and isinstance(found.get("dataset"), str):
            yield found


def question(
    dataset: str, sides: Sequence[Json], choice: Mapping[str, Json] | None = None
) -> dict[str, Json]:
    """Return the question that the process reads, as of now."""
    now = time.time_ns() // 1000
    return {"dataset": dataset, "sides": [*sides], "now": now, **(choice or {})}


def questions_between(
    new: ManifestView, read: ManifestView | None, *, history_dir: str
) -> dict[str, Json]:
    """Return the questions about a commit, by dataset: those of which it has another history.

    Args:
        new: The manifest of the commit.
        read: The manifest that readers read; None before the first one.
        history_dir: The directory of histories.
    """
    if read is None:
        return {}
    found: dict[str, Json] = {}
    for plan in sorted(new.plans, key=lambda one: one.name):
        path = f"dataset/{plan.name}/history"
        before, after = read.bindings.get(path), new.bindings.get(path)
        if before is None or after is None or before.asset_id == after.asset_id:
            continue
        first, second = (
            side_of(plan.name, one.plans, one.bindings, history_dir=history_dir)
            for one in (read, new)
        )
        if first is not None and second is not None:
            found[plan.name] = question(plan.name, [first, second])
    return dict([*found.items()][:MOST_OF_A_COMMIT])
