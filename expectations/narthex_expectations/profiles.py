"""Expectations proposed from rows: ranges, shares of nulls, sets of few values, obvious patterns.

A proposal is a beginning for an author: bounds have a margin beyond what was seen, and columns
about which nothing simple is true have no expectation.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs
import numpy as np
import pandas as pd

from narthex._ir import DatasetPlan, DataType, Expectation, LiteralValue, base_type, inner, types
from narthex_expectations.audit_results import AuditResult, ExpectationResult

FEWEST_VALUES: Final = 20
"""How many values of a column there have to be to expect anything of it."""

MOST_IN_SET: Final = 20
"""How many different values a set may have."""

_REPEATED: Final = 10
"""How often a value of a set has to be there, on average."""

_OUTSIDE: Final = 0.005
"""The share of values at either end that does not count for a range."""

_MARGIN: Final = 0.5
"""How far a range reaches beyond these values, as a share of its width."""

_SLACK: Final = 0.005
"""How much less than what was seen `mostly` demands."""

LEAST_MOSTLY: Final = 0.9
"""An expectation that fewer rows meet is not proposed."""

_PATTERNS: Final[Mapping[str, str]] = {
    "a UUID": r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$",
    "an address of e-mail": r"^[^@\s]+@[^@\s]+\.[^@\s]+$",
    "a URL": r"^https?://[^\s]+$",
    "a day": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
    "an IPv4 address": r"^[0-9]{1,3}(\.[0-9]{1,3}){3}$",
    "two capitals": r"^[A-Z]{2}$",
    "three capitals": r"^[A-Z]{3}$",
    "a hash in hexadecimal digits": r"^([0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64})$",
}


@attrs.frozen(kw_only=True)
class ProposedExpectation:
    """An expectation that is proposed, and a reason for people."""

    expectation: Expectation
    reason: str


def propose(plan: DatasetPlan, rows: pd.DataFrame) -> list[ProposedExpectation]:
    """Propose expectations of a dataset from some of its rows, column by column.

    Instants, days, flags and nested values get none but about nulls; keys get none about their
    range.
    """
    keys = {column.name for column in plan.schema.keys}
    found: list[ProposedExpectation] = []
    for name, of in plan.schema.columns.items():
        if name == plan.schema.timestamp or len(rows) < FEWEST_VALUES:
            continue
        is_there = rows[name].notna()
        if isinstance(of, types.Optional):
            found += _of_nulls(name, float(is_there.mean()), len(rows))
        values = rows[name][is_there].tolist()
        if len(values) >= FEWEST_VALUES:
            found += _of_values(name, of, values, is_key=name in keys)
    return found


def _of_nulls(name: str, share: float, number: int) -> Iterator[ProposedExpectation]:
    mostly = _mostly(share)
    if mostly is None or mostly >= LEAST_MOSTLY:
        yield ProposedExpectation(
            expectation=_expect("expect_column_values_to_not_be_null", name, mostly=mostly),
            reason=f"{share:.1%} of {number} values are not null",
        )


def _of_values(
    name: str, of: DataType, values: Sequence[object], *, is_key: bool
) -> Iterator[ProposedExpectation]:
    match base_type(inner(of)):
        case types.Int() | types.Float() | types.Decimal() as number if not is_key:
            yield from _few(name, values) if isinstance(number, types.Int) else ()
            yield from _range(name, values, is_whole=isinstance(number, types.Int))
        case types.Str():
            few = [] if is_key else [*_few(name, values)]
            texts = [str(value) for value in values]
            yield from few or _pattern(name, texts) or [_lengths(name, texts)]
        case _:
            pass


def _few(name: str, values: Sequence[object]) -> Iterator[ProposedExpectation]:
    distinct = sorted({value for value in values if isinstance(value, int | str)}, key=repr)
    if 1 < len(distinct) <= MOST_IN_SET and len(values) >= _REPEATED * len(distinct):
        yield ProposedExpectation(
            expectation=_expect(
                "expect_column_values_to_be_in_set", name, value_set=tuple(distinct)
            ),
            reason=f"{len(values)} values are {len(distinct)} different ones",
        )


def _range(name: str, values: Sequence[object], *, is_whole: bool) -> Iterator[ProposedExpectation]:
    numbers = np.array([float(str(value)) for value in values])
    numbers = numbers[np.isfinite(numbers)]
    if len(numbers) < FEWEST_VALUES:
        return
    low, high = (float(np.quantile(numbers, q)) for q in (_OUTSIDE, 1 - _OUTSIDE))
    margin = _MARGIN * ((high - low) or abs(high) or 1.0)
    # A number that is never negative is an amount or a count.
    least = 0.0 if numbers.min() >= 0 and low - margin < 0 else low - margin
    bounds = _rounded(least, high + margin, is_whole=is_whole)
    share = float(((bounds[0] <= numbers) & (numbers <= bounds[1])).mean())
    yield ProposedExpectation(
        expectation=_expect(
            "expect_column_values_to_be_between",
            name,
            mostly=_mostly(share),
            min_value=bounds[0],
            max_value=bounds[1],
        ),
        reason=f"99 % of {len(numbers)} values are from {low:.6g} to {high:.6g}",
    )


def _rounded(low: float, high: float, *, is_whole: bool) -> tuple[float, float]:
    """Round bounds outwards, to two digits of the width between them."""
    step = 10.0 ** (math.floor(math.log10(high - low)) - 1)
    least, greatest = math.floor(low / step) * step, math.ceil(high / step) * step
    if is_whole:
        return math.floor(least), math.ceil(greatest)
    digits = max(0, -math.floor(math.log10(step)))
    return round(least, digits), round(greatest, digits)


def _pattern(name: str, texts: Sequence[str]) -> list[ProposedExpectation]:
    for what, pattern in _PATTERNS.items():
        matches = re.compile(pattern).search
        if all(matches(text) for text in texts):
            expected = _expect("expect_column_values_to_match_regex", name, regex=pattern)
            return [
                ProposedExpectation(
                    expectation=expected, reason=f"each of {len(texts)} values is {what}"
                )
            ]
    return []


def _lengths(name: str, texts: Sequence[str]) -> ProposedExpectation:
    lengths = [*map(len, texts)]
    least, greatest = min(lengths), max(lengths)
    return ProposedExpectation(
        expectation=_expect(
            "expect_column_value_lengths_to_be_between",
            name,
            min_value=min(least, 1),
            max_value=greatest if least == greatest else 2 * greatest,
        ),
        reason=f"{len(texts)} values have from {least} to {greatest} characters",
    )


def _mostly(share: float) -> float | None:
    """Return a share somewhat below one that was seen; None if all values met it."""
    return None if share == 1.0 else math.floor((share - _SLACK) * 1000) / 1000


def _expect(
    kind: str, column: str, *, mostly: float | None = None, **arguments: LiteralValue
) -> Expectation:
    return Expectation(kind=kind, arguments=(("column", column), *arguments.items()), mostly=mostly)


def loosened(
    proposals: Sequence[ProposedExpectation], result: AuditResult
) -> list[ProposedExpectation]:
    """Return the proposals that rows met, and those that they meet with a lower `mostly`."""
    kept = []
    for proposal, finding in zip(proposals, result.findings, strict=True):
        if finding.success:
            kept.append(proposal)
            continue
        mostly = _mostly(_share(finding))
        if finding.error is None and mostly is not None and mostly >= LEAST_MOSTLY:
            looser = attrs.evolve(proposal.expectation, mostly=mostly)
            kept.append(attrs.evolve(proposal, expectation=looser))
    return kept


def _share(finding: ExpectationResult) -> float:
    counts = [
        found if isinstance(found := finding.counts.get(name), int) else 0
        for name in ("element_count", "missing_count", "unexpected_count")
    ]
    elements, missing, unexpected = counts
    checked = elements if "null" in finding.kind else elements - missing
    return 1.0 - unexpected / checked if checked else 1.0


def source_of(proposals: Sequence[ProposedExpectation]) -> str:
    """Render expectations as Python to paste: the imports, and the method of a dataset."""
    if not proposals:
        return ""
    kinds = sorted({proposal.expectation.kind for proposal in proposals})
    imported = "".join(f"    {kind},\n" for kind in [*kinds, "expectations"])
    calls = "".join(
        f"            # {proposal.reason}\n            {_call(proposal.expectation)},\n"
        for proposal in proposals
    )
    return (
        f"from narthex.lib import (\n{imported})\n\n\n"
        "    @expectations\n    def expected(cls):\n        return [\n"
        f"{calls}        ]\n"
    )


def _call(expectation: Expectation) -> str:
    given = dict(expectation.arguments)
    column = given.pop("column")
    arguments = [repr(column), *(f"{name}={_literal(one)}" for name, one in given.items())]
    if expectation.mostly is not None:
        arguments.append(f"mostly={expectation.mostly!r}")
    return f"{expectation.kind}({', '.join(arguments)})"


def _literal(value: LiteralValue) -> str:
    return repr(list(value)) if isinstance(value, tuple) else repr(value)
