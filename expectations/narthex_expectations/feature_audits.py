"""Audits of featuresets: the answers of logged queries, against the expectations of the featureset.

A query may ask for some features only. So an expectation is about the answers that have all of its
features, and the queries are grouped by the features that they have.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs

from narthex._analysis import columns_of
from narthex._formats import UnrenderedError, parse_cell
from narthex._ir import Cell, Expectation, Featureset
from narthex._query import GarbledAnswerError, LoggedQuery, answers_topic
from narthex.settings import Settings
from narthex_expectations.audit_results import AuditResult, By, ExpectationResult
from narthex_expectations.audits import hold_answers
from narthex_expectations.data_context import Asset, ValidationRun
from narthex_expectations.frames import frame_of_cells
from narthex_expectations.logged_queries import read_until
from narthex_expectations.suites import suite_of
from narthex_stores import LogReader, Record, platform_broker

MOST_ANSWERS: Final = 200_000
"""The greatest number of answers that are checked at once; more are sampled by query."""

_DRAWN_BYTES: Final = 8

Cells = Mapping[str, Sequence[Cell]]
"""Cells by the name of a feature; all of one length."""


@attrs.frozen(kw_only=True)
class Answered:
    """The answers of one logged query.

    Attributes:
        place: A number from 0 to 1 drawn from the position of the query in its log.
        cells: The features of the featureset that it has, without the name of the featureset.
    """

    place: float
    cells: Cells

    @property
    def rows(self) -> int:
        """How many answers there are."""
        return max(map(len, self.cells.values()), default=0)


@attrs.define(kw_only=True)
class SampledAnswers:
    """The answers of logged queries of one featureset; of too many, those of a share of them."""

    featureset: Featureset
    branch: str
    most: int = MOST_ANSWERS
    share: float = attrs.field(default=1.0, init=False)
    queries: list[Answered] = attrs.field(factory=list, init=False)
    _rows: int = attrs.field(default=0, init=False)

    def add(self, record: Record) -> None:
        """Add the answers of a record, if it is a query of the featureset on the branch."""
        place = drawn(record)
        try:
            query = LoggedQuery.decoded(record.value or b"")
        except GarbledAnswerError:
            return
        if query.branch != self.branch or place >= self.share:
            return
        answered = Answered(place=place, cells=cells_of(query, self.featureset))
        if answered.cells:
            self.queries.append(answered)
            self._rows += answered.rows
        while self._rows > self.most and len(self.queries) > 1:
            self.share /= 2
            self.queries = [one for one in self.queries if one.place < self.share]
            self._rows = sum(one.rows for one in self.queries)


def drawn(record: Record) -> float:
    """Return a number from 0 to 1, the same for the same position in the log."""
    position = f"{record.partition}/{record.offset}".encode()
    hashed = hashlib.blake2b(position, digest_size=_DRAWN_BYTES).digest()
    return int.from_bytes(hashed, "big") / (1 << 8 * _DRAWN_BYTES)


def cells_of(query: LoggedQuery, featureset: Featureset) -> Cells:
    """Return the features of a featureset that a query has, given or computed.

    A feature whose values are of another type, as that of an earlier commit, is left out.
    """
    found: dict[str, list[Cell]] = {}
    for name, of in featureset.columns.items():
        full = f"{featureset.name}.{name}"
        rendered = query.outputs.get(full, query.inputs.get(full))
        if rendered is not None:
            try:
                found[name] = [parse_cell(one, of) for one in rendered]
            except UnrenderedError:
                continue
    return found


def audit_answers(
    settings: Settings,
    featureset: Featureset,
    *,
    branch: str,
    from_us: int,
    to_us: int,
    run: ValidationRun | None = None,
) -> AuditResult:
    """Check the answers that were logged in a span against the expectations of their featureset.

    Args:
        settings: The installation's.
        featureset: The featureset, with its expectations.
        branch: The branch whose queries count.
        from_us: The first instant, inclusive.
        to_us: The instant to stop before.
        run: The run that stores the validation result; None stores none.

    Raises:
        StoreError: The cluster does not answer.
        UnknownExpectationError: An expectation is of a kind that this version does not support.
    """
    topic = answers_topic(settings.install_id)
    sample = SampledAnswers(featureset=featureset, branch=branch)
    with LogReader(platform_broker(settings)) as reader:
        is_there = reader.partitions(topic) > 0
        # The first logged query of an installation creates the log.
        since, until = (
            reader.offsets_since(topic, since_ms=-(-instant // 1000)) if is_there else {}
            for instant in (from_us, to_us)
        )
        reader.assign({(topic, partition): at for partition, at in since.items()})
        ends = {(topic, partition): at for partition, at in until.items()}
        for record in read_until(reader, ends):
            if record.offset < until[record.partition]:
                sample.add(record)
    return AuditResult(
        dataset=featureset.name,
        version=0,
        from_us=from_us,
        to_us=to_us,
        rows=sum(one.rows for one in sample.queries),
        findings=hold_queries(featureset, sample.queries, run),
        offsets=until,
        share=sample.share,
        by=By.LOGGED,
    )


def hold_queries(
    featureset: Featureset, queries: Sequence[Answered], run: ValidationRun | None = None
) -> tuple[ExpectationResult, ...]:
    """Check the answers of queries, in the order of the expectations.

    An expectation about features that no query has is met: it has nothing to fail on. If all
    expectations are about the same queries, they are one validation.

    Args:
        featureset: The featureset.
        queries: Its queries.
        run: The run that stores the validation result; None stores none.
    """
    groups = [*_grouped(featureset.expectations, queries)]
    found: dict[int, ExpectationResult] = {}
    for numbers, having in groups:
        expectations = [featureset.expectations[number] for number in numbers]
        names = sorted({name for one in expectations for name in columns_of(one)})
        cells = {name: [cell for one in having for cell in one.cells[name]] for name in names}
        frame = frame_of_cells(cells, featureset.columns)
        whole = run if len(groups) == 1 else None
        held = hold_answers(featureset.name, expectations, frame, featureset.columns, whole)
        found |= dict(zip(numbers, held, strict=True))
    findings = tuple(found[number] for number in range(len(featureset.expectations)))
    if run is not None and len(groups) > 1 and queries:
        suite = suite_of(featureset.name, featureset.expectations, featureset.columns)
        run.keep(suite, findings, Asset.ANSWERS)
    return findings


def _grouped(
    expectations: Sequence[Expectation], queries: Sequence[Answered]
) -> Iterator[tuple[list[int], list[Answered]]]:
    """Yield the numbers of expectations that are about the same queries, and these queries."""
    shapes = {frozenset(one.cells) for one in queries}
    groups: dict[frozenset[frozenset[str]], list[int]] = {}
    for number, expectation in enumerate(expectations):
        needed = frozenset(columns_of(expectation))
        groups.setdefault(frozenset(one for one in shapes if needed <= one), []).append(number)
    for having, numbers in groups.items():
        yield numbers, [one for one in queries if frozenset(one.cells) in having]
