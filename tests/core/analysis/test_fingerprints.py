"""Equal meaning gives equal fingerprints, and nothing else does."""

import enum
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from narthex._analysis.fingerprints import fingerprint, operator_fingerprint, source_fingerprint
from narthex._base.canonical import (
    DecodedRecord,
    NotCanonicalError,
    decode,
    encode,
    identity_fields,
)
from narthex._base.origin import Origin
from narthex._base.records import Value
from narthex._compiler.blueprint import compile_blueprint
from narthex._ir.aggregate_specs import (
    Average,
    Count,
    Distinct,
    ExpDecaySum,
    FirstK,
    LastK,
    Max,
    Min,
    Quantile,
    Stddev,
    Sum,
)
from narthex._ir.code import Requirement, UserCode
from narthex._ir.entities import (
    Cdc,
    ColumnRef,
    Computed,
    Constant,
    Csv,
    Dataset,
    Definitions,
    Files,
    JsonLines,
    KafkaTopic,
    Parquet,
    SecretRef,
    Source,
    WebhookEndpoint,
    Where,
)
from narthex._ir.expression_nodes import Branch, Call, Case, Literal, Ref
from narthex._ir.operators import (
    Aggregate,
    Assign,
    AssignCode,
    Assignment,
    Change,
    Changelog,
    DatasetRef,
    Dedup,
    Drop,
    DropNull,
    Emit,
    Explode,
    Filter,
    First,
    Join,
    JoinHow,
    Latest,
    Operator,
    Rename,
    Select,
    Transform,
    Union,
)
from narthex._ir.schema import Column, Field, Metadata, Role, Schema
from narthex._ir.types import (
    Between,
    Bool,
    Bytes,
    Date,
    Datetime,
    Decimal,
    Embedding,
    Float,
    Int,
    List,
    Map,
    OneOf,
    Optional,
    Regex,
    Str,
    Struct,
    StructField,
)
from narthex._ir.windows import Continuous, Hopping, Session, Tumbling

VECTORS = Path(__file__).parents[1] / "vectors" / "fingerprints_v1.json"
Edited = Callable[[str, Callable[[Dataset], Dataset]], Definitions]

A = DatasetRef("A")
WINDOW = Continuous("1h")
CODE = UserCode(
    entry="f",
    source="f = (lambda df: df)",
    requires=(Requirement(distribution="pandas", version="2.3.3"),),
    python="3.11",
)
SCHEMA = Schema(
    (
        Field(name="k", type=Str(), role=Role.KEY, erase_key=True),
        Field(name="v", type=Optional(Int())),
        Field(name="at", type=Datetime(), role=Role.TIMESTAMP),
    )
)
KAFKA = KafkaTopic(
    name="orders",
    bootstrap_servers="kafka:9092",
    topic="orders",
    username=SecretRef("user"),
    password=SecretRef("password"),
)
SOURCE = Source(
    connector=KAFKA,
    disorder_us=3_600_000_000,
    cdc=Cdc.UPSERT,
    since_us=1,
    until_us=2,
    idleness_us=3,
    preproc=(
        ("k", ColumnRef("key")),
        ("v", Computed(Ref("raw"), (Column("raw", Int()),))),
        ("at", Constant(0)),
    ),
    where=Where(Ref("ok"), (Column("ok", Bool()),)),
)

