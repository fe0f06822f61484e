"""The page of carriers is complete, and is written from the code."""

import typing

import pytest

from docs.render_carriers import PAGE, SOURCES, aggregates, feeds, operators, render
from narthex._connectors import Input
from narthex._ir import AssetKind
from narthex._ir.aggregate_specs import AggregateSpec
from narthex._ir.operators import Operator

pytestmark = pytest.mark.slow


def test_the_page_matches_the_code() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), "run `python -m docs.render_carriers`"


def test_every_operator_aggregate_source_and_feed_has_a_carrier() -> None:
    steps = {step.__name__ for step in typing.get_args(Operator)} - {"DatasetRef"}

    assert set(operators()) == steps
    assert set(aggregates()) == {spec.__name__ for spec in typing.get_args(AggregateSpec)}
    assert set(SOURCES) == set(Input)
    assert set(feeds()) == {AssetKind.INDEX_FEED, AssetKind.HISTORY_FEED}
