# ruff: noqa: ANN001, ANN201, N805
"""Mistakes that a client of ours would have refused, made on the values that travel."""

from collections.abc import Callable
from datetime import datetime

import attrs

from narthex._ir.aggregate_specs import Sum as SumSpec
from narthex._ir.entities import Dataset as DatasetValue
from narthex._ir.entities import Definitions
from narthex._ir.expression_nodes import Call, Ref
from narthex._ir.operators import Aggregate, Filter, Operator
from narthex._sdk.commit_definitions import definitions
from narthex.datasets import Count, Sum, dataset, field, pipeline
from narthex.dtypes import Continuous
from narthex.expr import col
from narthex.featuresets import feature, featureset
from narthex.lib import inputs
from tests.server.shop import Orders, Users

__owner__ = "shop@narthex.dev"


@dataset(index=True)
class Spend:
    """The spending of a user, with another meaning than the shop's and the same version."""

    user: str = field(key=True)
    orders_1h: int
    spent: float
    at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Orders)
    def by_user(cls, orders):
        return (
            orders.filter(col("amount") > 5.0)
            .groupby("user")
            .aggregate(
                orders_1h=Count(window=Continuous("1h")),
                spent=Sum(of="amount", window=Continuous("forever")),
            )
        )


@dataset
class Typo:
    """Its pipeline will name a column that no order has."""

    user: str = field(key=True)
    total: float
    at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Orders)
    def by_user(cls, orders):
        return orders.groupby("user").aggregate(
            total=Sum(of="amount", window=Continuous("forever"))
        )


@dataset
class Mistyped:
    """Its pipeline will compare a text with a number."""

    user: str
    amount: float
    at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Orders)
    def large(cls, orders):
        return orders.filter(col("amount") > 3.0)


@dataset(index=True)
class Unindexed:
    """Looked up below, and will have no index."""

    user: str = field(key=True)
    total: float
    at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Orders)
    def by_user(cls, orders):
        return orders.groupby("user").aggregate(
            total=Sum(of="amount", window=Continuous("forever"))
        )


@featureset
class Buyer:
    """Looks up what cannot be looked up."""

    user: str
    total: float = feature(Unindexed.total, default=0.0)


def changed_definitions() -> Definitions:
    """Return sound definitions in which `Spend` changed without another version."""
    return definitions([Orders, Users, Spend], [])


def broken_definitions() -> Definitions:
    """Return definitions with four mistakes, one of each kind that authors make most."""
    found = definitions([Orders, Users, Spend, Typo, Mistyped, Unindexed], [Buyer])
    edits: dict[str, Callable[[DatasetValue], DatasetValue]] = {
        "Typo": lambda one: _with_terminal(one, _sum_of_a_typo),
        "Mistyped": lambda one: _with_terminal(one, _filter_of_a_text),
        "Unindexed": lambda one: attrs.evolve(one, index=None),
    }
    return attrs.evolve(
        found, datasets=tuple(edits.get(d.name, lambda one: one)(d) for d in found.datasets)
    )


def _with_terminal(one: DatasetValue, edit: Callable[[Operator], Operator]) -> DatasetValue:
    (made,) = one.pipelines
    return attrs.evolve(one, pipelines=(attrs.evolve(made, terminal=edit(made.terminal)),))


def _sum_of_a_typo(operator: Operator) -> Operator:
    assert isinstance(operator, Aggregate)
    (spec,) = operator.specs
    assert isinstance(spec, SumSpec)
    return attrs.evolve(operator, specs=(attrs.evolve(spec, of="amuont"),))


def _filter_of_a_text(operator: Operator) -> Operator:
    assert isinstance(operator, Filter)
    assert isinstance(operator.predicate, Call)
    _, number = operator.predicate.arguments
    wrong = attrs.evolve(operator.predicate, arguments=(Ref("user"), number))
    return attrs.evolve(operator, predicate=wrong)
