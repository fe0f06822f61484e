"""The tasks that propose expectations: for which datasets, and the proposal for one of them."""

import json
import logging
import subprocess
import sys
from collections.abc import Mapping

from airflow.sdk import get_current_context

from narthex_plugins.batches import MAIN
from narthex_plugins.dataset_audits import served_with
from narthex_plugins.platform_client import Json

log = logging.getLogger(__name__)


def without_expectations(branch: str) -> list[dict[str, str]]:
    """List the datasets without expectations of a branch, or of each branch if it is empty.

    None are on a new installation.
    """
    return served_with("dataset", expectations=False, branches=[branch] if branch else None)


def propose(profiled: Mapping[str, str]) -> dict[str, Json]:
    """Log the expectations that the history of one dataset meets, as Python to paste.

    Raises:
        RuntimeError: The history could not be read; a retry reads it again.
    """
    branch, dataset = profiled["branch"], profiled["dataset"]
    context = get_current_context()
    context["profiled"] = dataset if branch == MAIN else f"{dataset} on {branch}"
    command = [sys.executable, "-m", "narthex.cli", "profile", dataset, "--branch", branch]
    done = subprocess.run([*command, "--json"], check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"nothing was proposed: {done.stderr.strip()}")
    found: dict[str, Json] = json.loads(done.stdout)
    reasons = found["reasons"]
    proposed = len(reasons) if isinstance(reasons, list) else 0
    log.info(
        "%s: %s expectations, from %s rows of its history; %s rows meet them",
        dataset,
        proposed,
        found["sampled_rows"],
        found["rows"],
    )
    for line in str(found["source"]).splitlines():
        log.info("%s", line)
    return {"branch": branch, "dataset": dataset, "expectations": proposed}
