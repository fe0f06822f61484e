"""Raw rows are parsed: the order of the steps, author code, samples, envelopes."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Optional

import attrs
import pytest

from narthex._base.records import Json
from narthex._ir.code import UserCode
from narthex._ir.entities import Action, Expectation
from narthex._ir.facts import Cell
from narthex._ir.schema import Column
from narthex._runtime.ingest.row_parser import (
    BrokenSourceRow,
    FilteredRow,
    ParsedRow,
    RejectedRow,
    RekeyedRow,
    RowOutcome,
    RowParser,
)
from narthex._runtime.workers import WorkerPool
from narthex._sdk.datasets.datasets import dataset_entity
from narthex.connectors import Sample, Webhook, eval, ref, source  # noqa: A004
from narthex.datasets import Dataset, dataset, field
from narthex.errors import UserCodeError
from narthex.expr import col, lit

AT = "2024-01-01T00:00:00Z"
AT_US = 1_704_067_200_000_000
HOUR_US = 3_600_000_000


def _orders() -> Dataset:
    @dataset
    class Orders:
        uid: int
        kind: Optional[str]  # noqa: UP045
        at: datetime

    return Orders


def _users() -> Dataset:
    @dataset
    class Users:
        uid: int = field(key=True)
        name: str
        at: datetime

    return Users


def _row_parser(of: Dataset, *, cdc: str = "append", **options: Any) -> RowParser:
    made = source(Webhook("w").endpoint("e"), disorder="1h", cdc=cdc, **options)(of)
    entity = dataset_entity(made)
    return RowParser.of(entity.sources[0], entity.schema)


def _one(row_parser: RowParser, raw: Mapping[str, Json], **options: Any) -> RowOutcome:
    (found,) = row_parser.parse_rows([raw], now_us=[0], **options)
    if not row_parser.runs_code:
        assert row_parser.parse_row(raw, now_us=0) == found
    return found


def _cells(admission: RowOutcome) -> dict[str, Cell]:
    assert isinstance(admission, ParsedRow), admission
    return admission.cells


def _reasons(admission: RowOutcome) -> str:
    assert isinstance(admission, RejectedRow), admission
    return "; ".join(str(problem) for problem in admission.problems)


@attrs.define
class CountingCode:
    """Runs code as a function of columns; counts the calls."""

    function: Callable[[dict[str, list[Cell]]], Sequence[Cell]]
    calls: list[int] = attrs.field(factory=list)

    def compute_each(
        self,
        code: UserCode,
        *,
        inputs: Sequence[tuple[Column, Sequence[Cell]]],
        output: Column,
        title: str,
    ) -> "Sequence[Cell | UserCodeError]":
        """Call the function with all rows; if it fails, with each of them."""
        del code, output
        frame = {column.name: list(cells) for column, cells in inputs}
        self.calls.append(len(frame["uid"]))
        try:
            return self.function(frame)
        except (TypeError, ValueError):
            rows = range(len(frame["uid"]))
            return [self._one({name: [of[at]] for name, of in frame.items()}, title) for at in rows]

    def _one(self, frame: dict[str, list[Cell]], title: str) -> "Cell | UserCodeError":
        try:
            return self.function(frame)[0]
        except (TypeError, ValueError) as error:
            return UserCodeError(f"{title} failed: {error}")


def test_nested_references_lead_into_objects_and_give_null_where_they_end() -> None:
    row_parser = _row_parser(_orders(), preproc={"uid": ref("user[id]"), "kind": ref("user[a][b]")})

    found = _cells(_one(row_parser, {"user": {"id": 7, "a": {"b": "x"}}, "at": AT}))
    assert found == {"uid": 7, "kind": "x", "at": AT_US}
    assert _cells(_one(row_parser, {"user": {"id": 7}, "at": AT}))["kind"] is None
    assert _cells(_one(row_parser, {"user": {"id": 7, "a": 5}, "at": AT}))["kind"] is None
    assert "`uid`: found null" in _reasons(_one(row_parser, {"user": 7, "at": AT}))


def test_preproc_comes_before_where_and_where_before_the_type_check() -> None:
    row_parser = _row_parser(
        _orders(), preproc={"uid": eval(col("uid") + lit(1))}, where=eval(col("uid") > lit(1))
    )

    assert _cells(_one(row_parser, {"uid": 1, "at": AT}))["uid"] == 2
    assert isinstance(_one(row_parser, {"uid": 0, "at": "no instant"}), FilteredRow)
    assert "`at`" in _reasons(_one(row_parser, {"uid": 5, "at": "no instant"}))


def test_code_computes_fields_and_leaves_rows_out_many_at_a_time() -> None:
    row_parser = _row_parser(
        _orders(),
        preproc={"kind": eval(lambda df: df["raw"].str.upper(), schema={"raw": str})},
        where=lambda df: df["kind"] != "B",
    )
    raws: list[dict[str, Json]] = [
        {"uid": 1, "raw": "a", "at": AT},
        {"uid": 2, "raw": "b", "at": AT},
        {"uid": 3, "raw": None, "at": AT},
        {"uid": "x", "raw": "d", "at": AT},
    ]

    with WorkerPool(1) as pool:
        found = row_parser.parse_rows(raws, now_us=[0] * 4, runner=pool)

    assert row_parser.runs_code
    assert _cells(found[0]) == {"uid": 1, "kind": "A", "at": AT_US}
    assert isinstance(found[1], FilteredRow)
    assert "`raw`: found null" in _reasons(found[2])
    assert "`uid`" in _reasons(found[3])


def test_rows_for_which_code_fails_are_refused_and_others_pass() -> None:
    def whole(frame: dict[str, list[Cell]]) -> list[Cell]:
        return [str(10 // int(str(uid))) if uid is not None else None for uid in frame["uid"]]

    def failing(frame: dict[str, list[Cell]]) -> list[Cell]:
        if 0 in frame["uid"]:
            raise ValueError("division by zero")
        return whole(frame)

    runner = CountingCode(failing)
    row_parser = _row_parser(_orders(), preproc={"kind": eval(lambda df: df["uid"])})

    found = row_parser.parse_rows(
        [{"uid": uid, "at": AT} for uid in (1, 2, 0, 5)], now_us=[0] * 4, runner=runner
    )

    assert [_cells(found[at])["kind"] for at in (0, 1, 3)] == ["10", "5", "2"]
    assert _reasons(found[2]) == "`kind`: `preproc` of `kind` failed: division by zero"
    assert runner.calls == [4]


def test_null_from_code_where_the_field_has_none_is_a_reason() -> None:
    row_parser = _row_parser(_orders(), preproc={"uid": eval(lambda df: df["uid"])})

    found = _one(row_parser, {"uid": 1, "at": AT}, runner=CountingCode(lambda _: [None]))

    assert _reasons(found) == "`uid`: its preproc gives null"


def test_a_null_where_filters_the_row() -> None:
    row_parser = _row_parser(_orders(), where=lambda df: df["uid"] > 0)

    found = _one(row_parser, {"uid": 1, "at": AT}, runner=CountingCode(lambda _: [None]))

    assert isinstance(found, FilteredRow)


def test_code_needs_a_runner() -> None:
    row_parser = _row_parser(_orders(), where=lambda df: df["uid"] > 0)

    with pytest.raises(TypeError, match="no worker was given to run it"):
        row_parser.parse_row({"uid": 1, "at": AT}, now_us=0)


def test_a_sample_takes_the_same_rows_each_time_and_about_its_share() -> None:
    row_parser = _row_parser(_orders(), sample=Sample(0.25, using=["uid"]))
    raws: list[dict[str, Json]] = [{"uid": uid, "kind": str(uid), "at": AT} for uid in range(4000)]

    first = [isinstance(one, ParsedRow) for one in row_parser.parse_rows(raws, now_us=[0] * 4000)]
    again = [isinstance(row_parser.parse_row(raw, now_us=9), ParsedRow) for raw in reversed(raws)]

    assert first == again[::-1]
    assert 900 < sum(first) < 1100
    assert first[:12] == [
        row_parser.parse_row({"uid": uid, "kind": "other", "at": AT}, now_us=0) != FilteredRow()
        for uid in range(12)
    ]


def test_a_sample_of_one_takes_all_and_of_zero_none() -> None:
    rows: list[dict[str, Json]] = [{"uid": uid, "at": AT} for uid in range(50)]
    every = _row_parser(_orders(), sample=1.0).parse_rows(rows, now_us=[0] * 50)
    none = _row_parser(_orders(), sample=0.0).parse_rows(rows, now_us=[0] * 50)

    assert all(isinstance(one, ParsedRow) for one in every)
    assert none == [FilteredRow()] * 50


def test_a_row_that_is_wrong_is_refused_even_if_the_sample_does_not_want_it() -> None:
    row_parser = _row_parser(_orders(), sample=0.0)

    assert "`at`" in _reasons(_one(row_parser, {"uid": 1, "at": "x"}))


def _envelope(op: str, before: Json = None, after: Json = None, **more: Json) -> dict[str, Json]:
    return {"op": op, "before": before, "after": after, "ts_ms": AT_US // 1000 + 60_000, **more}


ANN: dict[str, Json] = {"uid": 1, "name": "ann", "at": AT}


@pytest.mark.parametrize("op", ["c", "r", "u"])
def test_an_envelope_that_writes_admits_the_row_after(op: str) -> None:
    row_parser = _row_parser(_users(), cdc="debezium")

    found = _one(row_parser, _envelope(op, after=ANN))

    assert found == ParsedRow(cells={"uid": 1, "name": "ann", "at": AT_US})


def test_a_delete_ends_the_row_when_it_was_written() -> None:
    row_parser = _row_parser(_users(), cdc="debezium")
    end = AT_US + 60_000_000

    ended = ParsedRow(cells={"uid": 1, "name": None, "at": end}, alive=False)
    assert _one(row_parser, _envelope("d", before=ANN)) == ended
    assert _one(row_parser, _envelope("d", before={"uid": 1})) == ended


def test_a_delete_is_never_before_the_rows_own_event_time() -> None:
    row_parser = _row_parser(_users(), cdc="debezium")
    late = {**ANN, "at": "2024-01-01T01:00:00Z"}

    found = _one(row_parser, _envelope("d", before=late))

    assert _cells(found)["at"] == AT_US + HOUR_US


def test_an_update_that_gives_another_key_ends_the_old_one() -> None:
    row_parser = _row_parser(_users(), cdc="debezium")

    moved = _one(row_parser, _envelope("u", before={"uid": 9}, after=ANN))
    same = _one(row_parser, _envelope("u", before={"uid": 1}, after=ANN))

    assert moved == RekeyedRow(
        ended=ParsedRow(cells={"uid": 9, "name": None, "at": AT_US}, alive=False),
        admitted=ParsedRow(cells={"uid": 1, "name": "ann", "at": AT_US}),
    )
    assert isinstance(same, ParsedRow)


def test_an_update_to_a_row_that_is_not_wanted_ends_it() -> None:
    row_parser = _row_parser(_users(), cdc="debezium", where=eval(col("name") != lit("bob")))
    bob = {**ANN, "name": "bob"}

    gone = _one(row_parser, _envelope("u", before=ANN, after=bob))

    assert gone == ParsedRow(cells={"uid": 1, "name": None, "at": AT_US}, alive=False)
    assert _one(row_parser, _envelope("c", after=bob)) == FilteredRow()
    assert isinstance(_one(row_parser, _envelope("d", before=bob)), ParsedRow)


def test_preproc_reaches_into_the_rows_of_an_envelope_and_the_envelope_itself() -> None:
    row_parser = _row_parser(
        _users(), cdc="debezium", preproc={"uid": ref("key[id]"), "at": ref("ts_ms")}
    )
    row: dict[str, Json] = {"key": {"id": 5}, "name": "eve"}

    written = _one(row_parser, _envelope("c", after=row))
    deleted = _one(row_parser, _envelope("d", before=row))

    end = AT_US + 60_000_000
    assert _cells(written) == {"uid": 5, "name": "eve", "at": end}
    assert deleted == ParsedRow(cells={"uid": 5, "name": None, "at": end}, alive=False)


def test_an_envelope_may_stand_in_a_payload_and_have_its_rows_as_text() -> None:
    row_parser = _row_parser(_users(), cdc="debezium")
    wrapped: dict[str, Json] = {"schema": {}, "payload": _envelope("c", after=ANN)}
    as_text = _envelope("c", after='{"uid": 1, "name": "ann", "at": "2024-01-01T00:00:00Z"}')

    assert _one(row_parser, wrapped) == _one(row_parser, as_text)
    assert isinstance(_one(row_parser, as_text), ParsedRow)


@pytest.mark.parametrize(
    ("envelope", "says"),
    [
        (_envelope("u"), "found op `u` without `after`"),
        (_envelope("d", after=ANN), "found op `d` without `before`"),
        (_envelope("t"), "a truncate names no rows"),
        (_envelope("x", after=ANN), "found op `x`"),
        (ANN, "found op `None`"),
        (_envelope("c", after=5), "expected the row"),
        (_envelope("c", after="{"), "text that is not JSON"),
        (_envelope("c", after={"uid": 1, "at": AT}), "`name`: found null"),
        ({"op": "d", "before": {"uid": 1}}, "a delete has an instant"),
        (_envelope("d", before={"name": "x"}), "`uid`: found null"),
    ],
)
def test_an_invalid_envelope_is_refused_with_its_reason(
    envelope: dict[str, Json], says: str
) -> None:
    row_parser = _row_parser(_users(), cdc="debezium")

    assert says in _reasons(_one(row_parser, envelope))


def test_other_messages_and_empty_records_contain_no_rows() -> None:
    row_parser = _row_parser(_users(), cdc="debezium")

    assert _one(row_parser, {"op": "m", "message": {}}) == FilteredRow()
    assert _one(row_parser, {}) == FilteredRow()


def test_code_sees_the_rows_of_envelopes() -> None:
    row_parser = _row_parser(
        _users(), cdc="debezium", preproc={"uid": eval(lambda df: df["id"], schema={"id": int})}
    )
    envelopes = [
        _envelope("c", after={"id": 1, "name": "a", "at": AT}),
        _envelope("d", before={"id": 2}),
    ]

    def ids(frame: dict[str, list[Cell]]) -> list[Cell]:
        return frame["id"]

    runner = CountingCode(ids)
    found = row_parser.parse_rows(envelopes, now_us=[0, 0], runner=runner)

    assert [_cells(one)["uid"] for one in found] == [1, 2]
    assert len(runner.calls) == 1


def test_a_sample_by_key_draws_deletes_as_it_draws_rows() -> None:
    row_parser = _row_parser(_users(), cdc="debezium", sample=0.5)
    raws = [_envelope("c", after={**ANN, "uid": uid}) for uid in range(40)]
    ends = [_envelope("d", before={"uid": uid}) for uid in range(40)]

    def drawn(rows: list[dict[str, Json]]) -> list[bool]:
        return [isinstance(one, ParsedRow) for one in row_parser.parse_rows(rows, now_us=[0] * 40)]

    assert drawn(raws) == drawn(ends)
    assert 0 < sum(drawn(raws)) < 40


NAMED = Expectation(
    kind="expect_column_values_to_not_be_null",
    arguments=(("column", "kind"),),
    action=Action.QUARANTINE,
)
LATE_IDS = Expectation(
    kind="expect_column_values_to_be_between",
    arguments=(("column", "uid"), ("max_value", 9)),
    action=Action.DROP,
)


def _enforcing(of: Dataset, *enforced: Expectation, cdc: str, **options: Any) -> RowParser:
    entity = dataset_entity(
        source(Webhook("w").endpoint("e"), disorder="1h", cdc=cdc, **options)(of)
    )
    return RowParser.of(entity.sources[0], entity.schema, enforced)


def test_a_row_is_judged_by_enforced_expectations_after_its_types() -> None:
    parser = _enforcing(_orders(), NAMED, LATE_IDS, cdc="append")

    def parsed(uid: Json, kind: Json) -> RowOutcome:
        return _one(parser, {"uid": uid, "kind": kind, "at": AT})

    assert isinstance(parsed(1, "a"), ParsedRow)
    assert parsed(1, None) == BrokenSourceRow(broken=(NAMED,))
    assert parsed(10, None) == BrokenSourceRow(broken=(NAMED, LATE_IDS))
    assert isinstance(parsed("ten", None), RejectedRow)
    text = b'{"uid": 10, "kind": "a", "at": "2024-01-01T00:00:00Z"}'
    assert parser.parse_json(text) == BrokenSourceRow(broken=(LATE_IDS,))


def test_a_row_that_the_source_leaves_out_is_not_judged() -> None:
    parser = _enforcing(
        _orders(), NAMED, cdc="append", since=datetime.fromisoformat("2024-06-01T00:00:00Z")
    )

    assert isinstance(_one(parser, {"uid": 1, "kind": None, "at": AT}), FilteredRow)


def test_a_delete_is_not_judged_and_an_update_that_breaks_an_expectation_ends_no_row() -> None:
    named = attrs.evolve(NAMED, arguments=(("column", "name"),), kind=LENGTH)
    parser = _enforcing(
        _users(), attrs.evolve(named, arguments=(*named.arguments, ("value", 2))), cdc="debezium"
    )
    row = {"uid": 1, "name": "abc", "at": AT}

    updated = _one(parser, {"op": "u", "before": {**row, "name": "ab"}, "after": row})
    deleted = _one(parser, {"op": "d", "before": row, "ts_ms": AT_US // 1000})

    assert isinstance(updated, BrokenSourceRow)
    assert isinstance(deleted, ParsedRow)
    assert not deleted.alive


LENGTH = "expect_column_value_lengths_to_equal"
