"""Diffs of features: which rows have other values on another branch, by how much, and why.

Rows of given features are asked on both sides as of one instant: those of logged queries, or the
keys of the datasets that the features look up. Both sides read histories, up to the offsets that
these have when the diff begins, and run the authors' extractors in sandboxed workers.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import attrs
import polars as pl

from narthex._analysis import FeatureGraph, datasets_of, feature_graph, is_same_lookup
from narthex._base import Json, from_plain, render_instant
from narthex._formats import UnrenderedError, parse_cell
from narthex._formats.arrow import stored_cells
from narthex._ir import (
    Cell,
    Column,
    DatasetPlan,
    DataType,
    Definitions,
    LookupExtractor,
    types,
)
from narthex._query import FoundRow, execute
from narthex._query import plan as plan_read
from narthex._runtime.workers import WorkerPool
from narthex.errors import DefinitionErrors, SandboxUnavailable, UserCodeError
from narthex_expectations.comparisons.causes import Cause, Causes, Side, SideDataset, counted
from narthex_expectations.comparisons.differences import Key, Values, compare, examples
from narthex_expectations.comparisons.value_diffs import (
    MOST_EXPLAINED,
    MOST_STATES,
    ComparedDataset,
    Histories,
    NotComparableError,
    side_of,
    with_causes,
)
from narthex_stores import HASH, TooManyStatesError, keys_frame, values_as_of

MOST_ROWS: Final = 1_000
"""The greatest number of rows that are asked."""

Columns: TypeAlias = Mapping[str, Sequence[Cell]]
"""Cells by full name of a feature; all of one length."""


@attrs.frozen(kw_only=True)
class FeatureSide:
    """The features of one side.

    Attributes:
        definitions: All featuresets.
        datasets: The datasets that features look up, and all that these are made from.
    """

    definitions: Definitions
    datasets: Side


@attrs.frozen(kw_only=True)
class FeatureQuestion:
    """The question of a diff of a featureset.

    Attributes:
        rows: Rows to ask, as JSON by full name of a feature; keys of datasets if it is None.
        is_logged: Whether the rows are those of logged queries: then those that lack a feature are
            left out, and keys of datasets are asked if none is left.
        at: The instant, microseconds; by default the newest up to which both sides have rows.
        now: The present.
    """

    featureset: str
    sides: tuple[FeatureSide, FeatureSide]
    now: int
    rows: tuple[Mapping[str, Json], ...] | None = None
    is_logged: bool = False
    at: int | None = None


def diff_features(question: FeatureQuestion) -> ComparedDataset:
    """Compare the features of a featureset on two sides.

    Raises:
        NotComparableError: A given feature is missing, or of another type, or author code failed.
        FileNotFoundError: A history does not exist.
        StoreError: The store did not answer.
    """
    try:
        return _Comparison.of(question).answer()
    except TooManyStatesError as error:
        raise NotComparableError(f"`{question.featureset}`: {error}") from None
    except UserCodeError:
        # Its message may have values, which not everybody who reads the result may see.
        raise NotComparableError(
            f"the code of an extractor that `{question.featureset}` needs failed; query it on both "
            "branches"
        ) from None
    except (DefinitionErrors, SandboxUnavailable) as error:
        raise NotComparableError(f"`{question.featureset}` cannot be asked: {error}") from None


@attrs.frozen(kw_only=True)
class _Comparison:
    """A comparison with its graphs and its opened histories."""

    question: FeatureQuestion
    graphs: tuple[FeatureGraph, FeatureGraph]
    opened: Histories

    @classmethod
    def of(cls, question: FeatureQuestion) -> "_Comparison":
        first, second = (
            feature_graph(side.definitions, question.featureset) for side in question.sides
        )
        return cls(question=question, graphs=(first, second), opened=Histories())

    def answer(self) -> ComparedDataset:
        """Ask both sides, compare, and explain."""
        as_of = self._instant()
        given = self._rows()
        rows = [*dict.fromkeys(zip(*given.values(), strict=True))] if given else [()]
        first, second = (self._values(number, given, rows, as_of) for number in (0, 1))
        found = compare(first, second, types_of=self._types(self.question.featureset))
        every = compare(first, second, types_of=self._types())
        explained = found.differ[:MOST_EXPLAINED]
        walk = _Walk(
            question=self.question,
            graphs=self.graphs,
            differing={one.name: frozenset(one.differing) for one in every.columns},
            given=[*given],
            values=first,
            causes=Causes(
                sides=(self.question.sides[0].datasets, self.question.sides[1].datasets),
                as_of=as_of,
                opened=self.opened,
            ),
        )
        causes = [walk.cause(row) for row in explained]
        result: dict[str, Json] = {
            "dataset": self.question.featureset,
            "as_of": render_instant(as_of),
            "share": None,
            "same_history": False,
            "versions": [],
            "offsets": [],
            **found.to_json(),
            "explained": len(explained),
            "causes": counted(causes, self._versions),
        }
        asked = [Column(name, self._type(name)) for name in given]
        shown = examples(found, first, second, keys=asked)
        return ComparedDataset(result=result, examples=with_causes(shown, explained, causes, asked))

    def _types(self, featureset: str = "") -> tuple[dict[str, DataType], dict[str, DataType]]:
        """Return the types of the computed features of both sides; those of one by their names."""
        first, second = (
            {
                name: graph.types[name]
                for name in graph.computed
                if not featureset or name.startswith(f"{featureset}.")
            }
            for graph in self.graphs
        )
        return first, second

    def _type(self, name: str) -> DataType:
        return next(graph.types[name] for graph in self.graphs if name in graph.types)

    def _versions(self, name: str) -> tuple[int, int]:
        first, second = (
            graph.versions[name] if name in graph.versions else side.datasets[name].plan.version
            for graph, side in zip(self.graphs, self.question.sides, strict=True)
        )
        return first, second

    def _instant(self) -> int:
        if self.question.at is not None:
            return self.question.at
        newest = [
            self.opened.newest_row(side.datasets[name])
            for graph, side in zip(self.graphs, self.question.sides, strict=True)
            for name in graph.datasets
        ]
        return min([*(one for one in newest if one is not None), self.question.now])

    def _rows(self) -> Columns:
        """Return the cells of the features that are given."""
        names = sorted({*self.graphs[0].given, *self.graphs[1].given})
        if self.question.rows is not None:
            parsed = [*self._parsed(names, self.question.rows)]
            if parsed or not self.question.is_logged:
                distinct = [*dict.fromkeys(parsed)][:MOST_ROWS]
                return {name: [row[n] for row in distinct] for n, name in enumerate(names)}
        return self._sampled(names)

    def _parsed(
        self, names: Sequence[str], rows: Sequence[Mapping[str, Json]]
    ) -> Iterator[tuple[Cell, ...]]:
        for number, row in enumerate(rows):
            try:
                yield tuple(self._cell(row, name) for name in names)
            except NotComparableError as error:
                if not self.question.is_logged:
                    raise NotComparableError(f"row {number} {error}") from None

    def _cell(self, row: Mapping[str, Json], name: str) -> Cell:
        if name not in row:
            raise NotComparableError(f"lacks `{name}`")
        try:
            return parse_cell(row[name], self._type(name))
        except UnrenderedError as error:
            raise NotComparableError(f"has a wrong `{name}`: {error}") from None

    def _sampled(self, names: Sequence[str]) -> Columns:
        """Return keys of the datasets that are looked up by given features."""
        samples: dict[str, Sequence[Cell]] = {}
        for looked_up in sorted(
            (one for graph in self.graphs for one in graph.lookups), key=lambda one: -len(one.given)
        ):
            if looked_up.given and samples.keys().isdisjoint(looked_up.given):
                keys = self._keys(looked_up.dataset)
                for name, cells in zip(looked_up.given, keys, strict=True):
                    samples[name] = [(c,) for c in cells] if looked_up.is_list else cells
        size = max(map(len, samples.values()), default=1)
        for name in names:
            if name not in samples:
                if not isinstance(self._type(name), types.Optional):
                    raise NotComparableError(
                        f"`{name}` is given by callers and is the key of no dataset; log queries, "
                        "or pass rows"
                    )
                samples[name] = [None]
        if not all(samples[name] for name in names):
            return {name: [] for name in names}
        return {
            name: [samples[name][n % len(samples[name])] for n in range(size)] for name in names
        }

    def _keys(self, dataset: str) -> list[list[Cell]]:
        """Return a sample of the keys of both sides, a list of cells for each key column."""
        histories = [
            self.opened(side.datasets[dataset])
            for side in self.question.sides
            if dataset in side.datasets
        ]
        share = min(1.0, MOST_STATES / max([1, *(one.snapshot.states for one in histories)]))
        found = pl.concat([one.sampled_keys(share=share) for one in histories])
        names = histories[0].key_names
        kept = found.select(HASH, *names).unique().sort(HASH).head(MOST_ROWS)
        return [
            stored_cells(kept[name].to_arrow(), column.type)
            for name, column in zip(names, histories[0].table.log.keys, strict=True)
        ]

    def _values(self, number: int, given: Columns, rows: Sequence[Key], as_of: int) -> Values:
        """Return all computed features of a side by row."""
        side, graph = self.question.sides[number], self.graphs[number]
        plan = plan_read(
            side.definitions,
            {name: one.plan for name, one in side.datasets.items()},
            inputs=[name for name in given if name in graph.types],
            outputs=graph.computed,
        )
        places = {name: n for n, name in enumerate(given)}
        columns = {name: [row[places[name]] for row in rows] for name in plan.inputs}
        with WorkerPool(size=1) as workers:  # without code, none is started
            found = execute(
                plan,
                columns,
                lookup=_HistoryLookup(side.datasets, self.opened, as_of),
                workers=workers,
                as_of=[as_of] * len(rows),
            )
        return {
            row: {name: cells[place] for name, cells in found.items()}
            for place, row in enumerate(rows)
        }


@attrs.frozen
class _HistoryLookup:
    """Finds rows in histories, as of one instant."""

    datasets: Mapping[str, SideDataset]
    opened: Histories
    as_of: int

    def __call__(
        self, plan: DatasetPlan, keys: Sequence[tuple[Cell, ...]], as_of: Sequence[int]
    ) -> Sequence[FoundRow | None]:
        del as_of  # all rows have the same one
        dataset = self.datasets[plan.name]
        history = self.opened(dataset)
        columns = {f"k_{one.name}": one.type for one in history.table.log.keys}
        states = history.rows_of(keys_frame(columns, keys), most=2 * MOST_STATES)
        newest = self.opened.newest_row(dataset)
        return values_as_of(dataset.plan.index, states, keys, as_of=self.as_of, newest=newest)


@attrs.frozen(kw_only=True)
class _Walk:
    """Walks from features that differ to the first of their inputs that does.

    Attributes:
        differing: The rows for which each feature differs.
        given: The given features, whose cells are the keys of rows.
        values: The features of the first side.
        causes: Walks on from datasets.
    """

    question: FeatureQuestion
    graphs: tuple[FeatureGraph, FeatureGraph]
    differing: Mapping[str, frozenset[Key]]
    given: Sequence[str]
    values: Values
    causes: Causes

    def cause(self, row: Key) -> Cause:
        """Return why a row differs: the dataset or the feature that is the first to do so."""
        begin = f"{self.question.featureset}."
        differing = (name for name in self.graphs[0].computed if row in self._rows(name))
        return self._of(next(name for name in differing if name.startswith(begin)), row)

    def _rows(self, feature: str) -> frozenset[Key]:
        return self.differing.get(feature, frozenset())

    def _of(self, feature: str, row: Key) -> Cause:
        for name in self.graphs[0].inputs[feature]:
            if row in self._rows(name):
                return self._of(name, row)
        first, second = (graph.extractors[feature] for graph in self.graphs)
        others = [
            name
            for name in datasets_of(first)
            if name in datasets_of(second) and not self._is_shared(name)
        ]
        is_lookup = isinstance(first, LookupExtractor) and not first.is_list
        if others and is_lookup and is_same_lookup(first, second):
            return self.causes.of(others[0], [self._key(feature, row)])[0]
        return Cause(dataset=feature, is_source=False, not_followed=tuple(others))

    def _is_shared(self, dataset: str) -> bool:
        first, second = (side.datasets[dataset].asset_id for side in self.question.sides)
        return first == second

    def _key(self, feature: str, row: Key) -> Key:
        cells = {**dict(zip(self.given, row, strict=True)), **self.values[row]}
        return tuple(cells[name] for name in self.graphs[0].inputs[feature])


def feature_question_of(asked: Mapping[str, Json]) -> FeatureQuestion:
    """Read a question that was rendered as JSON.

    Raises:
        ValueError: It is not a question about a featureset.
    """
    match asked:
        case {"featureset": str(featureset), "sides": [dict(first), dict(second)], "now": int(now)}:
            rows, at = asked.get("rows"), asked.get("at")
            return FeatureQuestion(
                featureset=featureset,
                sides=(_side_of(first), _side_of(second)),
                now=now,
                rows=tuple(one for one in rows if isinstance(one, dict))
                if isinstance(rows, list)
                else None,
                is_logged=asked.get("is_logged") is True,
                at=at if isinstance(at, int) else None,
            )
        case _:
            raise ValueError("the question of a diff of features lacks a part")


def _side_of(plain: Mapping[str, Json]) -> FeatureSide:
    definitions, datasets = from_plain(plain.get("definitions")), plain.get("datasets")
    if not isinstance(definitions, Definitions) or not isinstance(datasets, dict):
        raise ValueError("a side of a diff of features lacks a part")  # noqa: TRY004 - it is JSON
    return FeatureSide(definitions=definitions, datasets=side_of(datasets))
