"""The tasks that compare the platform's data and its answers with what definitions mean."""

import json
import logging
import subprocess
import sys

from airflow.sdk import Context, get_current_context
from airflow.sdk.exceptions import AirflowFailException

from narthex_plugins.platform_client import Json

log = logging.getLogger(__name__)

DIFFERENT = 1
NIGHT_H = 25
"""The hours whose logged queries a nightly run draws from, with an hour of overlap."""


def compare(dataset: str) -> dict[str, Json]:
    """Recompute a sample of the keys of one dataset, and compare them with its stores.

    Raises:
        AirflowFailException: Something differs; the message has the differences.
        RuntimeError: Something could not be compared now.
    """
    context = get_current_context()
    context["dataset"] = dataset
    share = ["--sample", str(context["params"]["sample"])]
    proof = _proof(context, ["--dataset", dataset, *share])
    return {"dataset": dataset, "compared": proof["compared"]}


def repeat_answers(branch: str) -> dict[str, Json]:
    """Ask logged queries of a branch again, on the rows below their offsets; demand equal answers.

    A run draws at most `answers` of the queries that the serving commit has answered in the last
    25 hours, by the day as the seed.

    Raises:
        AirflowFailException: An answer differs; the message has the feature, the key, both values
            and the offsets.
        RuntimeError: The queries could not be repeated now.
    """
    context = get_current_context()
    context["branch"] = branch
    bounds = ["--answers", str(context["params"]["answers"]), "--answered-within", str(NIGHT_H)]
    proof = _proof(context, ["--branch", branch, "--only-answers", *bounds])
    compared = proof["compared"]
    repeated = compared.get("answers", 0) if isinstance(compared, dict) else 0
    log.info("%s logged queries of %s have the same answers", repeated, branch)
    return {"branch": branch, "repeated": repeated, "changed_since": proof["changed_answers"]}


def _proof(context: Context, options: list[str]) -> dict[str, Json]:
    seed = context["dag_run"].run_after.strftime("%Y%m%d")
    command = [sys.executable, "-m", "narthex.cli", "prove", "--json", "--seed", seed, *options]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    proof: dict[str, Json] = json.loads(done.stdout) if done.stdout else {}
    if done.returncode == DIFFERENT:
        more = {"differences": proof.get("differences"), "more": proof.get("more")}
        raise AirflowFailException(json.dumps(more, indent=2))
    if done.returncode:
        raise RuntimeError(f"not compared: {json.dumps(proof.get('unproved', []))}")
    return proof
