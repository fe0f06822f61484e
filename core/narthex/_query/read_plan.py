"""Plan the execution of a query: which extractors, in which order, with which lookups."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TypeAlias, assert_never

import attrs

from narthex._aggregates import algebra
from narthex._analysis.checks.features import extractor_outputs
from narthex._expr.python import Prepared, literal_cell, prepare
from narthex._expr.typing import fit, references
from narthex._ir.aggregate_specs import Average, Max, Min, Quantile, Stddev
from narthex._ir.assets import DatasetPlan
from narthex._ir.entities import (
    AliasExtractor,
    CodeExtractor,
    Definitions,
    ExpressionExtractor,
    Extractor,
    Featureset,
    LookupExtractor,
)
from narthex._ir.expression_nodes import Node
from narthex._ir.facts import Cell
from narthex._ir.node_schema import did_you_mean
from narthex._ir.schema import Column, Role, Schema
from narthex._ir.types import DataType, Float, List, inner
from narthex.errors import (
    DefinitionError,
    EntityMissing,
    FeatureWithoutExtractor,
    GraphCycle,
    LookupImpossible,
    raise_all,
)


@attrs.frozen(kw_only=True)
class Take:
    """One feature that a lookup yields.

    Attributes:
        feature: Fully qualified.
        column: The dataset's column.
        role: Whether the column is a value, a key or the timestamp.
        position: The position of the column among those of its role.
        unseen: The value for a key that was never seen.
        null: The value that replaces a null in a row.
    """

    feature: str
    column: str
    role: Role
    position: int
    unseen: Cell
    null: Cell


@attrs.frozen(kw_only=True)
class LookupRequest:
    """The features that hold the keys, in the order of the dataset's key, and the columns to take.

    Attributes:
        is_list: Whether the features hold lists of keys, looked up element by element into lists.
    """

    keys: tuple[str, ...]
    takes: tuple[Take, ...]
    is_list: bool = False


@attrs.frozen(kw_only=True)
class LookupStep:
    """All lookups of one dataset that can run at once: one batched read."""

    dataset: DatasetPlan
    requests: tuple[LookupRequest, ...]


@attrs.frozen(kw_only=True)
class AliasStep:
    """A feature that is an alias of another one.

    Attributes:
        null: The value that replaces a null.
    """

    feature: str
    source: str
    null: Cell = None


@attrs.frozen(kw_only=True)
class ExpressionStep:
    """A feature that is an expression.

    Attributes:
        refs: Pairs (name in the expression, feature with its value).
        schema: The types of those names.
        expression: An expression with exactly the feature's type.
        prepared: Evaluates it on a row.
    """

    feature: str
    refs: tuple[tuple[str, str], ...]
    schema: Mapping[str, DataType]
    expression: Node
    prepared: Prepared = attrs.field(eq=False, repr=False)


@attrs.frozen(kw_only=True)
class CodeStep:
    """Features that a Python function computes.

    Attributes:
        inputs: Its arguments after the instants: features with their types.
        outputs: The names of the function's results, with their types.
        features: The fully qualified names of the outputs, in order.
    """

    extractor: CodeExtractor
    featureset: str
    inputs: tuple[Column, ...]
    outputs: tuple[Column, ...]
    features: tuple[str, ...]


Step: TypeAlias = LookupStep | AliasStep | ExpressionStep | CodeStep


@attrs.frozen(kw_only=True)
class ReadPlan:
    """The plan of one kind of query.

    Attributes:
        inputs: The features that are given.
        outputs: The features that are wanted; a featureset is expanded to all of its features.
        steps: The steps, in order; each needs only given features and earlier steps.
        types: The types of all features of the featuresets that were planned over.
        datasets: The plans of all datasets, for code that looks rows up itself.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    steps: tuple[Step, ...]
    types: Mapping[str, DataType]
    datasets: Mapping[str, DatasetPlan]

    @cached_property
    def reading_steps(self) -> int:
        """The number of first steps after which no step looks rows up any more."""
        places = (
            place
            for place, step in enumerate(self.steps, start=1)
            if isinstance(step, LookupStep)
            or (isinstance(step, CodeStep) and step.extractor.datasets)
        )
        return max(places, default=0)

    def unseen_values(self) -> dict[str, Cell]:
        """Return the values that outputs have for keys that were never seen, if they have one."""
        takes = [
            take
            for step in self.steps
            if isinstance(step, LookupStep)
            for request in step.requests
            if not request.is_list
            for take in request.takes
        ]
        return {
            take.feature: take.unseen
            for take in takes
            if take.unseen is not None and take.feature in self.outputs
        }

    @property
    def looked_up(self) -> frozenset[str]:
        """The datasets that lookups read; authors' code may look up others."""
        return frozenset(s.dataset.name for s in self.steps if isinstance(s, LookupStep))


