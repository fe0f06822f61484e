"""The process that checks the new and changed datasets of a commit: `python -m` runs it.

The server starts it, because importing Great Expectations takes a second, and because a pattern of
an author may take for ever. It reads one JSON object from stdin: the `commit_id`, its `branch`, the
`data_context` that stores the validation results, and `datasets`, each a `plan` and its
`history_path`. For each of them it writes one line of JSON to stdout: its `dataset`, and either its
`result` and `examples`, or the `error` for which it could not be checked.
"""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import attrs

from narthex._base import Json, from_plain
from narthex._ir import DatasetPlan
from narthex_expectations.audit_results import UnknownExpectationError
from narthex_expectations.data_context import DataContext, ValidationRun
from narthex_expectations.gates import check_history
from narthex_stores import StoreError, TooManyStatesError


@attrs.frozen(kw_only=True)
class Gates:
    """The gates of a commit.

    Attributes:
        run: The run of their validations.
        datasets: The datasets, each with the path of its history.
    """

    run: ValidationRun
    datasets: tuple[tuple[DatasetPlan, str], ...]


def main() -> None:
    """Check what stdin names, and print each result when it is known."""
    gates = _gates(json.load(sys.stdin))
    for plan, path in gates.datasets:
        sys.stdout.write(json.dumps(_checked(gates.run, plan, path)) + "\n")
        sys.stdout.flush()
    gates.run.context.publish(now_us=gates.run.at_us)


def _checked(run: ValidationRun, plan: DatasetPlan, path: str) -> dict[str, Json]:
    try:
        found = check_history(plan, path, now_us=run.at_us, run=run)
    except (
        FileNotFoundError,
        StoreError,
        TooManyStatesError,
        UnknownExpectationError,
    ) as error:
        # Below its first line, an error of the store has the frames of its library.
        return {"dataset": plan.name, "error": str(error).partition("\n")[0]}
    return {
        "dataset": plan.name,
        "success": found.success,
        "is_critical": found.is_critical,
        "result": found.to_json(),
        "examples": found.examples,
    }


def _gates(asked: Json) -> Gates:
    match asked:
        case {
            "commit_id": str(commit_id),
            "branch": str(branch),
            "data_context": str(directory),
            "datasets": list(datasets),
        }:
            context = DataContext(directory=Path(directory))
            name = f"quality gate of commit {UUID(commit_id)}"
            run = context.run(name, branch=branch, now_us=time.time_ns() // 1000)
            return Gates(run=run, datasets=tuple(_datasets(datasets)))
        case _:
            raise ValueError("stdin lacks `commit_id`, `branch`, `data_context` or `datasets`")


def _datasets(datasets: list[Json]) -> Iterator[tuple[DatasetPlan, str]]:
    for one in datasets:
        match one:
            case {"plan": plain, "history_path": str(path)} if isinstance(
                plan := from_plain(plain), DatasetPlan
            ):
                yield plan, path
            case _:
                raise ValueError("a dataset lacks its `plan` or its `history_path`")


if __name__ == "__main__":
    main()
