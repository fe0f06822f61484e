"""Reports of the quality gates of commits: one sentence for each broken expectation."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final
from uuid import UUID

from pydantic import JsonValue
from typing_extensions import TypedDict

from narthex._base import Json
from narthex._ir import COLUMN_ARGUMENTS, Severity
from narthex_ledger import AuditView, Ledger
from narthex_server.security.dataset_access import Access
from narthex_server.security.route_rights import Right
from narthex_server.web.plain_routes import Instant


class BrokenExpectation(TypedDict):
    """An expectation that rows break, or that could not be checked.

    Attributes:
        rows: How many rows break it; null if that is not known.
        of_rows: How many rows it is about; null if that is not known.
        examples: The keys of some rows that break it; null if the token may not read data, or when
            they were deleted.
        text: A sentence for a person.
    """

    kind: str
    columns: list[str]
    severity: str
    rows: int | None
    of_rows: int | None
    error: str | None
    examples: list[JsonValue] | None
    text: str


class CheckedDataset(TypedDict):
    """The check of the whole history of a dataset before readers flip to a commit.

    Attributes:
        rows: How many rows were checked; null if the history could not be checked.
        offsets: The next offset of each partition that was read up to.
        is_critical: Whether a critical expectation is broken, so that readers do not flip.
        result: The counts of each expectation, as an audit stores them.
    """

    dataset: str
    at: Instant | None
    rows: int | None
    offsets: JsonValue
    success: bool
    is_critical: bool
    broken: list[BrokenExpectation]
    result: JsonValue


def checked_dataset(outcome: AuditView, *, has_examples: bool) -> CheckedDataset:
    """Render the outcome of a gate.

    Args:
        outcome: The outcome.
        has_examples: Whether the reader may see the keys of rows.
    """
    result = outcome.result if isinstance(outcome.result, dict) else {}
    examples = outcome.examples if has_examples else None
    return {
        "dataset": outcome.dataset,
        "at": outcome.at.isoformat() if outcome.at else None,
        "rows": _count(result, "rows"),
        "offsets": result.get("offsets"),
        "success": outcome.success,
        "is_critical": outcome.is_critical,
        "broken": [*_broken(outcome.dataset, result, examples)],
        "result": outcome.result,
    }


def may_see_keys(access: Access, outcome: AuditView) -> bool:
    """Return whether the principal may see keys of the rows of a checked dataset."""
    may_read = Right.READ_DATA in access.principal.rights
    return may_read and access.sees_dataset(outcome.branch, outcome.dataset)


def checked_datasets(
    ledger: Ledger, access: Access, commit_id: UUID, *, branch: str
) -> list[CheckedDataset]:
    """Return the checks of those datasets of a commit that the principal sees."""
    return [
        checked_dataset(outcome, has_examples=may_see_keys(access, outcome))
        for outcome in ledger.audits.gates(commit_id)
        if access.sees_dataset(branch, outcome.dataset)
    ]


def report_lines(checked: Iterable[CheckedDataset]) -> Iterator[str]:
    """Yield a sentence for each broken expectation, critical ones first."""
    broken = [one for dataset in checked for one in dataset["broken"]]
    yield from (one["text"] for one in sorted(broken, key=lambda one: one["severity"] != _CRITICAL))


_CRITICAL: Final = Severity.CRITICAL.value


def _broken(
    dataset: str, result: Mapping[str, Json], examples: Json
) -> Iterator[BrokenExpectation]:
    expectations = result.get("expectations")
    for number, one in enumerate(expectations if isinstance(expectations, list) else ()):
        if isinstance(one, dict) and one.get("success") is False:
            yield _expectation(dataset, one, _at(examples, number))


def _expectation(
    dataset: str, one: Mapping[str, Json], examples: list[Json] | None
) -> BrokenExpectation:
    arguments = one.get("arguments")
    given = arguments if isinstance(arguments, dict) else {}
    elements, missing = _count(one, "element_count"), _count(one, "missing_count") or 0
    error = one.get("error")
    broken: BrokenExpectation = {
        "kind": str(one.get("kind")),
        "columns": [*_columns(given)],
        "severity": str(one.get("severity", Severity.WARNING.value)),
        "rows": _count(one, "unexpected_count"),
        "of_rows": None if elements is None else elements - missing,
        "error": error if isinstance(error, str) else None,
        "examples": examples,
        "text": "",
    }
    return {**broken, "text": _sentence(dataset, broken, given, one.get("mostly"))}


def _sentence(dataset: str, one: BrokenExpectation, given: Mapping[str, Json], mostly: Json) -> str:
    bounds = {name: value for name, value in given.items() if name not in COLUMN_ARGUMENTS}
    bounds |= {} if mostly is None else {"mostly": mostly}
    arguments = ", ".join(f"{name}={value!r}" for name, value in bounds.items())
    columns = ", ".join(one["columns"])
    what = f"{one['severity']}: {dataset}.{columns}: {one['kind']}({arguments})"
    if one["error"]:
        return f"{what} could not be checked: {one['error']}"
    if one["rows"] is None:
        return f"{what} is broken"
    broken = f"{what}: {one['rows']} of {one['of_rows']} rows break it"
    keys = "; ".join(_key(example) for example in one["examples"] or ())
    return f"{broken}, such as {keys}" if keys else broken


def _key(example: JsonValue) -> str:
    if not isinstance(example, dict):
        return str(example)
    return ", ".join(f"{name}={value}" for name, value in example.items())


def _columns(given: Mapping[str, Json]) -> Iterator[str]:
    for name in COLUMN_ARGUMENTS:
        value = given.get(name)
        if isinstance(value, list):
            yield from map(str, value)
        elif value is not None:
            yield str(value)


def _count(counts: Mapping[str, Json], name: str) -> int | None:
    found = counts.get(name)
    return found if isinstance(found, int) else None


def _at(examples: Json, number: int) -> list[Json] | None:
    match examples:
        case list() if number < len(examples) and isinstance(found := examples[number], list):
            return found
        case _:
            return None
