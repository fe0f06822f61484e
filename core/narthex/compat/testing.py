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
from narthex._analysis.graph import reads
from narthex._analysis.schemas.pipelines import all_steps
from narthex._ir.aggregate_specs import ExpDecaySum
from narthex._ir.entities import Dataset as DatasetEntity
from narthex._ir.entities import WebhookEndpoint
from narthex._ir.operators import Aggregate
from narthex._ir.windows import Hopping, Tumbling
from narthex._sdk.commit_definitions import definitions
from narthex._sdk.datasets.datasets import Dataset
from narthex._sdk.features.featuresets import Featureset
from narthex.client import Response
from narthex.client.references import dataset_name, output_names
from narthex.compat.errors import FennelError, told
from narthex.compat.frames import cast, refusal, with_missing, without_traces
from narthex.errors import Refused
from narthex.testing import almost_equal

__all__ = ["InternalTestClient", "MockClient", "almost_equal", "log", "mock"]

_BEHIND: Final = testing.MockClient
_NEEDS_THE_WORLD: Final = "data_integration"
_A_MOMENT: Final = timedelta(minutes=1)
_NEVER: Final = datetime(1970, 1, 1, tzinfo=UTC)


class MockClient(_BEHIND):
    """The client of unit tests, with the additional methods of Fennel's."""

    def __init__(self, branch: str | None = None) -> None:
        """Create a client with an empty branch `main`."""
        self._newest: dict[str, datetime] = {}
        super().__init__(branch)

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
            return super().log(webhook, endpoint, cast(df, types), batch_size)
        except Refused as error:
            schemas = {name: one.schema for name, one in fed.items()}
            raise FennelError(refusal(error.message, df, schemas) or str(error)) from error

    @override
    def log_to_dataset(self, dataset: Dataset, df: pd.DataFrame) -> Response:
        types = {field.name: field.dtype for field in dataset.fields}
        self._remember(df, [one for one in self._committed() if one.name == dataset.fqn()])
        return super().log_to_dataset(dataset, cast(df, types))

    @override
    def lookup(
        self,
        dataset: Dataset | type | str,
        keys: pd.DataFrame,
        fields: Sequence[str] | None = None,
        timestamps: object = None,
    ) -> tuple[pd.DataFrame | pd.Series, pd.Series]:
        keys = cast(keys, self._types_in(dataset))
        with self._standing(dataset_name(dataset)):
            rows, found = super().lookup(dataset, keys, fields, timestamps)
        frame = rows.to_frame() if isinstance(rows, pd.Series) else rows
        made = with_missing(without_traces(frame, self._decaying(dataset)))
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
            return with_missing(super().query(inputs, outputs, asked, *args, **given))

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
        return with_missing(answer[[*dict.fromkeys(features), timestamp_column]])

    @override
    def inspect(self, dataset: Dataset | type | str, n: int = 10) -> pd.DataFrame:
        return with_missing(super().inspect(dataset, n))

    @override
    def get_dataset_df(self, dataset_name: str) -> pd.DataFrame:
        """Return all rows of a dataset, oldest first; rows of one instant are ordered by key."""
        frame = with_missing(super().get_dataset_df(dataset_name))
        (schema,) = (one.schema for one in self._committed() if one.name == dataset_name)
        order = [schema.timestamp, *(key.name for key in schema.keys)]
        if not schema.keys or any(frame[name].dtype == object for name in order):
            return frame
        return frame.sort_values(order, kind="stable", ignore_index=True)

    @override
    def find(
        self, dataset: str, instants: object, keys: Mapping[str, object], fields: Sequence[str]
    ) -> tuple[object, object]:
        given = cast(pd.DataFrame(keys), self._types_in(dataset))
        asked = {name: given[name] for name in keys}
        rows, found = super().find(dataset, instants, asked, fields)
        if isinstance(rows, pd.DataFrame):
            rows = with_missing(without_traces(rows, self._decaying(dataset)))
        return rows, found

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
