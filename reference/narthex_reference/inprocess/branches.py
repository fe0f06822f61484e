"""A branch of a unit test: its definitions, the rows that were pushed to it, and its engine."""

from collections.abc import Callable, Mapping, Sequence

import attrs

from narthex._analysis import TypedDataset, logical, typed_datasets
from narthex._base import Json
from narthex._formats import MistypedError, coerce
from narthex._ir import (
    Aggregate,
    Cell,
    DatasetPlan,
    Definitions,
    Fact,
    LogShape,
    LogSpec,
    Source,
    WebhookEndpoint,
    did_you_mean,
)
from narthex._ir import Dataset as DatasetEntity
from narthex._query import ReadPlan
from narthex._query import plan as plan_read
from narthex._runtime.workers import CodeCalls
from narthex._sdk.datasets import Dataset
from narthex._sdk.features import Featureset
from narthex.errors import EntityMissing, Refused
from narthex_reference.inprocess.engine import InProcessEngine
from narthex_reference.inprocess.intake import (
    EndpointCall,
    Feed,
    ParsedRows,
    direct_source,
    facts_of_rows,
)

EMPTY = Definitions(datasets=(), featuresets=())
BAD_REQUEST = 400
NOT_FOUND = 404
CONFLICT = 409


@attrs.frozen(kw_only=True)
class ClientServices:
    """The services that all branches of a client share."""

    calls: CodeCalls
    now_us: Callable[[], int]


