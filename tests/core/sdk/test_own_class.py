"""Captured code contains the parts of its own class that it uses, and no others."""

import textwrap
import warnings
from pathlib import Path

import pyarrow as pa
import pytest

from narthex._analysis.tolerance import ToleratedWarning, tolerant
from narthex._ir.code import UserCode
from narthex._ir.entities import CodeExtractor
from narthex._ir.operators import AssignCode, Filter
from narthex._ir.schema import Column
from narthex._ir.types import Int
from narthex._sdk.closure import verify
from narthex._testing.in_process import InProcessCalls
from narthex.cli.projects.author_files import AuthorFile, load_file
from narthex.errors import CodeForbidden

HEAD = """
from datetime import datetime
from narthex.datasets import dataset, pipeline, field
from narthex.featuresets import featureset, extractor
from narthex.lib import inputs, outputs
import numpy as np

__owner__ = "a@b.co"
FACTOR = 3

@dataset
class Orders:
    uid: int
    amount: int
    at: datetime
"""


def _load(tmp_path: Path, body: str) -> AuthorFile:
    file = tmp_path / f"own_{len(list(tmp_path.iterdir()))}.py"
    file.write_text(HEAD + textwrap.dedent(body), encoding="utf-8")
    return load_file(file)


def _predicate(file: AuthorFile) -> UserCode:
    (pipeline,) = file.definitions().datasets[1].pipelines
    assert isinstance(pipeline.terminal, Filter)
    assert isinstance(pipeline.terminal.predicate, UserCode)
    return pipeline.terminal.predicate


def _extractor(file: AuthorFile) -> CodeExtractor:
    (found,) = file.definitions().featuresets[0].extractors
    assert isinstance(found, CodeExtractor)
    return found


PIPELINE = """
@dataset
class Big:
    uid: int
    amount: int
    at: datetime

    @pipeline
    @inputs(Orders)
    def big(cls, orders):
        return orders.filter(lambda df: cls.scaled(df[str(cls.amount)]) > 10)

    @classmethod
    def scaled(cls, column):
        return cls.times(column) + 0

    @staticmethod
    def times(column):
        return column * FACTOR

    def unused(self):
        return open
"""


def test_a_pipelines_code_carries_the_fields_and_functions_that_it_uses(tmp_path: Path) -> None:
    code = _predicate(_load(tmp_path, PIPELINE))
    table = pa.table({"uid": [1, 2], "amount": [3, 4]})

    kept = InProcessCalls().filter(code, table, title="it")

    assert kept.to_pylist() == [False, True]
    assert "FACTOR = 3" in code.source
    assert "unused" not in code.source
    assert "uid" not in code.source


def test_unused_members_of_the_class_do_not_change_the_code(tmp_path: Path) -> None:
    before = _predicate(_load(tmp_path, PIPELINE)).source

    added = PIPELINE.replace("    at: datetime\n", "    at: datetime\n    note: str\n", 1)
    assert _predicate(_load(tmp_path, added.replace("return open", "return 1"))).source == before
    assert _predicate(_load(tmp_path, PIPELINE.replace("+ 0", "+ 1"))).source != before


FEATURESET = """
@featureset
class Scores:
    uid: int
    score: int

    @extractor
    @inputs("uid")
    @outputs("score")
    def extract(cls, ts, uid):
        return (uid * cls.factor()).rename(str(cls.score))

    @classmethod
    def factor(cls):
        return FACTOR
"""


def test_an_extractor_is_given_what_it_uses_of_its_class(tmp_path: Path) -> None:
    extractor = _extractor(_load(tmp_path, FEATURESET))

    made = InProcessCalls().extract(
        extractor.code,
        name="extract",
        instants=[0],
        inputs=[(Column("uid", Int()), [7])],
        outputs=[Column("score", Int())],
    )

    assert made == [[21]]


def test_an_unknown_name_of_the_class_is_reported(tmp_path: Path) -> None:
    file = _load(tmp_path, FEATURESET.replace("cls.factor()", "cls.faktor()"))

    (error,) = file.errors
    assert "reaches `cls.faktor`, which is neither a field nor a function there" in error.message


RANDOM = PIPELINE.replace("column * FACTOR", "column * np.random.rand()")


def test_code_that_draws_at_random_is_refused(tmp_path: Path) -> None:
    (error,) = _load(tmp_path, RANDOM).errors

    assert isinstance(error, CodeForbidden)


def test_with_tolerance_nondeterministic_code_is_a_warning_but_files_are_refused(
    tmp_path: Path,
) -> None:
    with (
        tolerant(),
        pytest.warns(ToleratedWarning, match=r"numpy.random.rand.*the platform refuses"),
    ):
        code = _predicate(_load(tmp_path, RANDOM))
    with tolerant():
        (error,) = _load(tmp_path, RANDOM.replace("np.random.rand()", "len(open('f'))")).errors

    assert isinstance(error, CodeForbidden)
    assert [type(found) for found in verify(code)] == [CodeForbidden]
    with tolerant(), warnings.catch_warnings(action="ignore"):
        assert verify(code) == ()


STRUCTS = """
from typing import List, Optional
from narthex.dtypes import struct

def shaped():
    @struct
    class Place:
        name: str
        size: Optional[int]

    @dataset
    class Placed:
        uid: int
        amount: int
        at: datetime
        places: List[Place]

        @pipeline
        @inputs(Orders)
        def made(cls, orders):
            def of(amount):
                return [Place("here", size=int(amount))]

            return orders.assign("places", List[Place], lambda df: df["amount"].apply(of))

    return Placed

Placed = shaped()
"""


def test_a_struct_of_a_function_is_made_by_code_that_travels(tmp_path: Path) -> None:
    (pipeline,) = _load(tmp_path, STRUCTS).definitions().datasets[1].pipelines
    step = pipeline.terminal
    assert isinstance(step, AssignCode)

    made = InProcessCalls().assign(
        step.code, pa.table({"amount": [3]}), step.column, title="`assign`"
    )

    assert made.to_pylist() == [[{"name": "here", "size": 3}]]