TYPES: dict[str, Value] = {
    "int": Int(),
    "float": Float(),
    "bool": Bool(),
    "str": Str(),
    "bytes": Bytes(),
    "datetime": Datetime(),
    "date": Date(),
    "decimal": Decimal(2),
    "list": List(Optional(Int())),
    "map": Map(Str()),
    "embedding": Embedding(8),
    "struct": Struct("Point", (StructField("x", Float()), StructField("y", Float()))),
    "between": Between(Int(), 0, 10, strict_max=True),
    "oneof": OneOf(Str(), ("a", "b")),
    "regex": Regex("[a-z]+"),
}
EXPRESSIONS: dict[str, Value] = {
    "ref": Ref("a"),
    "literal int": Literal(1, Int()),
    "literal float": Literal(1.0, Float()),
    "literal bool": Literal(value=True, type=Bool()),
    "literal text": Literal("1", Str()),
    "literal bytes": Literal(b"1", Bytes()),
    "literal minus zero": Literal(-0.0, Float()),
    "literal zero": Literal(0.0, Float()),
    "literal nan": Literal(float("nan"), Float()),
    "literal big": Literal(-(2**63), Int()),
    "call": Call("add", (Ref("a"), Literal(1, Int())), (("mode", "x"),), Int()),
    "case": Case((Branch(Ref("ok"), Ref("a")),), Ref("b")),
}
OPERATORS: dict[str, Operator] = {
    "dataset": A,
    "filter": Filter(A, Ref("ok")),
    "filter code": Filter(A, CODE),
    "assign": Assign(A, (Assignment("n", Int(), Ref("a")),)),
    "assign code": AssignCode(A, Column("n", Int()), CODE),
    "select": Select(A, ("a",)),
    "drop": Drop(A, ("a",)),
    "rename": Rename(A, (("a", "b"),)),
    "dropnull": DropNull(A, ("a",)),
    "join": Join(A, DatasetRef("B"), JoinHow.LEFT, (("a", "k"),), None, 0, ("v",)),
    "join inner": Join(A, DatasetRef("B"), JoinHow.INNER, (("a", "k"),), 5, 7, ("v",)),
    "latest": Latest(A, ("k",)),
    "count": Aggregate(A, ("k",), (Count(into="n", window=WINDOW),)),
    "sum": Aggregate(A, ("k",), (Sum(into="n", window=WINDOW, of="a"),)),
    "average": Aggregate(A, ("k",), (Average(into="n", window=WINDOW, of="a"),)),
    "min": Aggregate(A, ("k",), (Min(into="n", window=WINDOW, of="a", default=1),)),
    "max": Aggregate(A, ("k",), (Max(into="n", window=WINDOW, of="a", default=1.0),)),
    "stddev": Aggregate(A, ("k",), (Stddev(into="n", window=Tumbling("1h"), of="a"),)),
    "last_k": Aggregate(
        A, ("k",), (LastK(into="n", window=Hopping("forever", "1h"), of="a", limit=2, dedup=True),)
    ),
    "transform": Transform(A, (Column("n", Int()),), CODE),
    "dedup": Dedup(A, ("a",)),
    "dedup tumbling": Dedup(A, ("a",), Tumbling("1h")),
    "dedup session": Dedup(A, ("a",), Session("1h")),
    "explode": Explode(A, ("a",)),
    "union": Union(A, DatasetRef("B")),
    "union reversed": Union(DatasetRef("B"), A),
    "union chain": Union(A, Drop(DatasetRef("B"), ("a",))),
    "changelog insert": Changelog(A, "a", Change.INSERT),
    "changelog delete": Changelog(A, "a", Change.DELETE),
    "first": First(A, ("k",)),
    "along": Aggregate(A, ("k",), (Count(into="n", window=WINDOW),), along="at"),
    "final": Aggregate(A, ("k",), (Count(into="n", window=WINDOW),), emit=Emit.FINAL),
    "windowed": Aggregate(A, ("k",), (), window=Session("1h")),
    "max error": Aggregate(
        A, ("k",), (Count(into="n", window=Continuous("1h", max_error="0.1%")),)
    ),
    "first_k": Aggregate(
        A,
        ("k",),
        (FirstK(into="n", window=WINDOW, of="a", limit=2, dedup=True, dropnull=False),),
    ),
    "distinct": Aggregate(A, ("k",), (Distinct(into="n", window=WINDOW, of="a", unordered=True),)),
    "quantile": Aggregate(A, ("k",), (Quantile(into="n", window=WINDOW, of="a", p=0.5),)),
    "exp_decay_sum": Aggregate(
        A, ("k",), (ExpDecaySum(into="n", window=WINDOW, of="a", half_life_us=1),)
    ),
    "chain": Latest(Filter(Rename(A, (("a", "b"),)), Ref("b")), ("k",)),
}
SOURCES: dict[str, Source] = {
    "kafka": SOURCE,
    "webhook": attrs.evolve(SOURCE, connector=WebhookEndpoint(webhook="w", endpoint="e")),
    "csv": attrs.evolve(
        SOURCE,
        bounded=True,
        connector=Files(name="f", path="a/*.csv", format=Csv(delimiter=";", headers=("a", "b"))),
    ),
    "parquet": attrs.evolve(SOURCE, connector=Files(name="f", path="a", format=Parquet())),
    "jsonl": attrs.evolve(SOURCE, connector=Files(name="f", path="a", format=JsonLines())),
}
INPUTS = {"A": fingerprint("a", None), "B": fingerprint("b", None)}


