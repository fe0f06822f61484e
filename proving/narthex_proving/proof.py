"""The whole proof: choose datasets and offsets, and compare their stores with the reference."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import attrs

from narthex._ir import AssetKind, Cell, Dataset, HistorySpec, IndexSpec, LogShape, ResolvedAsset
from narthex._runtime.workers import CodeCalls
from narthex.errors import DefinitionErrors, SandboxUnavailable, UserCodeError
from narthex_proving.consistent_cut import Cut, find_cut, upstream
from narthex_proving.deployed import Deployed
from narthex_proving.evidence import Evidence
from narthex_proving.findings import Proof, ProofDifference, Unproved
from narthex_proving.history_proof import history_differences
from narthex_proving.index_proof import (
    Looked,
    lookup_differences,
    offset_differences,
    read_lookups,
    stored,
)
from narthex_proving.log_proof import log_differences, wanted_rows
from narthex_proving.logged_query_proof import Drawn, ReplayedQueries, logged_queries
from narthex_proving.logs import Log, LogGoneError, PartitionEnds, read_log
from narthex_proving.sampling import KeySample, sample_of
from narthex_reference import Reference, WorkerCalls, is_never_the_same
from narthex_stores import (
    HistoryTable,
    IndexReader,
    ShardedEntries,
    StoredEntries,
    StoreError,
    stored_entries,
    to_rows,
)

MOST_LISTED = 20
"""The greatest number of listed differences per store; the others are counted."""

_UNPROVABLE = (LogGoneError, StoreError, DefinitionErrors, UserCodeError, SandboxUnavailable)
"""Errors because of which a logged query cannot be repeated now."""
_UNDECIDED = (
    "{} logged queries differ, and may have read rows that arrived while they were answered: a "
    "networked index store has no snapshot of all keys"
)


@attrs.frozen(kw_only=True)
class ProofRequest:
    """The request for a proof.

    Attributes:
        datasets: The datasets by name; all when empty.
        sample: The share of each dataset's keys that is compared.
        seed: The seed for drawing the instants of lookups, and logged queries.
        wait_s: How long to wait at most for jobs to drain their topics.
        answers: How many logged queries to repeat, if all datasets are compared.
        answered_since_ms: Only logged queries from this instant on; None for all.
        only_answers: Compare no datasets, only logged queries.
    """

    datasets: tuple[str, ...] = ()
    sample: float = 1.0
    seed: int = 0
    wait_s: float = 60.0
    answers: int = 1_000
    answered_since_ms: int | None = None
    only_answers: bool = False


class UnknownDatasetError(LookupError):
    """A dataset that the commit does not have."""


def prove(
    platform: Deployed, asked: ProofRequest, *, calls: CodeCalls, tell: Callable[[str], None]
) -> Proof:
    """Recompute everything and compare it, row by row.

    A dataset that sources fill is compared at exactly the offsets that its index and its history
    contain, even while rows arrive. One that a pipeline fills is compared once its jobs are idle.

    Raises:
        UnknownDatasetError: A named dataset does not exist.
        StoreError: The cluster does not answer.
        GarbledAnswerError: A record in the log of logged queries is none.
    """
    known = tuple(dataset.name for dataset in platform.definitions.datasets)
    for name in asked.datasets:
        if name not in known:
            raise UnknownDatasetError(f"the commit has no dataset `{name}`")
    wanted = asked.datasets or known
    # Read before the logs' ends are, so that all facts behind the answers lie below those ends.
    answers = [] if asked.datasets else _drawn(platform, asked)
    # A query is repeated on rows below its offsets, whatever jobs have not read yet.
    wait_s = 0.0 if asked.only_answers else asked.wait_s
    cut = find_cut(platform, wanted, wait_s=wait_s, tell=tell)
    work = _Work(platform=platform, asked=asked, cut=cut, calls=calls, tell=tell)
    for name in () if asked.only_answers else wanted:
        work.dataset(name)
    work.answers(answers)
    return work.proof()


def _drawn(platform: Deployed, asked: ProofRequest) -> list[Drawn]:
    return logged_queries(
        platform, most=asked.answers, seed=asked.seed, since_ms=asked.answered_since_ms
    )


@attrs.define(kw_only=True)
class _Work:
    platform: Deployed
    asked: ProofRequest
    cut: Cut
    calls: CodeCalls
    tell: Callable[[str], None]
    _logs: dict[str, Log] = attrs.field(factory=dict)
    _compared: dict[str, int] = attrs.field(factory=dict)
    _found: list[ProofDifference] = attrs.field(factory=list)
    _more: dict[str, int] = attrs.field(factory=dict)
    _unproved: list[Unproved] = attrs.field(factory=list)
    _changed: int = 0

    def proof(self) -> Proof:
        """Return the findings so far."""
        return Proof(
            compared=self._compared,
            differences=tuple(self._found),
            unproved=tuple(self._unproved),
            more=self._more,
            changed_answers=self._changed,
        )

    def answers(self, kept: Sequence[Drawn]) -> None:
        """Repeat logged queries on the facts below the offsets of their answers."""
        if not kept:
            return
        self.tell(f"comparing {len(kept)} logged queries")
        with ReplayedQueries(platform=self.platform, calls=self.calls, log=self._log) as replayed:
            try:
                self._keep("answers", "log", replayed.differences(kept))
            except _UNPROVABLE as error:
                self._skip("answers", "log", str(error))
                return
            if replayed.undecided:
                self._skip("answers", "log", _UNDECIDED.format(replayed.undecided))
            self._compared["answers"] = len(kept) - replayed.undecided
            self._changed = replayed.changed

    def dataset(self, name: str) -> None:
        """Compare all stores of a dataset."""
        try:
            sources = {source: self._log(source) for source in self._sources(name)}
            checked = _Checked(
                dataset=self._definition(name),
                log=self._log(name),
                sources=sources,
                sample=sample_of(self.platform.definitions, name, self.asked.sample),
            )
        except (LogGoneError, StoreError) as error:
            self._unproved.append(Unproved(dataset=name, store="log", why=str(error)))
            return
        self._of_log(checked)
        for feed in self.platform.feeds(name, AssetKind.INDEX_FEED):
            self._of_index(checked, feed)
        for feed in self.platform.feeds(name, AssetKind.HISTORY_FEED):
            self._of_history(checked, feed)

    def _definition(self, name: str) -> Dataset:
        return next(
            dataset for dataset in self.platform.definitions.datasets if dataset.name == name
        )

    def _sources(self, name: str) -> list[str]:
        return [one for one in upstream(self.platform, name) if not self._definition(one).pipelines]

    def _log(self, name: str) -> Log:
        if name not in self._logs:
            self._logs[name] = read_log(
                self.platform.kafka,
                self.platform.topic(name).physical_name,
                dataset=name,
                spec=self.platform.log(name),
                ends=self.cut.ends[name],
                tell=self.tell,
            )
        return self._logs[name]

    def _keep(self, name: str, store: str, found: Iterable[ProofDifference]) -> None:
        listed = 0
        for one in found:
            listed += 1
            if listed <= MOST_LISTED:
                self._found.append(one)
        if listed > MOST_LISTED:
            self._more[f"{name}.{store}"] = listed - MOST_LISTED

    def _skip(self, name: str, store: str, why: str) -> None:
        self._unproved.append(Unproved(dataset=name, store=store, why=why))

    def _of_log(self, checked: "_Checked") -> None:
        name = checked.dataset.name
        if not checked.dataset.pipelines:
            return
        if name in self.cut.waited_for:
            self._skip(name, "log", f"not drained  yet: {self.cut.waited_for[name]}")
            return
        is_folded = checked.log.spec.shape is LogShape.CONTRIBUTIONS
        if is_never_the_same(checked.dataset) and not is_folded:
            self._skip(name, "log", "its values change at every instant: see the index")
            return
        wanted = wanted_rows(self._reference(checked), name, checked.log.spec)
        self.tell(f"comparing the log of `{name}`")
        facts = [row.fact for row in checked.log.rows if checked.is_wanted(row.fact.key)]
        kept = {row_id: one for row_id, one in wanted.items() if checked.is_wanted(one.fact.key)}
        self._compared[f"{name}.log"] = len(kept)
        self._keep(
            name,
            "log",
            log_differences(
                name, checked.log.spec, facts=facts, wanted=kept, evidence=checked.evidence
            ),
        )

    def _reference(self, checked: "_Checked", ends: PartitionEnds | None = None) -> Reference:
        """Compute from the sources' logs; for a dataset that they fill, only below `ends`."""
        reference = Reference(self.platform.definitions, call=WorkerCalls(self.calls))
        for name, log in checked.sources.items():
            below = log.rows if ends is None else log.below(ends)
            facts = [row.fact for row in below]
            reference.append(name, checked.sample.rows(self._definition(name), facts))
        return reference

    def _of_index(self, checked: "_Checked", feed: ResolvedAsset) -> None:
        name, need = checked.dataset.name, feed.need("index")
        if not isinstance(need.spec, IndexSpec):
            raise TypeError(f"asset {need.asset_id} is not an index")
        store = _store_of(need.spec)
        self.tell(f"comparing the {store} of `{name}`")
        try:
            index = self.platform.indexes.open(need.physical_name, need.spec, readonly=True)
        except (FileNotFoundError, ValueError, StoreError) as error:
            self._skip(name, store, str(error))
            return
        try:
            with index.read() as snapshot, stored_entries(snapshot) as entries:
                topic = feed.need("log").physical_name
                looked = Looked(
                    spec=need.spec,
                    log=checked.log,
                    ends={p: offset for (t, p), offset in snapshot.offsets.items() if t == topic},
                    is_exact=snapshot.is_exact,
                    sample=checked.sample,
                    seed=self.asked.seed,
                )
                found = self._index_differences(checked, looked, snapshot, entries)
                self._keep(name, store, found)
        finally:
            index.close()

    def _index_differences(
        self,
        checked: "_Checked",
        looked: Looked,
        snapshot: IndexReader,
        entries: StoredEntries | ShardedEntries,
    ) -> Iterator[ProofDifference]:
        name = checked.dataset.name
        checked = self._up_to(checked, looked.ends)
        looked = attrs.evolve(looked, log=checked.log)
        why = self._why_not_comparable(checked, looked.ends)
        lookups = None
        if not looked.spec.by and why is None:
            reference = self._reference(checked, None if checked.dataset.pipelines else looked.ends)
            lookups = read_lookups(reference, looked, snapshot)
        if not looked.is_exact:
            looked = attrs.evolve(looked, log=self._current(name, checked.log))
            self._report_changing(_store_of(looked.spec), looked)
        yield from offset_differences(looked)
        yield from stored(looked, entries, evidence=checked.evidence)
        if looked.spec.by:
            self._count(name, _store_of(looked.spec), len(checked.log.rows))
        elif lookups is None:
            self._skip(name, "index", why or "")
        else:
            self._count(name, "index", len(lookups.keys))
            yield from lookup_differences(looked, lookups, evidence=checked.evidence)

    def _report_changing(self, store: str, looked: Looked) -> None:
        if looked.changing:
            self._skip(
                looked.log.dataset,
                store,
                f"{len(looked.changing_keys)} of its keys received rows while it was read, and are "
                "not compared; prove it again when fewer rows arrive",
            )

    def _current(self, name: str, known: Log) -> Log:
        """Return the log of a dataset up to its present end, read again only if it has grown."""
        cut = find_cut(self.platform, [name], wait_s=0, tell=self.tell)
        if all(end <= known.ends.get(p, 0) for p, end in cut.ends[name].items()):
            return known
        return read_log(
            self.platform.kafka,
            self.platform.topic(name).physical_name,
            dataset=name,
            spec=self.platform.log(name),
            ends=cut.ends[name],
            tell=self.tell,
        )

    def _up_to(self, checked: "_Checked", contains: PartitionEnds) -> "_Checked":
        """Read further where a store contains more than the log had when it was read."""
        if all(offset <= checked.log.ends.get(p, 0) for p, offset in contains.items()):
            return checked
        log = self._current(checked.dataset.name, checked.log)
        name = checked.dataset.name
        sources = checked.sources if checked.dataset.pipelines else {name: log}
        return attrs.evolve(checked, log=log, sources=sources)

    def _why_not_comparable(self, checked: "_Checked", contains: PartitionEnds) -> str | None:
        """Return why a pipeline's index cannot be compared with the definitions; None if it can."""
        name = checked.dataset.name
        if not checked.dataset.pipelines:
            return None
        if name in self.cut.waited_for:
            return f"not drained  yet: {self.cut.waited_for[name]}"
        ends = {p: end for p, end in self.cut.ends[name].items() if end}
        behind = sum(max(0, end - contains.get(p, 0)) for p, end in ends.items())
        ahead = sum(max(0, contains.get(p, 0) - end) for p, end in ends.items())
        if behind:
            return f"{behind} records of its log are not in it yet"
        # Offsets beyond the log's own end are reported as a difference.
        if ahead and any(contains[p] <= checked.log.ends.get(p, 0) for p in ends):
            return "rows came while it was looked at"
        return None

    def _count(self, name: str, store: str, count: int) -> None:
        self._compared[f"{name}.{store}"] = count

    def _of_history(self, checked: "_Checked", feed: ResolvedAsset) -> None:
        name, need = checked.dataset.name, feed.need("history")
        if not isinstance(need.spec, HistorySpec):
            raise TypeError(f"asset {need.asset_id} is not a history")
        self.tell(f"comparing the history of `{name}`")
        try:
            table = HistoryTable(
                self.platform.history_path(need.physical_name),
                need.spec,
                storage=self.platform.storage,
            )
            offsets = table.offsets()
            checked = self._up_to(checked, offsets)
            rows = to_rows(checked.log.spec, table.scan())
        except (FileNotFoundError, StoreError) as error:
            self._skip(name, "history", f"{error}")
            return
        self._count(name, "history", len(checked.log.below(offsets)))
        self._keep(
            name,
            "history",
            history_differences(
                checked.log,
                rows,
                offsets=offsets,
                is_wanted=lambda fact: checked.is_wanted(fact.key),
            ),
        )


@attrs.frozen(kw_only=True)
class _Checked:
    """A dataset with its inputs."""

    dataset: Dataset
    log: Log
    sources: Mapping[str, Log]
    sample: KeySample

    @property
    def evidence(self) -> Evidence:
        """The evidence that finds the facts behind a row."""
        return Evidence(logs=self.sources)

    def is_wanted(self, key: Sequence[Cell]) -> bool:
        """Whether a key is drawn; a keyless row always is."""
        return not self.log.spec.keys or self.sample.draws_key(self.log.spec.keys, key)


def _store_of(spec: IndexSpec) -> str:
    """Return the name of an index's store in findings."""
    return f"index by {', '.join(spec.by)}" if spec.by else "index"
