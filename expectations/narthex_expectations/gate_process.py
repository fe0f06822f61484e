"""The process that checks the new and changed datasets of a commit: `python -m` runs it.

The server starts it, because importing Great Expectations takes a second, and because a pattern of
an author may take for ever. It reads one JSON object with `datasets` from stdin, each a `plan` and
its `history_path`. For each of them it writes one line of JSON to stdout: its `dataset`, and either
its `result` and `examples`, or the `error` for which it could not be checked.
"""

import json
import sys
import time
from collections.abc import Iterator

from narthex._base import Json, from_plain
from narthex._ir import DatasetPlan
from narthex_expectations.audit_results import UnknownExpectationError
from narthex_expectations.gates import check_history
from narthex_stores import StoreError, TooManyStatesError


def main() -> None:
    """Check what stdin names, and print each result when it is known."""
    asked: Json = json.load(sys.stdin)
    for plan, path in _datasets(asked):
        sys.stdout.write(json.dumps(_checked(plan, path)) + "\n")
        sys.stdout.flush()


def _checked(plan: DatasetPlan, path: str) -> dict[str, Json]:
    try:
        found = check_history(plan, path, now_us=time.time_ns() // 1000)
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


def _datasets(asked: Json) -> Iterator[tuple[DatasetPlan, str]]:
    match asked:
        case {"datasets": list(datasets)}:
            pass
        case _:
            raise ValueError("stdin has no list `datasets`")
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
