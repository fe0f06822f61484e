"""Commits cross the wire without loss."""

import enum
import types as python_types
import typing

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from narthex._base.records import from_plain, to_plain
from narthex._formats.wire import CommitPayload, commit_pb2, decode_commit, encode_commit
from narthex._formats.wire.values import ValueWriter, read_values
from narthex._ir import entities, expression_nodes, operators, windows
from narthex._ir.aggregate_specs import Sum
from narthex._ir.entities import Dataset, Definitions
from narthex._ir.expression_nodes import Call, Literal, Ref
from narthex._ir.operators import DatasetRef, Filter, Operator
from narthex._ir.types import Int
from narthex.errors import RecordNotUnderstood
from tests.cases import every

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.floats(allow_nan=False),
    st.text(),
    st.binary(),
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4).map(tuple))


@given(VALUES)
def test_any_value_comes_back_as_it_was(value: object) -> None:
    writer = ValueWriter()
    at = writer.write(value)

    found = read_values(writer.messages)[at]

    assert repr(found) == repr(value)


RECORDS: dict[str, object] = {
    name: cls
    for module in (entities, operators, windows, expression_nodes)
    for name, cls in vars(module).items()
    if isinstance(cls, type) and (attrs.has(cls) or issubclass(cls, enum.Enum))
}


def _strategy(annotation: object, depth: int) -> st.SearchStrategy[object]:
    """Return values of a record's field."""
    if isinstance(annotation, str | typing.ForwardRef):
        name = annotation if isinstance(annotation, str) else annotation.__forward_arg__
        return _named(name.strip("\"'"), depth)
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return st.sampled_from(list(annotation))
    if isinstance(annotation, type) and attrs.has(annotation):
        return _record(annotation, depth)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is tuple and arguments[-1] is Ellipsis:
        items = st.lists(_strategy(arguments[0], depth), max_size=2 if depth else 0)
        return items.map(tuple)
    if origin is tuple:
        return st.tuples(*(_strategy(argument, depth) for argument in arguments))
    if origin in {typing.Union, python_types.UnionType}:
        simple = [a for a in arguments if not (isinstance(a, type) and attrs.has(a))]
        chosen = arguments if depth else (simple or arguments[:1])
        return st.one_of([_strategy(argument, depth) for argument in chosen])
    return {
        int: st.integers(-(1 << 63), (1 << 63) - 1),
        float: st.floats(allow_nan=False),
        str: st.text(max_size=5),
        bytes: st.binary(max_size=5),
        bool: st.booleans(),
    }.get(annotation, st.none())  # type: ignore[call-overload, no-any-return]


def _named(name: str, depth: int) -> st.SearchStrategy[object]:
    if "LiteralValue" in name:
        return VALUES
    if name in {"Operator", '"Operator"'}:
        leaf = st.builds(DatasetRef, st.text(max_size=3))
        return leaf if not depth else st.one_of(leaf, _record(Filter, depth - 1))
    if name == "Node":
        leaf = st.builds(Ref, st.text(max_size=3))
        return leaf if not depth else st.one_of(leaf, _record(Call, depth - 1))
    return st.builds(Int)


def _record(cls: type, depth: int) -> st.SearchStrategy[object]:
    below = max(0, depth - 1)
    fields = {f.name: _strategy(f.type, below) for f in attrs.fields(cls)}
    return st.fixed_dictionaries(fields).map(lambda values: _make(cls, values))


def _make(cls: type, values: dict[str, object]) -> object:
    return cls(**values)


CLASSES = [cls for cls in RECORDS.values() if isinstance(cls, type) and attrs.has(cls)]


@every("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_record_comes_back_as_it_was(cls: type) -> None:
    @settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
    @given(_record(cls, 2))
    def check(value: object) -> None:
        writer = ValueWriter()
        at = writer.write(value)
        assert read_values(writer.messages)[at] == value
        assert from_plain(to_plain(value)) == value

    check()


def _deep(steps: int) -> Operator:
    found: Operator = DatasetRef("A")
    for number in range(steps):
        found = Filter(found, Call("gt", (Ref("a"), Literal(number, Int()))))
    return found


def test_pipelines_may_be_deeper_than_messages_nest(shop: Definitions) -> None:
    first = shop.datasets[-1]
    deep = attrs.evolve(first, pipelines=(attrs.evolve(first.pipelines[0], terminal=_deep(150)),))
    payload = CommitPayload(
        message="deep", definitions=Definitions(datasets=(deep,), featuresets=())
    )

    assert decode_commit(encode_commit(payload)) == payload


def test_a_commit_comes_back_as_it_was(shop: Definitions) -> None:
    payload = CommitPayload(
        message="a shop",
        definitions=shop,
        env="prod",
        preview=True,
        incremental=True,
        backfill=False,
        idempotency_key="k1",
        client_version="1",
    )

    body = encode_commit(payload)

    assert decode_commit(body) == payload
    assert encode_commit(decode_commit(body)) == body


def test_a_number_beyond_64_bits_is_refused() -> None:
    with pytest.raises(RecordNotUnderstood, match="64 bits"):
        ValueWriter().write(1 << 63)


def test_invalid_commit_bytes_are_refused() -> None:
    with pytest.raises(RecordNotUnderstood, match="is not a commit"):
        decode_commit(b"\xff\xff\xff")


def _message(**record: object) -> bytes:
    value = commit_pb2.Value(record=commit_pb2.Record(**record))  # type: ignore[arg-type]
    return _sent(commit_pb2.CommitRequest(values=[value], datasets=[0]))


def _sent(request: commit_pb2.CommitRequest) -> bytes:
    request.options.SetInParent()
    return request.SerializeToString()


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (_message(name="Nothing"), "`Nothing` is not a record"),
        (
            _sent(
                commit_pb2.CommitRequest(
                    values=[
                        commit_pb2.Value(integer=1),
                        commit_pb2.Value(
                            record=commit_pb2.Record(name="Int", fields=["x"], values=[0])
                        ),
                    ]
                )
            ),
            "`Int` has no field `x`",
        ),
        (_message(name="Ref", fields=["name"], values=[0]), "one that comes later"),
        (_message(name="Ref", fields=["name"]), "fields without values"),
        (_message(name="Ref"), "cannot be made"),
        (_message(name="Int"), "was sent in place of a dataset"),
        (_sent(commit_pb2.CommitRequest(values=[commit_pb2.Value()])), "has a kind that"),
        (commit_pb2.CommitRequest().SerializeToString(), "was cut"),
    ],
)
def test_a_commit_of_another_version_is_refused(body: bytes, says: str) -> None:
    with pytest.raises(RecordNotUnderstood, match=says):
        decode_commit(body)


def test_equal_scalars_are_written_once() -> None:
    writer = ValueWriter()
    writer.write((1, 1, True, 1.0, "1", "1"))

    assert len(writer.messages) == 5


def test_windows_survive_their_converters() -> None:
    spec = Sum(into="x", of="a", window=windows.Continuous("forever"))
    writer = ValueWriter()
    at = writer.write(spec)

    assert read_values(writer.messages)[at] == spec
    assert isinstance(Dataset, type)
