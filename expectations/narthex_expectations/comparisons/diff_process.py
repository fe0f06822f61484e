"""The process that compares datasets and features between two sides: `python -m` runs it.

The server starts it, because a diff reads histories and takes seconds. It reads one JSON object
with `questions` from stdin. For each of them it writes one line of JSON to stdout: the `dataset`,
which may be a featureset, and either its `result` and `examples`, or the `error`, and whether that
is the `caller`'s.
"""

import json
import sys

from narthex._base import Json
from narthex_expectations.comparisons.feature_diffs import diff_features, feature_question_of
from narthex_expectations.comparisons.value_diffs import NotComparableError, diff, question_of
from narthex_stores import StoreError


def main() -> None:
    """Answer what stdin asks, and print each answer when it is known."""
    asked: Json = json.load(sys.stdin)
    match asked:
        case {"questions": list(questions)}:
            for one in questions:
                sys.stdout.write(json.dumps(_answered(one)) + "\n")
                sys.stdout.flush()
        case _:
            raise ValueError("stdin has no list `questions`")


def _answered(plain: Json) -> dict[str, Json]:
    asked = plain if isinstance(plain, dict) else {}
    name = str(asked.get("featureset", asked.get("dataset")))
    try:
        if "featureset" in asked:
            answer = diff_features(feature_question_of(asked))
        else:
            answer = diff(question_of(asked))
    except NotComparableError as error:
        return {"dataset": name, "error": str(error), "caller": True}
    except (FileNotFoundError, StoreError) as error:
        # Below its first line, an error of the store has the frames of its library.
        said = str(error).partition("\n")[0]
        return {"dataset": name, "error": said, "caller": False}
    return {"dataset": name, "result": answer.result, "examples": [*answer.examples]}


if __name__ == "__main__":
    main()
