"""Commits of Fennel's client are translated, or refused with every part that is not."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from narthex import expr
from narthex._analysis import check
from narthex._formats.wire import CommitPayload, encode_commit
from narthex._ir.aggregate_specs import Max, Sum
from narthex._ir.connections import SecretRef, SqlDatabase, Table, WebhookEndpoint
from narthex._ir.entities import Cdc, CodeExtractor, Index, LookupExtractor
from narthex._ir.operators import Aggregate, DatasetRef, Filter
from narthex._ir.types import Datetime, Optional
from narthex._ir.windows import Continuous
from narthex._sdk.closure import received
from narthex.compat.wire import read_commit
from narthex.compat.wire.commit_messages import CommitMessage
from narthex.compat.wire.expression_messages import ExpressionMessage
from narthex.compat.wire.expressions import expression_of
from narthex.compat.wire.fields import read_message
from narthex.connectors import MySQL, Postgres
from narthex.errors import DefinitionErrors, RecordNotUnderstood, TypeNotSupported
from tests.core.compat.messages import (
    add_dataset,
    add_feature,
    add_pipeline,
    add_step,
    add_webhook,
    new_commit,
    new_expression,
    shop,
)

HOUR_US = 3_600_000_000


def refusals(commit: Any, **given: Any) -> list[str]:
    with pytest.raises(DefinitionErrors) as found:
        read_commit(commit.SerializeToString(), **given)
    return [f"[{one.code}] {one.message}" for one in found.value.exceptions_flat()]


def test_datasets_pipelines_and_sources_are_translated() -> None:
    read = read_commit(shop().SerializeToString())

    orders, spend = read.definitions.datasets
    assert (read.message, orders.name, orders.version) == ("a shop", "Orders", 1)
    assert orders.schema.columns["due"] == Optional(Datetime())
    (source,) = orders.sources
    assert source.connector == WebhookEndpoint(webhook="shop", endpoint="orders")
    assert (source.cdc, source.disorder_us) == (Cdc.APPEND, HOUR_US)
    assert (spend.index, spend.history_us) == (Index(online=True, offline=True), None)
    (pipeline,) = spend.pipelines
    match pipeline.terminal:
        case Aggregate(input=Filter(input=DatasetRef(dataset="Orders")), by=("user",), specs=specs):
            assert specs == (Sum(into="total", window=Continuous(None), of="amount"),)
        case other:
            pytest.fail(str(other))


def test_the_translation_passes_the_checks_of_any_commit() -> None:
    definitions = read_commit(shop().SerializeToString()).definitions

    assert list(check(definitions)) == []
    assert received(definitions) == (definitions, [])


def test_code_is_resolved_to_text_that_contains_all_it_uses() -> None:
    definitions = read_commit(shop().SerializeToString()).definitions

    terminal = definitions.datasets[1].pipelines[0].terminal
    assert isinstance(terminal, Aggregate)
    assert isinstance(terminal.input, Filter)
    assert terminal.input.predicate.author_text == (
        "from __future__ import annotations\n"
        "import numpy as np\n"
        "\ndef zero():\n    return 0\n"
        "\ndef least(df):\n    return zero()\n"
        '\nentry = (lambda df: np.abs(df["amount"]) > least(df))\n'
    )


def test_an_extractor_looks_up_its_datasets_and_names_its_features() -> None:
    (user,) = read_commit(shop().SerializeToString()).definitions.featuresets

    lookup, code = user.extractors
    assert isinstance(lookup, LookupExtractor)
    assert (lookup.dataset, lookup.column, lookup.default) == ("Spend", "total", -1.5)
    assert isinstance(code, CodeExtractor)
    assert (code.inputs, code.outputs, code.datasets) == (("User.user",), ("label",), ("Spend",))
    assert code.code.author_text == (
        "from __future__ import annotations\n"
        "from narthex.lookups import reference\n"
        "import pandas as pd\n"
        "\nSpend = reference('Spend')\n"
        "\ndef label_of(cls, ts: pd.Series, user):\n"
        "    rows, found = Spend.lookup(ts, user=user)\n"
        "    return pd.Series(name=cls.label, data=list(found))\n"
        "\nclass cls:\n    label = 'label'\n"
    )


def test_functions_of_its_class_travel_with_an_extractor() -> None:
    commit = shop()
    commit.featuresets[0].code.text = (
        "@meta(owner='me@example.org')\n@featureset\nclass User:\n"
        "    user: str\n"
        "    @classmethod\n    def named(cls, found):\n"
        "        return pd.Series(name=cls.label, data=cls.plain(found.str))\n"
        "    @staticmethod\n    def plain(x):\n        return [math.sqrt(y) for y in x.tolist()]\n"
        "    @extractor\n    def other(cls, ts):\n        return None\n"
    )
    commit.extractors[1].code.text = "def label_of(me, ts, user):\n    return me.named(user)\n"

    (user,) = read_commit(commit.SerializeToString()).definitions.featuresets

    code = user.extractors[1]
    assert isinstance(code, CodeExtractor)
    assert code.code.author_text == (
        "from __future__ import annotations\n"
        "import pandas as pd\n"
        "import math\n"
        "\ndef label_of(me, ts, user):\n    return me.named(user)\n"
        "\nclass cls:\n    label = 'label'\n"
        "    @classmethod\n    def named(cls, found):\n"
        "        return pd.Series(name=cls.label, data=cls.plain(found.str))\n"
        "    @staticmethod\n    def plain(x):\n        return [math.sqrt(y) for y in x.tolist()]\n"
    )


def test_functions_of_a_datasets_class_travel_with_its_pipelines() -> None:
    commit = shop()
    commit.datasets[1].code.text = (
        "@dataset(index=True)\nclass Spend:\n    user: str = field(key=True)\n    total: float\n"
        "    @classmethod\n    def least(cls, df):\n        return df[cls.total]\n"
    )
    commit.steps[-2].filter.code.text = "lambda df: cls.least(df) > 0"

    terminal = read_commit(commit.SerializeToString()).definitions.datasets[1].pipelines[0].terminal

    assert isinstance(terminal, Aggregate)
    assert isinstance(terminal.input, Filter)
    assert terminal.input.predicate.author_text == (
        "from __future__ import annotations\n"
        "\nclass cls:\n    total = 'total'\n"
        "    @classmethod\n    def least(cls, df):\n        return df[cls.total]\n"
        "\nentry = (lambda df: cls.least(df) > 0)\n"
    )


@pytest.mark.parametrize("parse", [False, True])
def test_an_expectation_has_only_arguments_of_its_meaning(parse: bool) -> None:
    commit = shop()
    expected = commit.expectations.add(entity="Orders").expectations.add()
    expected.kind = "expect_column_values_to_be_between"
    arguments = {"column": "amount", "min_value": 1, "mostly": 0.9, "include_config": True}
    expected.arguments = json.dumps({**arguments, "parse_strings_as_datetimes": parse})

    if parse:
        assert "`parse_strings_as_datetimes`" in refusals(commit)[0]
        return
    (found,) = read_commit(commit.SerializeToString()).definitions.datasets[0].expectations
    assert (found.arguments, found.mostly) == ((("column", "amount"), ("min_value", 1)), 0.9)


def test_everything_that_cannot_be_translated_is_refused_together() -> None:
    commit = shop()
    commit.steps[-2].filter.code.text = "lambda df: df['amount'] > LEAST + other(df)"
    commit.steps[-1].window.operand = "kept"
    commit.steps[-1].ClearField("aggregate")
    add_webhook(commit, "Orders", "more").place.ClearField("webhook")
    commit.sources[-1].place.kinesis.SetInParent()
    commit.extractors[1].code.text = "def label_of(cls, ts, user):\n    return cls.helper(user)\n"

    found = refusals(commit)

    grouped = "pipeline `by_user` of `Spend`: it groups by a window"
    of, own = "in pipeline `by_user` of `Spend`", "extractor `label_of` of `User`"
    assert sorted(found) == [
        f"[NX703] `filter` {of} uses the name `LEAST`, which Fennel's client does not send",
        f"[NX703] `filter` {of} uses the name `other`, which Fennel's client does not send",
        f"[NX703] {own} uses the member `helper` of its class, which Fennel's client does not send",
        f"[NX811] {grouped}, and Fennel's client leaves out the aggregates of such a group",
        "[NX901] a connector of kinesis, sent by Fennel's client",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "import os\nos.system('true')",
        "__import__('os').system('true')",
        "lambda df: df\nlambda df: df",
        "class Code:\n    pass",
        "lambda df: (",
        "lambda df: df['\0']",
        "lambda df: " + "(" * 1_000,
        "def kept(df):\n    nonlocal missing\n    return missing",
        "lambda df: " + "-" * 100_000 + "1",
    ],
)
def test_code_that_is_not_one_function_is_refused(text: str) -> None:
    commit = shop()
    commit.steps[-2].filter.code.text = text

    (found,) = refusals(commit)

    assert found.startswith("[NX702] `filter` in pipeline `by_user` of `Spend`")


def test_decorators_are_left_out_and_nothing_runs(capsys: pytest.CaptureFixture[str]) -> None:
    commit = shop()
    commit.steps[
        -2
    ].filter.code.text = "@print('it ran')\ndef kept(df):\n    return df['amount'] > 0\n"

    definitions = read_commit(commit.SerializeToString()).definitions

    assert "it ran" not in str(definitions)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (lambda commit: setattr(commit.steps[-1].aggregate, "operand", "sums"), "missing step"),
        (lambda commit: setattr(commit.steps[-1].aggregate, "operand", "none"), "missing step"),
        (lambda commit: setattr(commit.steps[-1], "is_last", False), "0 of them the last"),
        (lambda commit: commit.steps[-2].ClearField("filter"), "is empty"),
        (lambda commit: setattr(commit.extractors[0], "kind", 9), "of kind 9"),
        (lambda commit: commit.datasets[0].schema.values.columns.add(name="x"), "has 0 values"),
    ],
)
def test_a_commit_that_does_not_fit_together_is_refused(
    edit: Callable[[Any], object], expected: str
) -> None:
    commit = shop()
    edit(commit)

    (found,) = refusals(commit)

    assert expected in found


def test_a_pipeline_of_too_many_steps_is_refused() -> None:
    commit = shop()
    for number in range(200):
        add_step(commit, "Spend", "by_user", f"more {number}").rows_of.dataset = "Orders"

    (found,) = refusals(commit)

    assert "has 203 steps" in found


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"\xff\xff\xff", "is not a commit of Fennel's client"),
        (b"\x0a\x02\x0a\xff", "is not a commit of Fennel's client"),
        (b"\xfa\x01\x00", "unknown field 31"),
        (b"\x0a\x00" * 200_001, "more than 200000 messages"),
    ],
)
def test_bytes_that_are_not_a_commit_are_refused(body: bytes, expected: str) -> None:
    with pytest.raises(RecordNotUnderstood, match=expected):
        read_message(CommitMessage, body)


def test_expressions_that_nest_too_deeply_are_refused() -> None:
    nested = new_expression()
    nested.ref.name = "a"
    for _ in range(60):
        outer = new_expression()
        outer.unary.operator = 1
        outer.unary.operand.CopyFrom(nested)
        nested = outer

    with pytest.raises(RecordNotUnderstood):
        read_message(ExpressionMessage, nested.SerializeToString())


def test_a_credential_in_clear_is_replaced_by_a_secret() -> None:
    commit = shop()
    source = add_webhook(commit, "Orders", "more")
    source.place.ClearField("webhook")
    source.cursor = "at"
    table = source.place.postgres
    table.table, table.database.name = "orders", "old"
    database = table.database.postgres
    database.host, database.database, database.port = "db.example.org", "shop", 5432
    database.username, database.password = "reader", "hunter2"

    read = read_commit(commit.SerializeToString())

    assert read.replaced == ("old/username", "old/password")
    assert read.definitions.datasets[0].sources[1].connector == Table(
        database=SqlDatabase(
            kind="postgres",
            name="old",
            host="db.example.org",
            port=5432,
            db_name="shop",
            username=SecretRef("old/username"),
            password=SecretRef("old/password"),
        ),
        table="orders",
        cursor="at",
    )
    stored = encode_commit(CommitPayload(message="", definitions=read.definitions))
    assert b"hunter2" not in stored


@pytest.mark.parametrize(("kind", "of"), [("postgres", Postgres), ("mysql", MySQL)])
def test_a_connection_by_name_stays_one(kind: str, of: Any) -> None:
    commit = shop()
    source = add_webhook(commit, "Orders", "more")
    source.place.ClearField("webhook")
    source.cursor = "at"
    table = getattr(source.place, kind)
    table.table, table.database.name = "orders", "old"
    table.database.reference.SetInParent()

    read = read_commit(commit.SerializeToString())

    assert read.replaced == ()
    sent = read.definitions.datasets[0].sources[1].connector
    assert sent == of.get("old").table("orders", cursor="at")


def test_a_history_other_than_the_clients_default_bounds_an_index() -> None:
    commit = shop()
    for dataset in commit.datasets:
        dataset.history.seconds = 86_400

    orders, spend = read_commit(commit.SerializeToString()).definitions.datasets

    assert (orders.history_us, spend.history_us) == (None, 24 * HOUR_US)


@pytest.mark.parametrize(
    ("of", "default", "expected"),
    [
        ("int", 3.0, 3),
        ("float", 3.5, 3.5),
        ("datetime", 1.5e15, 1_500_000_000_000_000),
        ("date", 19_000.0, 19_000),
        ("decimal 2", 1.25, 125),
    ],
)
def test_a_default_has_the_type_of_its_column(of: str, default: float, expected: object) -> None:
    commit = shop()
    commit.datasets[0].schema.values.columns.add(name="seen").type.CopyFrom(_type(of))
    spec = commit.steps[-1].aggregate.specs.add().max
    spec.of, spec.into, spec.default = "seen", "latest", default
    spec.window.forever.SetInParent()

    terminal = read_commit(commit.SerializeToString()).definitions.datasets[1].pipelines[0].terminal

    assert isinstance(terminal, Aggregate)
    last = terminal.specs[-1]
    assert last == Max(into="latest", window=Continuous(None), of="seen", default=expected)
    assert type(last.default) is type(expected)


def _type(of: str) -> Any:
    commit = new_commit()
    return add_feature(commit, "F", "f", of).type


def _expressed(build: Callable[[Any], object]) -> Any:
    message = new_expression()
    build(message)
    return expression_of(read_message(ExpressionMessage, message.SerializeToString()))


def _added(message: Any) -> None:
    message.binary.operator = 0
    message.binary.left.ref.name = "a"
    message.binary.right.literal.json = "1"
    message.binary.right.literal.type.int.SetInParent()


def _cased(message: Any) -> None:
    branch = message.case.branches.add()
    branch.when.isnull.operand.ref.name = "a"
    branch.then.literal.json = '"null"'
    branch.then.literal.type.str.SetInParent()


def _parted(message: Any) -> None:
    message.instant.operand.now.SetInParent()
    message.instant.function.part.unit = 3
    message.instant.function.part.timezone.name = "Asia/Tokyo"


def _filtered(message: Any) -> None:
    message.list.operand.ref.name = "a"
    bound = message.list.function.filter
    bound.variable = "x"
    _added(bound.body)
    bound.body.binary.operator = 8
    bound.body.binary.left.ClearField("ref")
    bound.body.binary.left.var.name = "x"


def _looked_up(message: Any) -> None:
    message.dict.operand.ref.name = "a"
    message.dict.function.get.key.ref.name = "k"
    message.dict.function.get.default.literal.json = "0"
    message.dict.function.get.default.literal.type.int.SetInParent()


def _rounded(message: Any) -> None:
    message.number.operand.ref.name = "a"
    message.number.function.round.precision = 2


def _parsed(message: Any) -> None:
    message.text.operand.ref.name = "a"
    message.text.function.strptime.format = "%Y-%m-%d"


def _clock(message: Any) -> None:
    clock = message.instant_literal
    clock.year, clock.month, clock.day = 2026, 3, 1


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (_added, expr.col("a") + 1),
        (_cased, expr.when(expr.col("a").isnull()).then("null")),
        (_parted, expr.now().dt.parts("hour", timezone="Asia/Tokyo")),
        (_filtered, expr.col("a").list.filter("x", expr.var("x") > 1)),
        (_looked_up, expr.col("a").dict.get(expr.col("k"), 0)),
        (_rounded, expr.col("a").round(2)),
        (_parsed, expr.col("a").str.strptime("%Y-%m-%d")),
        (_clock, expr.datetime(2026, 3, 1)),
    ],
    ids=lambda one: str(one) if isinstance(one, expr.Expr) else "",
)
def test_an_expression_is_the_one_that_our_builders_make(
    build: Callable[[Any], object], expected: expr.Expr
) -> None:
    assert _expressed(build) == expected.node


def test_an_incremental_commit_reads_deployed_datasets() -> None:
    whole = shop()
    deployed = read_commit(whole.SerializeToString()).definitions
    added = new_commit()
    add_dataset(added, "Joined", user="str", total="optional float")
    add_pipeline(added, "Joined", "joined", "Orders", "Spend")
    join = add_step(added, "Joined", "joined", "join", last=True).join
    join.left, join.right, join.on["user"] = "Orders", "Spend", "user"

    (joined,) = read_commit(added.SerializeToString(), deployed=deployed).definitions.datasets

    assert joined.pipelines[0].terminal.fields == ("total",)
    assert "neither in the commit nor deployed" in refusals(added)[0]


def test_a_constant_of_another_type_is_refused() -> None:
    message = new_expression()
    message.literal.json = '"a"'
    message.literal.type.int.SetInParent()

    with pytest.raises(TypeNotSupported, match="a constant is not of type `int`"):
        expression_of(read_message(ExpressionMessage, message.SerializeToString()))
