"""Columns in the server's answers."""

from narthex._base.records import Json
from narthex.errors import AnswerNotUnderstood


def columns_in(body: Json) -> dict[str, list[object]]:
    """Return an answer as columns by name.

    Raises:
        AnswerNotUnderstood: It is something else.
    """
    found: dict[str, list[object]] = {}
    if not isinstance(body, dict):
        raise AnswerNotUnderstood("the answer has no columns")
    for name, values in body.items():
        if not isinstance(values, list):
            raise AnswerNotUnderstood(f"the answer's `{name}` is not a column")
        found[name] = [*values]
    return found


def items_in(body: dict[str, Json], name: str) -> list[dict[str, Json]]:
    """Return a list of objects of an answer.

    Raises:
        AnswerNotUnderstood: The answer has no such list.
    """
    found = body.get(name)
    if not isinstance(found, list):
        raise AnswerNotUnderstood(f"the answer has no `{name}`")
    return [one for one in found if isinstance(one, dict)]
