"""A pipeline's steps on single rows in Python, as stages run them, without Spark and a broker."""

from narthex._ir.assets import LogShape, LogSpec, PipelineInput
from narthex._ir.code import UserCode
from narthex._ir.facts import Fact, RowId, Version
from narthex._ir.operators import AssignCode, DatasetRef, Operator
from narthex._ir.schema import Column, Field, Role, Schema
from narthex._ir.types import Datetime, Int, Str
from narthex._testing.in_process import InProcessCalls
from narthex_spark_apps.pipelines.python_plan import RowPlan

CLICKS = Schema(
    (
        Field(name="who", type=Str()),
        Field(name="n", type=Int()),
        Field(name="at", type=Datetime(), role=Role.TIMESTAMP),
    )
)
LOG = LogSpec(shape=LogShape.ROWS, keys=(), values=CLICKS.values, time_field="at")
STREAM = PipelineInput(dataset="Clicks", log=LOG, schema=CLICKS, correctable=True)


def code(text: str) -> UserCode:
    source = f"def step(df):\n    return {text}\n"
    return UserCode(entry="step", source=source, tree=source.encode(), python="3.11")


def click(number: int, who: str | None, n: int | None, *, alive: bool = True) -> Fact:
    return Fact(
        row_id=RowId(bytes([number])),
        version=Version(bytes([number])),
        event_time=number,
        key=(),
        values=(who, n),
        alive=alive,
    )


def made(operators: Operator, facts: list[Fact], log: LogSpec = LOG) -> list[Fact]:
    plan = RowPlan(operators=operators, stream=STREAM, rights={}, log=log, workers=InProcessCalls())
    return plan.run(facts, lookup=lambda *_: [], version_suffix=b"")


def test_code_may_overwrite_the_column_that_it_reads() -> None:
    raised = AssignCode(DatasetRef("Clicks"), Column("n", Int()), code('df["n"] + 1'))
    gone = click(3, None, None, alive=False)

    found = made(raised, [click(1, "ann", 1), click(2, "bob", 5), gone])

    assert found == [click(1, "ann", 2), click(2, "bob", 6), gone]
