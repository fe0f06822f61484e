# mypy: disable-error-code="type-arg, explicit-any, misc, valid-type, attr-defined"
# mypy: disable-error-code="no-any-return, operator, index"
"""Unit tests with Fennel's client: it accepts, answers and refuses as Fennel's did."""

import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Final

import pandas as pd
from typing_extensions import override

from narthex import testing
from narthex._analysis.graph import reads, typed_datasets
from narthex._analysis.schemas.pipelines import all_steps, output_schema
from narthex._ir.aggregate_specs import ExpDecaySum
from narthex._ir.code import UserCode
from narthex._ir.entities import (
    AliasExtractor,
    CodeExtractor,
    ColumnRef,
    ExpressionExtractor,
    Extractor,
    LookupExtractor,
    WebhookEndpoint,
)
from narthex._ir.entities import Dataset as DatasetEntity
from narthex._ir.operators import Aggregate, Transform
from narthex._ir.windows import Hopping, Tumbling
from narthex._sdk.commit_definitions import definitions
from narthex._sdk.datasets.datasets import Dataset
from narthex._sdk.features.featuresets import Featureset
from narthex._server_calls.references import dataset_name, output_names
from narthex.client import Response
from narthex.compat.author_code import FennelCalls
from narthex.compat.errors import FennelError, told
from narthex.compat.frames import (
    cast,
    refusal,
    with_arrow_dtypes,
    with_missing,
    with_numpy_dtype,
    without_pandas_dtype,
    without_traces,
)
from narthex.errors import Refused
from narthex.testing import almost_equal

__all__ = ["InternalTestClient", "MockClient", "almost_equal", "log", "mock"]

_BEHIND: Final = testing.MockClient
_NEEDS_THE_WORLD: Final = "data_integration"
_A_MOMENT: Final = timedelta(minutes=1)
_NEVER: Final = datetime(1970, 1, 1, tzinfo=UTC)


