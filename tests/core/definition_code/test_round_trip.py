"""The written code of a definition declares an equal definition."""

import importlib.util
import linecache
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import attrs
import pytest
from hypothesis import given

from narthex._base.origin import Origin
from narthex._definition_code import dataset_code, feature_code, featureset_code
from narthex._ir import DatasetRef, Definitions, Expectation, Filter, UserCode, codes_in
from narthex._sdk.commit_definitions import definitions_in
from narthex_reference.generate.project import Project
from narthex_reference.generate.projects import projects
from tests.server.shop import shop_definitions

IMPORTS: Final = """\
from datetime import date, datetime
from decimal import Decimal as decimal
from typing import Dict, List, Optional

import pandas as pd

from narthex.datasets import *
from narthex.dtypes import *
from narthex.expr import col, from_epoch, lit, now, repeat, var, when
from narthex.featuresets import *
from narthex.lib import *
"""
SPEND: Final = """\
@meta(owner="shop@narthex.dev")
@dataset(index=True)
class Spend:
    \"\"\"The spending of a user.\"\"\"

    user: str = field(key=True)
    orders_1h: int
    spent: float
    at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Orders)
    def by_user(cls, orders):
        return (
            orders
            .filter(col("amount") > lit(0.0))
            .groupby("user")
            .aggregate(
                orders_1h=Count(window=Continuous("1h")),
                spent=Sum(of="amount", window=Continuous("forever")),
            )
        )
"""
BUYER: Final = """\
import pandas as pd


@meta(owner="shop@narthex.dev")
@featureset
class Buyer:
    \"\"\"The features of a buyer.\"\"\"

    user: str
    orders_1h: int = feature(Spend.orders_1h, default=0)
    spent: float = feature(Spend.spent, default=0.0)
    country: Optional[str] = feature(Users.country)
    is_busy: bool = feature(col("orders_1h") > lit(2))
    rank: float

    @extractor
    @inputs("spent")
    @outputs("rank")
    def ranked(cls, ts, spent):
        return pd.Series(spent / 100.0, name='rank')
"""


def example(name: str) -> ModuleType:
    """Import the definitions of an example."""
    return importlib.import_module(f"examples.{name}.features")


def bare(value: Any) -> Any:
    """Return a record without the places and the code of its author."""
    match value:
        case UserCode():
            return "code"
        case Origin():
            return "place"
        case Expectation():
            said = tuple(one for one in value.arguments if one[1] is not False)
            return said, value.kind, value.mostly, value.severity, value.action
        case tuple():
            return tuple(map(bare, value))
        case _ if attrs.has(type(value)):
            found = {one.name: bare(getattr(value, one.name)) for one in attrs.fields(type(value))}
            return type(value).__name__, found
    return value


def declared(text: str, directory: Path) -> Definitions:
    """Import a text as an author's file, and return what it declares."""
    path = directory / "written.py"
    path.write_text(f"{IMPORTS}\n{text}", encoding="utf-8")
    spec = importlib.util.spec_from_file_location("written", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["written"] = module
    try:
        spec.loader.exec_module(module)
        return definitions_in(vars(module).values())
    finally:
        del sys.modules["written"]
        linecache.checkcache(str(path))


def written_out(definitions: Definitions) -> str:
    return "\n\n".join(
        [
            *(dataset_code(one, definitions.datasets) for one in definitions.datasets),
            *map(featureset_code, definitions.featuresets),
        ]
    )


def without_ends(definitions: Definitions) -> Definitions:
    """Return definitions without sources and sinks, which are not written."""
    datasets = (attrs.evolve(one, sources=(), sinks=()) for one in definitions.datasets)
    return attrs.evolve(definitions, datasets=tuple(datasets))


def differences(left: Definitions, right: Definitions) -> list[str]:
    """Return the parts that differ, without the places and the code of authors."""
    pairs = zip(left.datasets + left.featuresets, right.datasets + right.featuresets, strict=True)
    return [one for a, b in pairs for one in _different(bare(a), bare(b), a.name)]


def _different(left: Any, right: Any, path: str) -> Iterator[str]:
    if isinstance(left, dict) and isinstance(right, dict) and left.keys() == right.keys():
        for key in left:
            yield from _different(left[key], right[key], f"{path}.{key}")
    elif isinstance(left, tuple) and isinstance(right, tuple) and len(left) == len(right):
        for number, (a, b) in enumerate(zip(left, right, strict=True)):
            yield from _different(a, b, f"{path}.{number}")
    elif left != right or type(left) is not type(right):
        yield f"{path}: {left!r}, {right!r}"


def again(definitions: Definitions) -> Definitions:
    with tempfile.TemporaryDirectory() as directory:
        return declared(written_out(definitions), Path(directory))


@pytest.mark.slow
@given(projects(row_pipelines_of=0.5))
def test_written_datasets_declare_equal_ones(project: Project) -> None:
    definitions = without_ends(project.definitions)

    assert differences(again(definitions), definitions) == []


@pytest.mark.parametrize("name", ["flights", "orders", "phishing", "quality"])
def test_written_examples_declare_equal_definitions(name: str) -> None:
    definitions = without_ends(definitions_in(vars(example(name)).values()))
    found = again(definitions)

    assert differences(found, definitions) == []
    assert [one.source for one in codes_in(found.featuresets)] == [
        one.source for one in codes_in(definitions.featuresets)
    ]


def test_written_code_is_the_text_that_runs() -> None:
    definitions = shop_definitions()
    (buyer,) = definitions.featuresets

    assert dataset_code(definitions.datasets[2], definitions.datasets) == SPEND
    assert featureset_code(buyer) == BUYER
    assert [feature_code(buyer, name) for name in ("user", "spent", "is_busy")] == [
        "user: str\n",
        "spent: float = feature(Spend.spent, default=0.0)\n",
        'is_busy: bool = feature(col("orders_1h") > lit(2))\n',
    ]
    assert feature_code(buyer, "rank").splitlines()[-1] == (
        "    return pd.Series(spent / 100.0, name='rank')"
    )


def test_two_functions_of_one_name_get_two_names() -> None:
    one, other = (
        UserCode(entry="step", source=f"def step(df):\n    return df.a > {n}\n", python="3.11")
        for n in (1, 2)
    )
    terminal = Filter(Filter(DatasetRef("Orders"), one), other)
    shop = shop_definitions()
    spend = attrs.evolve(
        shop.datasets[2],
        pipelines=(attrs.evolve(shop.datasets[2].pipelines[0], terminal=terminal),),
    )

    text = dataset_code(spend, shop.datasets)

    assert "def step(df):\n    return df.a > 1\n" in text
    assert "def step_2(df):\n    return df.a > 2\n" in text
    assert ".filter(step)\n            .filter(step_2)" in text


@pytest.mark.parametrize(
    "text", ['a "quoted" end"', 'three """ quotes', "a \\ in it", "two\nlines", "{braces}"]
)
def test_any_description_is_a_docstring(text: str) -> None:
    definitions = without_ends(shop_definitions())
    said = attrs.evolve(definitions.datasets[0].metadata, description=text)
    of = attrs.evolve(
        definitions,
        datasets=(attrs.evolve(definitions.datasets[0], metadata=said),),
        featuresets=(),
    )

    assert again(of).datasets[0].metadata.description == text
