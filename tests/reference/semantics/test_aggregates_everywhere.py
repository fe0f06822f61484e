"""Every aggregate has one value, on any engine and however its rows were split on the way.

The reference folds by definition, the steps of unit tests and stages fold groups, and an index in
LMDB folds the tiles of its ladder; what comes late, twice or changed changes no answer.
"""

import functools
import tempfile
from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narthex._analysis.graph import check
from narthex._compiler.blueprint import compile_blueprint
from narthex._ir.aggregate_specs import ExpDecaySum, TypedAggregate
from narthex._ir.assets import IndexSpec
from narthex._ir.entities import Cdc, Dataset, Definitions, Index, Pipeline, Source, WebhookEndpoint
from narthex._ir.facts import Cell, Fact, RowId, Version
from narthex._ir.operators import Aggregate, DatasetRef
from narthex._ir.schema import Field, Metadata, Role, Schema
from narthex._ir.types import WINDOW, Datetime, Int
from narthex._ir.windows import Continuous, Hopping, Session, Tumbling, Window
from narthex_reference.cell_equality import same_cells
from narthex_reference.engine import Answer
from narthex_reference.engines import reference
from narthex_reference.inprocess import engine_of
from narthex_stores.indexes import InMemoryIndex, LmdbIndex, LookupResult
from tests.core.aggregates.aggregate_catalog import COLUMNS, catalog

OWNED = Metadata(owner="a@b.co")
AT = Field(name="at", type=Datetime(), role=Role.TIMESTAMP)
ASKED = (-5, 6, 10, 20, 31, 60)
CONTINUOUS = (Continuous(7), Continuous(25), Continuous("forever"))
DISCRETE = (
    Tumbling(10, lookback=5),
    Hopping(20, 10, lookback=5),
    Hopping("forever", 10, lookback=5),
)
some = settings(max_examples=8, deadline=None)


def _rows() -> Dataset:
    columns = [Field(name=name, type=of) for name, (of, _) in COLUMNS.items()]
    return Dataset(
        name="Rows",
        version=1,
        schema=Schema((Field(name="team", type=Int()), *columns, AT)),
        sources=(
            Source(
                connector=WebhookEndpoint(webhook="w", endpoint="rows"),
                disorder_us=0,
                cdc=Cdc.APPEND,
            ),
        ),
        metadata=OWNED,
    )


def _groups(aggregates: Sequence[TypedAggregate], window: Session | Tumbling | None) -> Dataset:
    step = Aggregate(
        DatasetRef("Rows"), ("team",), tuple(one.spec for one in aggregates), window=window
    )
    keys = [Field(name="team", type=Int(), role=Role.KEY)]
    if window is not None:
        keys.append(Field(name="window", type=WINDOW, role=Role.KEY))
    values = [Field(name=one.spec.into, type=one.output) for one in aggregates]
    return Dataset(
        name="Groups",
        version=1,
        schema=Schema((*keys, *values, AT)),
        pipelines=(Pipeline(name="p", inputs=("Rows",), terminal=step),),
        index=Index(online=True, offline=True),
        metadata=OWNED,
    )


@functools.cache
def _over(windows: tuple[Window, ...]) -> Definitions:
    found = [
        one
        for number, window in enumerate(windows)
        for one in catalog(window, prefix=f"w{number}_")
    ]
    return _checked(_groups(found, None))


def _checked(groups: Dataset) -> Definitions:
    definitions = Definitions(datasets=(_rows(), groups), featuresets=())
    assert check(definitions) == ()
    return definitions