class MockClient(_BEHIND):
    """The client of unit tests, with the additional methods of Fennel's."""

    calls_of = FennelCalls

    def __init__(self, branch: str | None = None) -> None:
        """Create a client with an empty branch `main`."""
        self._newest: dict[str, datetime] = {}
        super().__init__(branch)
        self._caller.services.calls.takes_keyed = self._takes_keyed

    @override
    def __getattribute__(self, name: str) -> object:
        found = super().__getattribute__(name)
        return told(found) if callable(found) and not name.startswith("_") else found

    @override
    def log(
        self, webhook: str, endpoint: str, df: pd.DataFrame, batch_size: int = 1000
    ) -> Response | None:
        fed = {one.name: one for one in self._fed(webhook, endpoint)}
        types = {name: of for one in fed.values() for name, of in one.schema.columns.items()}
        if df.empty:
            return Response(status_code=200, headers={}, body={})
        self._remember(df, fed.values())
        try:
            answer = super().log(webhook, endpoint, cast(df, types), batch_size)
        except Refused as error:
            schemas = {name: one.schema for name, one in fed.items()}
            fields = _with_fields(df, fed.values())
            raise FennelError(refusal(error.message, fields, schemas) or str(error)) from error
        self._run_pipelines(fed)
        return answer

    @override
    def log_to_dataset(self, dataset: Dataset, df: pd.DataFrame) -> Response:
        types = {field.name: field.dtype for field in dataset.fields}
        self._remember(df, [one for one in self._committed() if one.name == dataset.fqn()])
        answer = super().log_to_dataset(dataset, cast(df, types))
        self._run_pipelines([dataset.fqn()])
        return answer

    @override
    def lookup(
        self,
        dataset: Dataset | type | str,
        keys: pd.DataFrame,
        fields: Sequence[str] | None = None,
        timestamps: object = None,
    ) -> tuple[pd.DataFrame | pd.Series, pd.Series]:
        keys = cast(keys, self._types_in(dataset))
        instants = self._until_newest(dataset_name(dataset), timestamps)
        with self._standing(dataset_name(dataset)):
            rows, found = super().lookup(dataset, keys, fields, instants)
        found = found.astype(bool)
        frame = rows.to_frame() if isinstance(rows, pd.Series) else rows
        made = with_missing(without_traces(frame, self._decaying(dataset)))
        made = with_arrow_dtypes(made, without_pandas_dtype(self._types_in(dataset)))
        return (made.iloc[:, 0] if isinstance(rows, pd.Series) else made), found

    @override
    def query(
        self,
        inputs: Sequence[object],
        outputs: Sequence[object],
        input_dataframe: pd.DataFrame,
        *args: object,
        **given: object,
    ) -> pd.DataFrame:
        asked = cast(input_dataframe, self._types_of(inputs))
        with self._standing():
            answer = super().query(inputs, outputs, asked, *args, **given)
        return self._with_dtypes(with_missing(answer), input_dataframe)

    @override
    def query_offline(
        self,
        inputs: Sequence[object],
        outputs: Sequence[object],
        timestamp_column: str,
        input_dataframe: pd.DataFrame | None = None,
        *args: object,
        **given: object,
    ) -> pd.DataFrame:
        asked = None if input_dataframe is None else cast(input_dataframe, self._types_of(inputs))
        answer = super().query_offline(inputs, outputs, timestamp_column, asked, *args, **given)
        # Fennel's mock returned the features, then the instants.
        wanted, known = output_names(outputs), self._types_of(outputs)
        features = [n for one in wanted for n in known if n == one or n.startswith(f"{one}.")]
        chosen = answer[[*dict.fromkeys(features), timestamp_column]]
        return self._with_dtypes(with_missing(chosen), input_dataframe)

    @override
    def inspect(self, dataset: Dataset | type | str, n: int = 10) -> pd.DataFrame:
        return with_missing(super().inspect(dataset, n))

    @override
    def get_dataset_df(self, dataset_name: str) -> pd.DataFrame:
        """Return all rows of a dataset, oldest first; rows of one instant are ordered by key."""
        frame = super().get_dataset_df(dataset_name)
        (schema,) = (one.schema for one in self._committed() if one.name == dataset_name)
        order = [schema.timestamp, *(key.name for key in schema.keys)]
        if schema.keys and not any(frame[name].dtype == object for name in order):
            frame = frame.sort_values(order, kind="stable", ignore_index=True)
        return with_arrow_dtypes(frame, schema.columns)

    @override
    def find(
        self, dataset: str, instants: object, keys: Mapping[str, object], fields: Sequence[str]
    ) -> tuple[object, object]:
        given = cast(pd.DataFrame(keys), self._types_in(dataset))
        asked = {name: given[name] for name in keys}
        until = self._until_newest(dataset, instants)
        rows, found = super().find(dataset, until, asked, fields)
        if isinstance(rows, pd.DataFrame):
            rows = with_missing(without_traces(rows, self._decaying(dataset)))
            rows = with_arrow_dtypes(rows, without_pandas_dtype(self._types_in(dataset)))
        return rows, found

    def _with_dtypes(self, answer: pd.DataFrame, given: pd.DataFrame | None) -> pd.DataFrame:
        """Convert features to the dtypes that they had in Fennel's unit tests.

        Inputs keep their column, what code returned is in NumPy's dtypes, expressions in Arrow's.
        """
        types, extractors = self._types_of(()), self._extractors()
        made = answer
        for name in map(str, answer):
            match extractors.get(name):
                case CodeExtractor():
                    made = made.assign(**{name: with_numpy_dtype(answer[name])})
                case ExpressionExtractor():
                    made = with_arrow_dtypes(made, {name: types[name]})
                case LookupExtractor():
                    exact = without_pandas_dtype({name: types[name]})
                    made = with_arrow_dtypes(made, exact)
                case None if given is not None and name in given:
                    made = made.assign(**{name: given[name].to_numpy()})
                case _:
                    pass
        return made

    def _extractors(self) -> Mapping[str, Extractor]:
        """Return what computes each feature, by its full name; of an alias, of its source."""
        found: dict[str, Extractor] = {}
        for featureset in self.branches_map[self._branch].definitions.featuresets:
            for one in featureset.extractors:
                outputs = one.outputs if isinstance(one, CodeExtractor) else (one.feature,)
                found |= {f"{featureset.name}.{name}": one for name in outputs}
        return {name: _behind(one, found) for name, one in found.items()}

    def _until_newest(self, dataset: str, instants: object) -> object:
        """Limit instants to the newest row's, where a dataset has tumbling or hopping windows."""
        above = self._above(dataset)
        known = [self._newest[one] for one in above if one in self._newest]
        if instants is None or not known or not self._hops(above):
            return instants
        newest = pd.Timestamp(max(known))
        given = pd.Series(pd.to_datetime(pd.Series(instants), utc=True))
        return given.where(given < newest, newest)

    @contextmanager
    def _standing(self, dataset: str = "") -> Iterator[None]:
        """Set "now" to the event time of the newest row, if that is less than a minute ago.

        Fennel removed a row from a window up to a second late, and tests came to rely on it: a row
        of exactly a day ago is in the one-day window of a query a moment later. In Fennel, only
        rows moved tumbling and hopping windows forward, so for these "now" is the newest row's time
        at any age.
        """
        sources = self._above(dataset) if dataset else self._newest.keys()
        newest = max([self._newest[one] for one in sources if one in self._newest], default=_NEVER)
        ago = self.clock.now() - newest
        if timedelta() < ago and (ago < _A_MOMENT or self._hops(sources)):
            with self.clock.standing_at(newest):
                yield
        else:
            yield

    def _above(self, dataset: str) -> frozenset[str]:
        """Return a dataset and all datasets that it is derived from."""
        known = {one.name: one for one in self._committed()}
        found: set[str] = set()
        pending = [dataset]
        while pending:
            name = pending.pop()
            if name not in found and name in known:
                found.add(name)
                pending += reads(known[name])
        return frozenset(found)

    def _hops(self, datasets: Collection[str]) -> bool:
        """Return whether one of the datasets has aggregates over tumbling or hopping windows."""
        return any(
            isinstance(window, Tumbling | Hopping)
            for one in self._committed()
            if one.name in datasets
            for pipeline in one.pipelines
            for step in all_steps(pipeline.terminal)
            if isinstance(step, Aggregate)
            for window in (step.window, *(spec.window for spec in step.specs))
        )

    def _fed(self, webhook: str, endpoint: str) -> Iterator[DatasetEntity]:
        connector = WebhookEndpoint(webhook=webhook, endpoint=endpoint)
        for branch in self.branches_map.values():
            for dataset in branch.definitions.datasets:
                if any(source.connector == connector for source in dataset.sources):
                    yield dataset

    def _run_pipelines(self, fed: Iterable[str]) -> None:
        """Run authors' code on logged rows now: an error belongs to the call that logged them."""
        for branch in self.branches_map.values():
            known = {one.name for one in branch.definitions.datasets}
            for name in known.intersection(fed):
                branch.engine.compute_below(name)

    def _takes_keyed(self, code: UserCode) -> bool:
        """Whether the function of a `transform` gets rows that have a key."""
        for branch in self.branches_map.values():
            infos = {one.info.name: one.info for one in typed_datasets(branch.definitions)}
            for step in _transforms(branch.definitions.datasets):
                if step.code == code:
                    return bool(output_schema(step.input, infos).keys)
        return False

    def _remember(self, frame: pd.DataFrame, fed: Iterable[DatasetEntity]) -> None:
        """Store the newest event time of each dataset, ignoring those in the future."""
        for one in fed:
            column = frame.get(one.schema.timestamp, pd.Series(dtype=object))
            instants = pd.to_datetime(column, utc=True, errors="coerce", format="ISO8601")
            known = [at.to_pydatetime() for at in instants.dropna() if at <= self.clock.now()]
            self._newest[one.name] = max([self._newest.get(one.name, _NEVER), *known])

    def _committed(self) -> Sequence[DatasetEntity]:
        return self.branches_map[self._branch].definitions.datasets

    def _decaying(self, dataset: Dataset | type | str) -> Iterator[str]:
        for one in self._committed():
            last = one.pipelines[-1].terminal if one.pipelines else None
            if one.name == dataset_name(dataset) and isinstance(last, Aggregate):
                yield from (spec.into for spec in last.specs if isinstance(spec, ExpDecaySum))