def _computed() -> dict[str, str]:
    found = {f"type {name}": fingerprint("type", one) for name, one in TYPES.items()}
    found |= {f"expr {name}": fingerprint("expr", one) for name, one in EXPRESSIONS.items()}
    found |= {
        f"op {name}": operator_fingerprint(one, INPUTS, ()) for name, one in OPERATORS.items()
    }
    found |= {f"source {name}": source_fingerprint(one, SCHEMA) for name, one in SOURCES.items()}
    return {name: one.hex() for name, one in found.items()}


def test_golden_vectors_do_not_change() -> None:
    assert _computed() == json.loads(VECTORS.read_text())


def test_no_two_specs_share_a_fingerprint() -> None:
    found = _computed()

    assert len(found) > 50
    assert len(set(found.values())) == len(found)


def _records(value: Value) -> Iterator[attrs.AttrsInstance]:
    if isinstance(value, tuple):
        for item in value:
            yield from _records(item)
    elif attrs.has(type(value)):
        yield value
        for field in attrs.fields(type(value)):
            yield from _records(getattr(value, field.name))


def _other(value: Value) -> Value:
    match value:
        case enum.Enum():
            return next(one for one in type(value) if one is not value)
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return value + "x"
        case bytes():
            return value + b"x"
        case tuple():
            return (*value, 1)
        case None:
            return 0
        case _:
            return None


def test_each_field_that_is_identity_changes_the_bytes_and_no_other_does() -> None:
    samples = [
        *TYPES.values(),
        *EXPRESSIONS.values(),
        *OPERATORS.values(),
        *SOURCES.values(),
        SCHEMA,
    ]
    mutants = 0
    for record in {type(one): one for one in _records(tuple(samples))}.values():
        identity = {name for _, name in identity_fields(type(record))}
        for field in attrs.fields(type(record)):
            mutant = _mutant(record, field.name)
            mutants += 1
            changed = encode(mutant) != encode(record)
            assert changed == (field.name in identity), f"{type(record).__name__}.{field.name}"
    assert mutants > 100


def _mutant(record: attrs.AttrsInstance, field: str) -> Value:
    """Build the record without its constructor, which would refuse some mutants."""
    mutant = object.__new__(type(record))
    for one in attrs.fields(type(record)):
        value = getattr(record, one.name)
        object.__setattr__(mutant, one.name, _other(value) if one.name == field else value)
    return mutant


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(alphabet="abcé€𝄞 \x00"),
    st.binary(),
    st.sampled_from(Role),
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4).map(tuple))


def _same(one: Value, other: Value) -> bool:
    return repr(one) == repr(other)


@given(VALUES)
def test_bytes_can_be_read_back(value: Value) -> None:
    assert _same(decode(encode(value)), value)


@given(VALUES, VALUES)
def test_two_values_share_bytes_only_if_they_are_one(one: Value, other: Value) -> None:
    assert (encode(one) == encode(other)) == _same(one, other)


def test_a_record_is_read_back_by_name() -> None:
    decoded = decode(encode(Column("a", Decimal(2))))

    scale = DecodedRecord("Decimal", (("scale", 2),))
    assert decoded == DecodedRecord("Column", (("name", "a"), ("type", scale)))


def test_text_that_is_not_nfc_is_refused() -> None:
    with pytest.raises(NotCanonicalError):
        encode("e\u0301")


def test_a_tag_separates_what_has_the_same_value() -> None:
    assert fingerprint("a", 1) != fingerprint("b", 1)


