"""A pipeline's steps on facts, one by one, as jobs without state run them."""

import attrs
import pytest

from narthex._ir.assets import LogShape, LogSpec, PipelineInput, PipelineJobSpec, Trigger
from narthex._ir.code import UserCode
from narthex._ir.expression_nodes import Call, Literal, Ref
from narthex._ir.facts import Cell, Fact, RowId, Version
from narthex._ir.operators import (
    AssignCode,
    DatasetRef,
    Drop,
    Explode,
    Filter,
    Join,
    JoinHow,
    Latest,
    Operator,
    Rename,
)
from narthex._ir.schema import Column, Field, Role, Schema
from narthex._ir.types import Datetime, Int, Str
from narthex._runtime.steps import FailedRow, StatelessPlan, StepContext
from narthex._runtime.steps.stateless import StepNeedsStateError
from narthex._testing.in_process import InProcessCalls
from narthex.errors import UserCodeError

CLICKS = Schema(
    (
        Field(name="who", type=Str()),
        Field(name="n", type=Int()),
        Field(name="at", type=Datetime(), role=Role.TIMESTAMP),
    )
)
LOG = LogSpec(shape=LogShape.ROWS, keys=(), values=CLICKS.values, time_field="at")
STREAM = PipelineInput(dataset="Clicks", log=LOG, schema=CLICKS)
PEOPLE = Schema(
    (
        Field(name="who", type=Str(), role=Role.KEY),
        Field(name="city", type=Str()),
        Field(name="since", type=Datetime(), role=Role.TIMESTAMP),
    )
)
PEOPLE_LOG = LogSpec(
    shape=LogShape.KEYED, keys=PEOPLE.keys, values=PEOPLE.values, time_field="since"
)
RIGHT = PipelineInput(dataset="People", log=PEOPLE_LOG, schema=PEOPLE, correctable=True)
BY_CITY = LogSpec(
    shape=LogShape.CONTRIBUTIONS,
    keys=(Column("city", Str()),),
    values=(Column("n", Int()),),
    time_field="at",
)
BIG = Call("gt", (Ref("n"), Literal(1, Int())))


def code(text: str) -> UserCode:
    source = f"def step(df):\n    return {text}\n"
    return UserCode(entry="step", source=source, python="3.11")


def click(number: int, who: str | None, n: int | None, *, alive: bool = True) -> Fact:
    return Fact(
        row_id=RowId(bytes([number])),
        version=Version(bytes([number])),
        event_time=number,
        key=(),
        values=(who, n),
        alive=alive,
    )


def person(number: int, who: str, city: str | None) -> Fact:
    return Fact(
        row_id=RowId(bytes([number])),
        version=Version(bytes([number])),
        event_time=number,
        key=(who,),
        values=(city,),
        alive=city is not None,
    )


@attrs.frozen
class FixedRows:
    """A right row."""

    values: tuple[Cell, ...]
    event_time: int = 0


def no_lookup(*_: object) -> list[None]:
    raise AssertionError("the pipeline has no join")


def plan_of(operators: Operator, stream: PipelineInput, log: LogSpec) -> StatelessPlan:
    spec = PipelineJobSpec(
        dataset="Out",
        pipeline="p",
        operators=operators,
        inputs=(stream, RIGHT),
        schema=CLICKS,
        log=log,
        trigger=Trigger.STAGE,
        reason="test",
    )
    return StatelessPlan.of(spec, StepContext(calls=InProcessCalls(), title="`Out.p`"))


RAISED = AssignCode(DatasetRef("Clicks"), Column("n", Int()), code('df["n"] + 1'))


def test_code_may_overwrite_the_column_that_it_reads() -> None:
    stream = attrs.evolve(STREAM, correctable=True)

    found = plan_of(RAISED, stream, LOG).run(
        [click(1, "ann", 1), click(2, "", 0, alive=False)], lookup=no_lookup
    )

    assert found == [click(1, "ann", 2), click(2, None, None, alive=False)]


def test_a_row_that_does_not_pass_ends_an_earlier_state_if_there_may_be_one() -> None:
    few = Filter(DatasetRef("Clicks"), BIG)
    facts = [click(1, "ann", 1), click(2, "bob", 2)]

    final = plan_of(few, STREAM, LOG).run(facts, lookup=no_lookup)
    corrected = plan_of(few, attrs.evolve(STREAM, correctable=True), LOG).run(
        facts, lookup=no_lookup
    )

    assert final == [click(2, "bob", 2)]
    assert corrected == [click(1, None, None, alive=False), click(2, "bob", 2)]