def plan(
    definitions: Definitions,
    datasets: Mapping[str, DatasetPlan],
    *,
    inputs: Sequence[str],
    outputs: Sequence[str],
) -> ReadPlan:
    """Plan the steps from given features to wanted ones; given features are never computed.

    Raises:
        DefinitionErrors: A feature is unknown, is not extracted, depends on itself, or looks up a
            dataset that does not exist.
    """
    planner = _Planner(definitions.featuresets, datasets, inputs)
    planner.check_names([*inputs, *outputs])
    wanted = planner.expand(outputs)
    for name in wanted:
        planner.need(name, ())
    raise_all(planner.errors)
    return ReadPlan(
        inputs=tuple(inputs),
        outputs=wanted,
        steps=tuple(planner.steps()),
        types=planner.types,
        datasets=datasets,
    )


@attrs.frozen
class _Owned:
    featureset: Featureset
    extractor: Extractor


class _Planner:
    """Traces wanted features back to given ones, and assigns each extractor to a wave."""

    def __init__(
        self,
        featuresets: tuple[Featureset, ...],
        datasets: Mapping[str, DatasetPlan],
        given: Sequence[str],
    ) -> None:
        self.featuresets = {featureset.name: featureset for featureset in featuresets}
        self.datasets = datasets
        self.types = {
            f"{featureset.name}.{feature.name}": feature.type
            for featureset in featuresets
            for feature in featureset.features
        }
        self.makers: dict[str, _Owned] = {}
        for featureset in featuresets:
            for extractor in featureset.extractors:
                for name in extractor_outputs(featureset, extractor):
                    self.makers[name] = _Owned(featureset, extractor)
        self.waves: dict[str, int] = dict.fromkeys(given, 0)
        self.errors: list[DefinitionError] = []

    def check_names(self, names: Iterable[str]) -> None:
        for name in dict.fromkeys(names):
            if name not in self.types and name not in self.featuresets:
                known = [*self.types, *self.featuresets]
                self.errors.append(
                    EntityMissing(f"feature `{name}` is not known", hint=did_you_mean(name, known))
                )

    def expand(self, outputs: Sequence[str]) -> tuple[str, ...]:
        found: dict[str, None] = {}
        for name in outputs:
            featureset = self.featuresets.get(name)
            if featureset is None:
                found[name] = None
            else:
                found |= dict.fromkeys(f"{name}.{feature.name}" for feature in featureset.features)
        return tuple(name for name in found if name in self.types)

    def need(self, name: str, path: tuple[str, ...]) -> int:
        """Return the wave after which a feature is available; 0 when it is given."""
        known = self.waves.get(name)
        if known is not None:
            return known
        owned = self.makers.get(name)
        if name in path or owned is None:
            self.errors.append(self._no_way(name, path, owned))
            return 0
        inputs = self._inputs(owned)
        wave = 1 + max((self.need(one, (*path, name)) for one in inputs), default=0)
        self.waves[name] = wave
        return wave

    def _no_way(self, name: str, path: tuple[str, ...], owned: _Owned | None) -> DefinitionError:
        if owned is not None:
            circle = " → ".join(f"`{one}`" for one in (*path[path.index(name) :], name))
            return GraphCycle(
                f"features depend on each other in a cycle: {circle}", origin=owned.extractor.origin
            )
        needed = f", which `{path[-1]}` needs" if path else ""
        return FeatureWithoutExtractor(
            f"no extractor gives feature `{name}`{needed}",
            hint=f"give `{name}` as an input, or add an extractor for it",
        )

    def _inputs(self, owned: _Owned) -> tuple[str, ...]:
        extractor, prefix = owned.extractor, owned.featureset.name
        match extractor:
            case LookupExtractor():
                return self._lookup_keys(prefix, extractor)
            case AliasExtractor():
                return (extractor.source,)
            case ExpressionExtractor():
                return tuple(
                    f"{prefix}.{name}" for name in sorted(references(extractor.expression))
                )
            case CodeExtractor():
                return extractor.inputs
            case _:
                assert_never(extractor)

    def _lookup_keys(self, prefix: str, extractor: LookupExtractor) -> tuple[str, ...]:
        dataset = self.datasets.get(extractor.dataset)
        if dataset is None:
            self.errors.append(
                LookupImpossible(
                    f"feature `{prefix}.{extractor.feature}` looks up `{extractor.dataset}`, "
                    "which is not deployed",
                    origin=extractor.origin,
                )
            )
            return ()
        return tuple(f"{prefix}.{key.name}" for key in dataset.schema.keys)

    def steps(self) -> Iterable[Step]:
        """Return the steps wave by wave; the lookups of a dataset in a wave are one step."""
        ordered = sorted(
            (wave, position, name)
            for position, (name, wave) in enumerate(self.waves.items())
            if wave > 0
        )
        for wave in sorted({wave for wave, _, _ in ordered}):
            yield from self._wave([name for at, _, name in ordered if at == wave])

    def _wave(self, names: list[str]) -> Iterable[Step]:
        lookups: dict[str, dict[tuple[tuple[str, ...], bool], list[Take]]] = {}
        others: dict[int, Step] = {}
        for name in names:
            owned = self.makers[name]
            match owned.extractor:
                case LookupExtractor() as extractor:
                    keys = self._lookup_keys(owned.featureset.name, extractor)
                    requests = lookups.setdefault(extractor.dataset, {})
                    asked = requests.setdefault((keys, extractor.is_list), [])
                    asked.append(self._take(name, extractor))
                case AliasExtractor() as extractor:
                    default = _default(extractor, self.types[name])
                    step = AliasStep(feature=name, source=extractor.source, null=default)
                    others[id(extractor)] = step
                case ExpressionExtractor() as extractor:
                    others[id(extractor)] = self._expression(name, owned.featureset, extractor)
                case CodeExtractor() as extractor:
                    others[id(extractor)] = self._code(owned.featureset, extractor)
                case _:
                    assert_never(owned.extractor)
        for dataset, by_keys in lookups.items():
            made = tuple(
                LookupRequest(keys=keys, takes=tuple(takes), is_list=is_list)
                for (keys, is_list), takes in by_keys.items()
            )
            yield LookupStep(dataset=self.datasets[dataset], requests=made)
        yield from others.values()

    def _take(self, name: str, extractor: LookupExtractor) -> Take:
        of = self.types[name]
        default = _default(extractor, of.of if extractor.is_list and isinstance(of, List) else of)
        dataset = self.datasets[extractor.dataset]
        own = own_default(dataset, extractor.column)
        role, position = _place_of(dataset.schema, extractor.column)
        return Take(
            feature=name,
            column=extractor.column,
            role=role,
            position=position,
            unseen=default if own is None else own,
            null=default,
        )

    def _expression(
        self, name: str, featureset: Featureset, extractor: ExpressionExtractor
    ) -> ExpressionStep:
        columns = {feature.name: feature.type for feature in featureset.features}
        expression = fit(extractor.expression, columns, target=self.types[name])
        refs = sorted(references(expression))
        schema = {ref: columns[ref] for ref in refs}
        return ExpressionStep(
            feature=name,
            refs=tuple((ref, f"{featureset.name}.{ref}") for ref in refs),
            schema=schema,
            expression=expression,
            prepared=prepare(expression, schema),
        )

    def _code(self, featureset: Featureset, extractor: CodeExtractor) -> CodeStep:
        features = extractor_outputs(featureset, extractor)
        return CodeStep(
            extractor=extractor,
            featureset=featureset.name,
            inputs=tuple(Column(name, self.types[name]) for name in extractor.inputs),
            outputs=tuple(
                Column(short, self.types[name])
                for short, name in zip(extractor.outputs, features, strict=True)
            ),
            features=features,
        )


def own_default(dataset: DatasetPlan, column: str) -> Cell:
    """Return an aggregate's own default for a key that was never seen; None if it has none."""
    for aggregate in dataset.aggregates:
        match aggregate.spec:
            case Average() | Min() | Max() | Stddev() | Quantile() if aggregate.spec.into == column:
                made = algebra(aggregate)
                return made.finish(made.identity(), 0)
            case _:
                pass
    return None


def _place_of(schema: Schema, column: str) -> tuple[Role, int]:
    """Return the role of a column, and its position among the columns of that role."""
    for role, columns in ((Role.VALUE, schema.values), (Role.KEY, schema.keys)):
        names = [each.name for each in columns]
        if column in names:
            return role, names.index(column)
    return Role.TIMESTAMP, 0


def _default(extractor: LookupExtractor | AliasExtractor, of: DataType) -> Cell:
    cell = literal_cell(extractor.default, of) if extractor.has_default else None
    if isinstance(inner(of), Float) and isinstance(cell, int):
        return float(cell)
    return cell