def _moved(value: Value) -> Value:
    """Return a value with every origin, owner and description changed."""
    if isinstance(value, tuple):
        return tuple(_moved(item) for item in value)
    if isinstance(value, Origin):
        return Origin(file="elsewhere.py", line=value.line + 100)
    if isinstance(value, Metadata):
        return attrs.evolve(value, owner="z@z.co", description="described differently", tags=("t",))
    if attrs.has(type(value)) and not isinstance(value, enum.Enum):
        fields = attrs.fields(type(value))
        return attrs.evolve(value, **{one.name: _moved(getattr(value, one.name)) for one in fields})
    return value


def _fingerprints(definitions: Definitions) -> dict[str, str]:
    return {
        path: asset.fingerprint.hex()
        for asset in compile_blueprint(definitions).assets
        for path in asset.paths
    }


def test_position_owner_and_order_do_not_change_a_fingerprint(shop: Definitions) -> None:
    moved = _moved(shop)
    assert isinstance(moved, Definitions)
    reversed_ = attrs.evolve(moved, datasets=tuple(reversed(moved.datasets)))

    assert _fingerprints(reversed_) == _fingerprints(shop)


def test_a_renamed_dataset_shares_everything(shop: Definitions) -> None:
    def renamed(value: Value) -> Value:
        if value == "Orders":
            return "Purchases"
        if isinstance(value, tuple):
            return tuple(renamed(item) for item in value)
        if attrs.has(type(value)) and not isinstance(value, enum.Enum):
            fields = attrs.fields(type(value))
            changes = {one.name: renamed(getattr(value, one.name)) for one in fields}
            return attrs.evolve(value, **changes)
        return value

    other = renamed(shop)
    assert isinstance(other, Definitions)

    assert set(_fingerprints(other).values()) == set(_fingerprints(shop).values())


def test_a_change_reaches_what_is_below_it_and_nothing_else(
    shop: Definitions, edited: Edited
) -> None:
    before = _fingerprints(shop)

    after = _fingerprints(edited("Users", lambda one: attrs.evolve(one, version=2)))

    changed = {path for path in before if before[path] != after[path]}
    assert changed == {path for path in before if _is_of(path, {"Users", "Enriched", "Spend"})}


def _is_of(path: str, names: set[str]) -> bool:
    kind, name, *rest = path.split("/")
    # The index of the left side contains orders, which did not change.
    return kind in {"dataset", "job"} and name in names and rest[-1] not in {"left", "left_feed"}


@pytest.mark.parametrize(
    "change",
    [
        {"every_us": 5},
        {"env": ("prod",)},
        {"connector": attrs.evolve(KAFKA, name="other", security_protocol="SASL_SSL")},
        {"preproc": tuple(reversed(SOURCE.preproc))},
    ],
)
def test_settings_that_change_no_row_are_not_in_the_fingerprint(change: dict[str, Value]) -> None:
    changed = attrs.evolve(SOURCE, **change)

    assert source_fingerprint(changed, SCHEMA) == source_fingerprint(SOURCE, SCHEMA)


@pytest.mark.parametrize(
    "change",
    [
        {"disorder_us": 5},
        {"cdc": Cdc.APPEND},
        {"since_us": 9},
        {"bounded": True},
        {"where": None},
        {"connector": attrs.evolve(KAFKA, topic="other")},
        {"connector": attrs.evolve(KAFKA, password=SecretRef("rotated"))},
    ],
)
def test_settings_that_change_rows_are_in_the_fingerprint(change: dict[str, Value]) -> None:
    changed = attrs.evolve(SOURCE, **change)

    assert source_fingerprint(changed, SCHEMA) != source_fingerprint(SOURCE, SCHEMA)


def test_code_is_each_byte_of_the_text_that_runs() -> None:
    other_text = attrs.evolve(CODE, source="# described differently\n" + CODE.source)
    composed, decomposed = (attrs.evolve(CODE, source=f"X = '{e}'\n") for e in ("é", "e\u0301"))
    described = attrs.evolve(CODE, written="# described differently\n" + CODE.source)
    other_library = attrs.evolve(CODE, requires=())

    assert encode(described) == encode(CODE)
    assert encode(other_text) != encode(CODE)
    assert encode(composed) != encode(decomposed)
    assert encode(other_library) != encode(CODE)
