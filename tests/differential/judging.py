"""The answers of a deployment, as an engine, and their differences from the reference."""

from collections import Counter
from collections.abc import Sequence

import attrs

from narthex._analysis.graph import disorders, reads, typed_datasets
from narthex._ir.assets import LogShape
from narthex._ir.entities import Dataset
from narthex._ir.facts import Cell, Fact
from narthex_reference.cell_equality import is_never_the_same
from narthex_reference.comparing import MOST_INSTANTS, differs_standing
from narthex_reference.conformance import feed
from narthex_reference.engine import Answer
from narthex_reference.engines import reference
from narthex_reference.generate.project import Project
from narthex_reference.semantics.evaluator import Reference
from narthex_stores import IndexHandle
from tests.differential.live_sinks import TargetRows, wrong_rows
from tests.differential.records import Records, facts_standing
from tests.differential.round import Run
from tests.differential.spoiled_rows import wrong_rejections


@attrs.frozen(kw_only=True)
class Outcome:
    """The state of a deployment's logs and indexes."""

    run: Run
    records: Records

    def facts(self, dataset: str) -> tuple[Fact, ...] | None:
        """Return the current facts; None if the log contains only inputs of aggregates."""
        topic, spec = self.run.deployment.log(dataset)
        if spec.shape is LogShape.CONTRIBUTIONS:
            return None
        return facts_standing(self.records.of(topic), spec)

    def lookup(
        self, dataset: str, keys: Sequence[tuple[Cell, ...]], as_of: Sequence[int]
    ) -> Sequence[Answer | None]:
        """Return the answer of the index."""
        with self._index(dataset).read() as snapshot:
            found = snapshot.lookup(keys, as_of)
        return [None if one is None else Answer(one.values, one.event_time) for one in found]

    def answered_from(self, dataset: str) -> int | None:
        """Return the first instant as of which the index answers lookups; None if it does all."""
        with self._index(dataset).read() as snapshot:
            return snapshot.answered_from

    def _index(self, dataset: str) -> IndexHandle:
        name = self.run.deployment.index(dataset)
        return next(one for one in self.run.feeds if one.index_name == name).index


@attrs.define
class ReferenceAnswers:
    """The reference with all facts of a project; it computes each answer once for all ways."""

    _engine: Reference
    _corrected: dict[str, int]
    _facts: dict[str, tuple[Fact, ...]] = attrs.field(factory=dict)
    _answers: dict[tuple[str, str], Sequence[Answer | None]] = attrs.field(factory=dict)

    @classmethod
    def of(cls, project: Project) -> "ReferenceAnswers":
        """Return the judge of a project."""
        engine = reference(project.definitions)
        feed(engine, project.in_order)
        return cls(engine, _latest_corrections(project))

    def facts(self, dataset: str) -> tuple[Fact, ...]:
        """Return the current facts."""
        if dataset not in self._facts:
            self._facts[dataset] = self._engine.facts(dataset)
        return self._facts[dataset]

    def newest(self, dataset: str) -> int | None:
        """Return the greatest event time of a dataset's rows; None without rows."""
        return self._engine.newest(dataset)

    def latest_correction(self, dataset: str) -> int | None:
        """Return the greatest event time of a row that was replaced or deleted; None without any.

        It is a row of the dataset, or of one that it is computed from. The reference does not have
        its earlier state, and has nothing of a row that was deleted at its own instant.
        """
        absences = [fact.event_time for fact in self.facts(dataset) if not fact.alive]
        sent = self._corrected.get(dataset)
        return max(absences if sent is None else [*absences, sent], default=None)

    def lookup(
        self, dataset: str, keys: Sequence[tuple[Cell, ...]], as_of: Sequence[int]
    ) -> Sequence[Answer | None]:
        """Return the value of each key as of its instant."""
        asked = (dataset, repr((keys, as_of)))
        if asked not in self._answers:
            self._answers[asked] = self._engine.lookup(dataset, keys, as_of)
        return self._answers[asked]


def _latest_corrections(project: Project) -> dict[str, int]:
    latest: dict[str, int] = {}
    versions = Counter((name, fact.row_id) for name, fact in project.sent)
    for name, fact in project.sent:
        if not fact.alive or versions[name, fact.row_id] > 1:
            latest[name] = max(fact.event_time, latest.get(name, fact.event_time))
    for one in typed_datasets(project.definitions):  # inputs come first
        found = [latest[name] for name in reads(one.dataset) if name in latest]
        if found:
            latest[one.dataset.name] = max(found)
    return latest


def wrong_of(
    run: Run, records: Records, judge: ReferenceAnswers, targets: TargetRows
) -> str | None:
    """Say how a deployment differs from what its project means; None where it does not."""
    if run.wrong is not None:
        return run.wrong
    outcome = Outcome(run=run, records=records)
    try:
        return (
            _wrong_refusals(run, judge, outcome)
            or differs_standing(
                run.project,
                judge,
                outcome,
                most=MOST_INSTANTS,
                answered_from=outcome.answered_from,
            )
            or _wrong_quarantine(run, records)
            or _wrong_target(run, judge, targets)
        )
    except Exception as error:  # noqa: BLE001 (an engine that fails is one that differs)
        return f"{type(error).__name__}: {error}"


def _wrong_refusals(run: Run, judge: ReferenceAnswers, outcome: Outcome) -> str | None:
    """Say which index refuses lookups that it must answer; None where none does."""
    typed = [one.dataset for one in typed_datasets(run.project.definitions)]
    behind = disorders(typed)
    for dataset in typed:
        first = outcome.answered_from(dataset.name) if dataset.schema.keys else None
        if first is not None:
            wrong = wrong_refusal(dataset, judge, first, disorder_us=behind[dataset.name])
            if wrong is not None:
                return wrong
    return None


def wrong_refusal(
    dataset: Dataset, judge: ReferenceAnswers, first: int, *, disorder_us: int
) -> str | None:
    """Say why an index must answer lookups that it refuses; None where it may refuse them.

    It may refuse those as of instants that are more than a history before the watermark, and all of
    them if the newest row was replaced by an absence: then the watermark has gone back.

    Args:
        dataset: The dataset of the index.
        judge: The reference with all facts.
        first: The first instant as of which the index answers.
        disorder_us: How far the watermark is behind the newest row.
    """
    if dataset.history_us is None:
        return f"`{dataset.name}` refuses lookups before {first}, but has no history"
    newest = judge.newest(dataset.name)
    corrected = judge.latest_correction(dataset.name)
    if corrected is not None and (newest is None or newest < corrected):
        return None
    latest = None if newest is None else newest - disorder_us - dataset.history_us
    if latest is not None and first <= latest:
        return None
    return f"`{dataset.name}` refuses lookups before {first}, but must answer from {latest}"


def _wrong_quarantine(run: Run, records: Records) -> str | None:
    """Say how the quarantine of a source differs from the rows that it must reject."""
    for dataset, topic in sorted(run.deployment.quarantines().items()):
        wrong = wrong_rejections(dataset, run.here.rejections[dataset], records.of(topic))
        if wrong is not None:
            return wrong
    return None


def _wrong_target(run: Run, judge: ReferenceAnswers, targets: TargetRows) -> str | None:
    for dataset in run.project.definitions.datasets:
        if dataset.sinks and not is_never_the_same(dataset):
            rows = targets[run.targets[dataset.name]]
            wrong = wrong_rows(dataset.schema, judge.facts(dataset.name), rows)
            if wrong is not None:
                return f"the sink of `{dataset.name}`: {wrong}"
    return None
