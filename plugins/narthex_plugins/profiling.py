"""The tasks that propose expectations: for which datasets, and proposals for a batch of them."""

import logging
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from airflow.sdk import get_current_context
from airflow.sdk.bases.xcom import BaseXCom

from narthex_plugins.batches import Entry, in_batches, label_of, name_of, run_for
from narthex_plugins.dataset_audits import served_with
from narthex_plugins.platform_client import Json

log = logging.getLogger(__name__)

EACH_WITHIN_S: Final = 1800.0
"""How long a dataset may take: its whole history is checked, not an hour of it."""

BATCH_WITHIN_S: Final = 6 * 3600.0
"""How long a batch may take."""

Proposed = dict[str, Json]
"""An entry in the return value of a task: with the number of `expectations`, or the `error`."""


def without_expectations(branch: str) -> list[list[Entry]]:
    """List the datasets without expectations of a branch, or of each branch if it is empty.

    They are in batches, as those that are audited. None are on a new installation.
    """
    return in_batches(
        served_with("dataset", expectations=False, branches=[branch] if branch else None)
    )


def propose(profiled: Sequence[Entry]) -> list[Proposed]:
    """Log the expectations that the history of each dataset of a batch meets, as Python to paste.

    A dataset whose history cannot be read fails the task once the whole batch is done.

    Raises:
        RuntimeError: A history could not be read; the message has all such datasets. A retry reads
            the histories of the whole batch again.
    """
    context = get_current_context()
    context["profiled"] = label_of(profiled)
    done = run_for(
        [name_of(entry) for entry in profiled],
        [sys.executable, "-m", "narthex.cli", "profile"],
        ["--branch", profiled[0]["branch"], "--json"],
        each_within_s=EACH_WITHIN_S,
        within_s=BATCH_WITHIN_S,
    )
    found: list[Proposed] = []
    for entry in profiled:
        name = name_of(entry)
        if name in done.errors:
            log.error("%s: nothing was proposed: %s", name, done.errors[name])
            found.append({**entry, "error": done.errors[name]})
        else:
            (profile,) = done.results[name]
            found.append({**entry, "expectations": _log(name, profile)})
    failed = [f"{one['dataset']}: {one['error']}" for one in found if "error" in one]
    if failed:
        # The results of the others are there all the same.
        context["ti"].xcom_push(key=BaseXCom.XCOM_RETURN_KEY, value=found)
        raise RuntimeError(f"nothing was proposed: {'; '.join(failed)}")
    return found


def _log(name: str, profile: Mapping[str, Json]) -> int:
    """Log a proposal; return the number of its expectations."""
    reasons = profile["reasons"]
    proposed = len(reasons) if isinstance(reasons, list) else 0
    log.info(
        "%s: %s expectations, from %s rows of its history; %s rows meet them",
        name,
        proposed,
        profile["sampled_rows"],
        profile["rows"],
    )
    for line in str(profile["source"]).splitlines():
        log.info("%s", line)
    return proposed
