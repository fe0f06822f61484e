"""Builds messages as Fennel's client sends them, from the tables by which they are read.

`tests/acceptance/test_8_fennel_client.py` has the client itself send them.
"""

from typing import Any

from narthex.compat.wire.commit_messages import CommitMessage
from narthex.compat.wire.expression_messages import ExpressionMessage
from narthex.compat.wire.fields import message_class

PLAIN = {"int", "float", "str", "bool", "datetime", "date", "bytes"}


def new_commit() -> Any:
    """Return an empty commit, to which the functions below add entities."""
    return message_class(CommitMessage)()


def new_expression() -> Any:
    return message_class(ExpressionMessage)()


def set_type(message: Any, name: str) -> None:
    """Set a type by its name, such as `int` or `optional int`."""
    head, _, rest = name.partition(" ")
    if head in PLAIN:
        getattr(message, head).SetInParent()
    elif head == "decimal":
        message.decimal.scale = int(rest)
    else:
        set_type(getattr(message, head).of, rest)


def add_dataset(
    commit: Any, name: str, *, at: str = "at", index: bool = False, **fields: str
) -> Any:
    """Add a dataset; the types of its keys begin with `key`."""
    dataset = commit.datasets.add(name=name, version=1)
    dataset.metadata.owner = "me@example.org"
    dataset.history.seconds = 2 * 365 * 86_400
    dataset.schema.timestamp = at
    for field, of in fields.items():
        is_key = of.startswith("key ")
        columns = dataset.schema.keys if is_key else dataset.schema.values
        column = columns.columns.add(name=field)
        set_type(column.type, of.removeprefix("key "))
    if index:
        commit.online_indexes.add(dataset=name)
        commit.offline_indexes.add(dataset=name)
    return dataset


def add_webhook(commit: Any, dataset: str, endpoint: str, *, cdc: int = 0) -> Any:
    source = commit.sources.add(dataset=dataset, version=1, cdc=cdc)
    source.place.webhook.database.name = "shop"
    source.place.webhook.database.webhook.name = "shop"
    source.place.webhook.endpoint = endpoint
    source.disorder.seconds = 3600
    return source


def add_pipeline(commit: Any, dataset: str, name: str, *inputs: str) -> Any:
    pipeline = commit.pipelines.add(dataset=dataset, name=name, version=1, inputs=inputs)
    for read in inputs:
        add_step(commit, dataset, name, read).rows_of.dataset = read
    return pipeline


def add_step(commit: Any, dataset: str, pipeline: str, number: str, *, last: bool = False) -> Any:
    return commit.steps.add(id=number, is_last=last, pipeline=pipeline, dataset=dataset, version=1)


def add_feature(commit: Any, featureset: str, name: str, of: str) -> Any:
    feature = commit.features.add(featureset=featureset, name=name)
    set_type(feature.type, of)
    return feature


def shop() -> Any:
    """A commit of orders, their sums by user, and features of them."""
    commit = new_commit()
    commit.message = "a shop"
    add_dataset(commit, "Orders", user="str", amount="float", due="optional datetime")
    add_webhook(commit, "Orders", "orders")
    add_dataset(commit, "Spend", index=True, user="key str", total="float")
    pipeline = add_pipeline(commit, "Spend", "by_user", "Orders")
    kept = add_step(commit, "Spend", "by_user", "kept").filter
    kept.operand, kept.code.entry_point = "Orders", "<lambda>"
    kept.code.text = 'lambda df: np.abs(df["amount"]) > least(df)'
    least = pipeline.code.includes.add(entry_point="least")
    least.text = "@includes(zero)\ndef least(df):\n    return zero()\n"
    least.includes.add(entry_point="zero", text="def zero():\n    return 0\n")
    sums = add_step(commit, "Spend", "by_user", "sums", last=True).aggregate
    sums.operand, sums.keys[:] = "kept", ["user"]
    spec = sums.specs.add().sum
    spec.of, spec.into = "amount", "total"
    spec.window.forever.SetInParent()
    add_features(commit)
    return commit


def add_features(commit: Any) -> None:
    featureset = commit.featuresets.add(name="User")
    featureset.metadata.owner = "me@example.org"
    for name, of in (("user", "str"), ("total", "float"), ("label", "str")):
        add_feature(commit, "User", name, of)
    looked_up = commit.extractors.add(name="_fennel_lookup_Spend.total", featureset="User", kind=1)
    looked_up.datasets.append("Spend")
    looked_up.features.append("total")
    looked_up.lookup.field.name, looked_up.lookup.default = "total", "-1.5"
    labelled = commit.extractors.add(name="label_of", featureset="User", kind=0)
    labelled.features.append("label")
    labelled.datasets.append("Spend")
    labelled.inputs.add().feature.featureset = "User"
    labelled.inputs[0].feature.name = "user"
    labelled.code.text = (
        '@extractor(deps=[Spend])\n@inputs("user")\n@outputs("label")\n'
        "def label_of(cls, ts: pd.Series, user):\n"
        "    rows, found = Spend.lookup(ts, user=user)\n"
        "    return pd.Series(name=cls.label, data=list(found))\n"
    )