def test_a_row_on_which_code_raises_ends_an_earlier_state_and_is_set_apart() -> None:
    failed: list[FailedRow] = []
    shared = AssignCode(
        DatasetRef("Clicks"), Column("n", Int()), code('df["n"].map(lambda n: 6 // n)')
    )
    plan = plan_of(shared, attrs.evolve(STREAM, correctable=True), LOG)
    context = attrs.evolve(plan.context, set_apart=failed.extend)

    found = attrs.evolve(plan, context=context).run(
        [click(7, "ann", 2), click(8, "bob", 0), click(9, "cy", 3)], lookup=no_lookup
    )

    assert found == [click(7, "ann", 3), click(8, None, None, alive=False), click(9, "cy", 2)]
    (row,) = failed
    assert (row.row_id, row.event_time, row.together) == (b"\x08", 8, 1)
    assert row.cells["who"] == "bob"
    assert "ZeroDivisionError" in row.error.message


def test_without_a_place_for_failed_rows_the_error_is_raised() -> None:
    shared = AssignCode(
        DatasetRef("Clicks"), Column("n", Int()), code('df["n"].map(lambda n: 6 // n)')
    )

    with pytest.raises(UserCodeError, match="ZeroDivisionError"):
        plan_of(shared, STREAM, LOG).run([click(8, "bob", 0)], lookup=no_lookup)


def test_two_states_of_a_row_in_one_batch_are_two_facts() -> None:
    stream = attrs.evolve(STREAM, correctable=True)
    newer = attrs.evolve(click(1, "ann", 7), version=Version(b"\x09"))

    found = plan_of(RAISED, stream, LOG).run([click(1, "ann", 1), newer], lookup=no_lookup)

    assert [(fact.row_id, fact.version, fact.values[1]) for fact in found] == [
        (b"\x01", b"\x01", 2),
        (b"\x01", b"\x09", 8),
    ]


def test_a_keyed_row_that_does_not_pass_is_an_absence_of_its_key() -> None:
    paris = Call("eq", (Ref("town"), Literal("Paris", Str())))
    operators = Filter(Rename(DatasetRef("People"), (("city", "town"), ("who", "name"))), paris)
    log = attrs.evolve(PEOPLE_LOG, keys=(Column("name", Str()),), values=(Column("town", Str()),))
    facts = [person(1, "ann", "Paris"), person(2, "ann", "Rome"), person(3, "bob", None)]

    found = plan_of(operators, RIGHT, log).run(facts, lookup=no_lookup)

    assert found == [facts[0], person(2, "ann", None), facts[2]]


def test_the_latest_row_has_the_identity_of_its_group() -> None:
    log = attrs.evolve(
        PEOPLE_LOG, keys=(Column("who", Str()),), values=(Column("n", Int()),), time_field="at"
    )
    facts = [click(1, "ann", 1), attrs.evolve(click(2, "ann", 2), event_time=1)]

    found = plan_of(Latest(RAISED, ("who",)), STREAM, log).run(facts, lookup=no_lookup)

    assert found[0].row_id == found[1].row_id
    assert found[0].version < found[1].version
    assert [(fact.key, fact.values) for fact in found] == [(("ann",), (2,)), (("ann",), (3,))]


def joined(how: JoinHow) -> Join:
    on = (("who", "who"),)
    return Join(DatasetRef("Clicks"), DatasetRef("People"), how, on, 5, 1, ("city", "since"))


def test_a_join_looks_up_the_right_row_of_each_left_row() -> None:
    asked: list[object] = []

    def lookup(*arguments: object) -> list[FixedRows | None]:
        asked.extend(arguments)
        return [FixedRows(("Oslo",), 8), None]

    log = attrs.evolve(LOG, values=(*LOG.values, Column("city", Str()), Column("since", Int())))
    found = plan_of(joined(JoinHow.LEFT), STREAM, log).run(
        [click(9, "ann", 1), click(7, "bob", 2)], lookup=lookup, version_suffix=b"!"
    )

    assert asked == ["People", [("ann",), ("bob",)], [10, 8], [4, 2]]
    assert [fact.values for fact in found] == [("ann", 1, "Oslo", 8), ("bob", 2, None, None)]
    assert [fact.version for fact in found] == [b"\x09!", b"\x07!"]


def test_a_contribution_to_a_group_of_the_right_side_ends_when_its_right_row_does() -> None:
    plan = plan_of(Drop(joined(JoinHow.INNER), ("since",)), STREAM, BY_CITY)
    facts = [click(9, "ann", 1)]

    before = plan.run(facts, lookup=lambda *_: [FixedRows(("Oslo",))], version_suffix=b"1")
    after = plan.run(facts, lookup=lambda *_: [None], version_suffix=b"2")

    assert [(fact.key, fact.values, fact.alive) for fact in before] == [(("Oslo",), (1,), True)]
    # The row id alone identifies it; its key only has to be one that the log can hold.
    assert [(fact.key, fact.values, fact.alive) for fact in after] == [(("",), (None,), False)]
    assert after[0].row_id == before[0].row_id
    assert after[0].version > before[0].version


def test_a_step_that_needs_other_rows_is_refused() -> None:
    with pytest.raises(StepNeedsStateError, match="explode"):
        plan_of(Explode(DatasetRef("Clicks"), ("n",)), STREAM, LOG)