class BranchState:
    """One branch.

    The rows of each endpoint are kept as they arrived, so that a dataset of a higher version, or
    one that is added later, has them too.

    Attributes:
        definitions: The committed definitions.
        objects: The author's objects of these definitions, by name.
        commits: The number of commits.
        plans: The read plan of each dataset.
        engine: The engine that computes the datasets.
    """

    def __init__(self, services: ClientServices) -> None:
        """Begin without definitions."""
        self._services = services
        self._calls: dict[WebhookEndpoint, list[EndpointCall]] = {}
        self._opened: dict[tuple[str, str], int] = {}
        self._erased: dict[str, set[tuple[Cell, ...]]] = {}
        self._read_plans: dict[tuple[tuple[str, ...], tuple[str, ...]], ReadPlan] = {}
        self._feeds: list[Feed] = []
        self.definitions = EMPTY
        self.objects: Mapping[str, Dataset | Featureset] = {}
        self.commits = 0
        self.plans: dict[str, DatasetPlan] = {}
        self.engine = self._engine_of(EMPTY)

    def _engine_of(self, definitions: Definitions) -> InProcessEngine:
        return InProcessEngine(definitions, calls=self._services.calls)

    def clone(self) -> "BranchState":
        """Clone a branch with its definitions and rows; the clone is independent."""
        made = BranchState(self._services)
        made._calls = {endpoint: list(calls) for endpoint, calls in self._calls.items()}
        made._opened = dict(self._opened)
        made._erased = {name: set(keys) for name, keys in self._erased.items()}
        made._serve(self.definitions)
        for dataset in self.definitions.datasets:
            made.engine.append(dataset.name, self.engine.given(dataset.name))
        made.commits = self.commits
        made.objects = self.objects
        return made

    def commit(self, definitions: Definitions) -> None:
        """Serve correct definitions; unchanged datasets keep their rows, others are backfilled."""
        before, engine = self.definitions, self.engine
        known = {dataset.name: dataset for dataset in before.datasets}
        self._serve(definitions)
        self.commits += 1
        for dataset in definitions.datasets:
            old = known.get(dataset.name)
            if old is not None and _is_same(old, dataset):
                self.engine.append(dataset.name, engine.given(dataset.name))
            else:
                self._erased.pop(dataset.name, None)
                self._fill(dataset)
        used = {feed.endpoint for feed in self._feeds}
        self._calls = {at: calls for at, calls in self._calls.items() if at in used}

    def _serve(self, definitions: Definitions) -> None:
        self.definitions = definitions
        self.engine = self._engine_of(definitions)
        for name, keys in self._erased.items():
            if any(dataset.name == name for dataset in definitions.datasets):
                self.engine.erase(name, keys)
        self.plans = {
            one.dataset.name: plan_of_unit_test(one) for one in typed_datasets(definitions)
        }
        self._read_plans = {}
        self._feeds = [feed for dataset in definitions.datasets for feed in _feeds_of(dataset)]

    def _fill(self, dataset: DatasetEntity) -> None:
        now_us = self._services.now_us()
        for source in dataset.sources:
            self._opened[dataset.name, _source_key(source)] = now_us
        for feed in self._feeds:
            if feed.dataset.name == dataset.name:
                for call in self._calls.get(feed.endpoint, ()):
                    facts = facts_of_rows(feed, call, feed.judge(call, self._services.calls))
                    self.engine.append(dataset.name, facts)

    def feeds(self, endpoint: WebhookEndpoint) -> list[Feed]:
        """Return the datasets that an endpoint feeds."""
        return [feed for feed in self._feeds if feed.endpoint == endpoint]

    def next_offset(self, endpoint: WebhookEndpoint) -> int:
        """Return the offset of the next call of an endpoint."""
        return len(self._calls.get(endpoint, ()))

    def accept(self, call: EndpointCall, parsed: Sequence[tuple[Feed, ParsedRows]]) -> None:
        """Accept the rows of a call; a bounded source that was idle for too long accepts none."""
        for feed, rows in parsed:
            if self._is_open(feed, call.received_us):
                self.engine.append(feed.dataset.name, facts_of_rows(feed, call, rows))
        self._calls.setdefault(call.endpoint, []).append(call)

    def _is_open(self, feed: Feed, now_us: int) -> bool:
        key = feed.dataset.name, _source_key(feed.source)
        idle_for = now_us - self._opened.get(key, now_us)
        idleness = feed.source.idleness_us
        if feed.source.bounded and idleness is not None and idle_for > idleness:
            return False
        self._opened[key] = now_us
        return True

    def erase(self, plan: DatasetPlan, rows: Sequence[Mapping[str, Json]]) -> int:
        """Erase the rows of keys, including later ones; return the number of keys.

        Raises:
            Refused: The keys are not exactly the erase keys of the dataset.
        """
        fields = [field for field in plan.schema.fields if field.erase_key]
        names = [field.name for field in fields]
        keys: set[tuple[Cell, ...]] = set()
        for number, row in enumerate(rows):
            if not names or sorted(row) != sorted(names):
                raise Refused(
                    f"row {number} names {sorted(row)}; the erase keys of `{plan.name}` are "
                    f"{names}",
                    status_code=BAD_REQUEST,
                )
            try:
                keys.add(tuple(coerce(row[field.name], field.type) for field in fields))
            except MistypedError as error:
                raise Refused(f"row {number}: {error}", status_code=BAD_REQUEST) from None
        self._erased.setdefault(plan.name, set()).update(keys)
        self.engine.erase(plan.name, self._erased[plan.name])
        return len(keys)

    def plan(self, name: str) -> DatasetPlan:
        """Return the read plan of a dataset.

        Raises:
            EntityMissing: The branch has no dataset of that name.
        """
        try:
            return self.plans[name]
        except KeyError:
            raise EntityMissing(
                f"dataset `{name}` is not known", hint=did_you_mean(name, self.plans)
            ) from None

    def read_plan(self, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> ReadPlan:
        """Return the read plan of a query; computed once per commit."""
        if (inputs, outputs) not in self._read_plans:
            self._read_plans[inputs, outputs] = plan_read(
                self.definitions, self.plans, inputs=inputs, outputs=outputs
            )
        return self._read_plans[inputs, outputs]

    def facts(self, name: str) -> tuple[Fact, ...]:
        """Return the current rows of a dataset, oldest first."""
        return tuple(fact for fact in self.engine.facts(self.plan(name).name) if fact.alive)


def _feeds_of(dataset: DatasetEntity) -> list[Feed]:
    sources = [one for one in dataset.sources if isinstance(one.connector, WebhookEndpoint)]
    return [Feed.of(dataset, source) for source in (*sources, direct_source(dataset))]


def _is_same(old: DatasetEntity, new: DatasetEntity) -> bool:
    return old.version == new.version and logical(old) == logical(new)


def _source_key(source: Source) -> str:
    return repr(source.connector)


def plan_of_unit_test(typed: TypedDataset) -> DatasetPlan:
    """Return the read plan of a dataset: as on a platform, except for its storage."""
    dataset = typed.dataset
    schema = dataset.schema
    terminal = dataset.pipelines[-1].terminal if dataset.pipelines else None
    folded = isinstance(terminal, Aggregate) and terminal.window is None
    return DatasetPlan(
        name=dataset.name,
        version=dataset.version,
        schema=schema,
        log=LogSpec(
            shape=LogShape.KEYED if schema.keys else LogShape.ROWS,
            keys=schema.keys,
            values=schema.values,
            time_field=schema.timestamp,
        ),
        aggregates=typed.node.aggregates if typed.node is not None and folded else (),
        ladder_us=(),
        online=dataset.index is not None and dataset.index.online,
        offline=dataset.index is not None and dataset.index.offline,
        expectations=dataset.expectations,
    )