def _with_fields(frame: pd.DataFrame, fed: Iterable[DatasetEntity]) -> pd.DataFrame:
    """Add the raw columns that `ref` names, under the names of their fields."""
    made = frame
    for dataset in fed:
        for source in dataset.sources:
            for name, step in source.preproc:
                if isinstance(step, ColumnRef) and not step.path and step.column in frame:
                    made = made.assign(**{name: frame[step.column]})
    return made


def _behind(extractor: Extractor, known: Mapping[str, Extractor]) -> Extractor:
    """Return what computes the feature that an alias names; the alias, if that is an input."""
    found = extractor
    while isinstance(found, AliasExtractor) and found.source in known:
        found = known[found.source]
    return found


def _transforms(datasets: Iterable[DatasetEntity]) -> Iterator[Transform]:
    for dataset in datasets:
        for pipeline in dataset.pipelines:
            for step in all_steps(pipeline.terminal):
                if isinstance(step, Transform):
                    yield step


log = told(testing.log)


def mock(test: Callable[..., object]) -> Callable[..., object]:
    """Run a test with a client of its own, passed as `client=`.

    A test whose name has `data_integration` needs external services: its body is not run, as with
    Fennel's own decorator.
    """

    @functools.wraps(test)
    def run(*args: object, **given: object) -> object:
        if _NEEDS_THE_WORLD in test.__name__:
            return None
        return test(*args, **given, client=MockClient())

    others = [one for one in inspect.signature(test).parameters.values() if one.name != "client"]
    # pytest treats the names of a test's parameters as fixtures.
    vars(run)["__signature__"] = inspect.signature(test).replace(parameters=others)
    return run


class InternalTestClient:
    """The entities that a commit for an env would contain, for tests that count them."""

    def __init__(self) -> None:
        self._entities: list[Dataset | Featureset] = []

    def add(self, entity: Dataset | Featureset) -> None:
        """Add a dataset or a featureset.

        Raises:
            FennelError: It is neither.
        """
        if not isinstance(entity, Dataset | Featureset):
            raise FennelError(f"`{entity!r}` is neither a dataset nor a featureset")
        self._entities.append(entity)

    def _get_sync_request_proto(self, message: str = "", env: str | None = None) -> SimpleNamespace:
        """Return the entities of a commit by Fennel's names of their kinds, without code."""
        del message
        found = definitions(
            [one for one in self._entities if isinstance(one, Dataset)],
            [one for one in self._entities if isinstance(one, Featureset)],
            env=env,
        )
        return SimpleNamespace(
            datasets=found.datasets,
            feature_sets=found.featuresets,
            sources=_flat(one.sources for one in found.datasets),
            pipelines=_flat(one.pipelines for one in found.datasets),
            features=_flat(one.features for one in found.featuresets),
            extractors=_flat(one.extractors for one in found.featuresets),
        )


def _flat(lists: Iterable[Sequence[object]]) -> list[object]:
    return [one for found in lists for one in found]