@st.composite
def _deliveries(draw: st.DrawFn) -> list[list[Fact]]:
    """Draw the states of some rows, in any order, some twice, cut into batches."""
    facts: list[Fact] = []
    for number in range(draw(st.integers(0, 9))):
        for version in range(draw(st.integers(1, 2))):
            cells = [draw(strategy) for _, strategy in COLUMNS.values()]
            fact = Fact(
                row_id=RowId(bytes([number])),
                version=Version(bytes([version])),
                event_time=draw(st.integers(0, 30)),
                key=(),
                values=(draw(st.integers(0, 1)), *cells),
                alive=version == 0 or draw(st.booleans()),
            )
            facts.append(fact)
    again = draw(st.lists(st.sampled_from(facts), max_size=3)) if facts else []
    order = draw(st.permutations([*facts, *again]))
    cuts = sorted(draw(st.lists(st.integers(0, len(order)), max_size=3)))
    return [order[a:b] for a, b in zip([0, *cuts], [*cuts, len(order)], strict=True)]


def _contributed(fact: Fact, spec: IndexSpec) -> Fact:
    cells: dict[str, Cell] = dict(zip(("team", *COLUMNS), fact.values, strict=True))
    values = tuple(cells[column.name] for column in spec.log.values)
    return attrs.evolve(fact, key=(cells["team"],), values=values)


def _index_spec(definitions: Definitions) -> IndexSpec:
    (spec,) = (
        attrs.evolve(asset.spec, correctable=True)
        for asset in compile_blueprint(definitions).assets
        if isinstance(asset.spec, IndexSpec) and asset.spec.aggregates
    )
    assert spec.ladder_us
    return spec


def _agree(found: Answer | LookupResult | None, wanted: Answer | None) -> bool:
    if found is None or wanted is None:
        return found is None and wanted is None
    return found.event_time == wanted.event_time and same_cells(found.values, wanted.values)


@pytest.mark.parametrize("windows", [CONTINUOUS, DISCRETE], ids=["continuous", "discrete"])
@some
@given(batches=_deliveries())
def test_the_reference_groups_and_tiles_give_one_answer(
    windows: tuple[Window, ...], batches: list[list[Fact]]
) -> None:
    definitions = _over(windows)
    spec = _index_spec(definitions)
    meaning, steps = reference(definitions), engine_of(definitions)
    questions = [((team,), at) for team in (0, 1) for at in ASKED]
    keys, instants = [key for key, _ in questions], [at for _, at in questions]

    with tempfile.TemporaryDirectory() as directory:
        index = LmdbIndex(Path(directory), spec, newest_rows=0)
        whole = InMemoryIndex(spec)
        for number, batch in enumerate(batches):
            meaning.append("Rows", batch)
            steps.append("Rows", batch)
            contributed = [_contributed(fact, spec) for fact in batch]
            index.apply(contributed, offsets={("t", 0): number + 1}, epoch=1)
        everything = [_contributed(fact, spec) for batch in batches for fact in batch]
        whole.apply(everything, offsets={("t", 0): 1}, epoch=1)
        wanted = meaning.lookup("Groups", keys, instants)
        with index.read() as tiles, whole.read() as rows:
            engines = {
                "groups": steps.lookup("Groups", keys, instants),
                "tiles": tiles.lookup(keys, instants),
                "rows": rows.lookup(keys, instants),
            }
        index.close()

    for name, answers in engines.items():
        for question, found, expected in zip(questions, answers, wanted, strict=True):
            assert _agree(found, expected), (name, question, found, expected)


@pytest.mark.parametrize("window", [Session(4), Tumbling(10)], ids=str)
@some
@given(batches=_deliveries())
def test_spans_of_groups_are_what_the_reference_gives(
    window: Session | Tumbling, batches: list[list[Fact]]
) -> None:
    asked = [one for one in catalog(window) if not isinstance(one.spec, ExpDecaySum)]
    definitions = _checked(_groups(asked, window))
    meaning, steps = reference(definitions), engine_of(definitions)

    for batch in batches:
        meaning.append("Rows", batch)
        steps.append("Rows", batch)

    wanted, found = meaning.facts("Groups"), steps.facts("Groups")
    assert [(one.row_id, one.event_time, one.alive) for one in found] == [
        (one.row_id, one.event_time, one.alive) for one in wanted
    ]
    assert all(
        same_cells(one.values, other.values) for one, other in zip(found, wanted, strict=True)
    )
