# ruff: noqa: ARG002, N805
"""Bounds in `@meta(alerts=[…])`: checked where they are written, and part of no asset."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from narthex._analysis.changes import compare
from narthex._base import from_plain, to_plain
from narthex._compiler.blueprint import compile_blueprint
from narthex._ir import AlertSeverity, Definitions
from narthex._ir import Freshness as FreshnessBound
from narthex._ir import QuarantineRate as QuarantineRateBound
from narthex._sdk.commit_definitions import definitions
from narthex._sdk.datasets.datasets import dataset_entity
from narthex.connectors import Webhook, source
from narthex.datasets import Dataset, dataset, field, pipeline
from narthex.errors import DefinitionError, DefinitionErrors
from narthex.featuresets import extractor, feature, featureset
from narthex.lib import Freshness, QuarantineRate, inputs, meta, outputs


def orders(**said: Any) -> Dataset:
    @meta(owner="a@b.co", **said)
    @source(Webhook("w").endpoint("e"), disorder="1h", cdc="upsert")
    @dataset(index=True)
    class Orders:
        k: int = field(key=True)
        at: datetime

    return Orders


def test_a_dataset_has_its_bounds() -> None:
    said = [Freshness("10m", severity="critical"), QuarantineRate(0.01, window="5m")]

    assert dataset_entity(orders(alerts=said)).metadata.alerts == (
        FreshnessBound(max_age_us=600_000_000, severity=AlertSeverity.CRITICAL),
        QuarantineRateBound(max_rate=0.01, window_us=300_000_000, severity=AlertSeverity.WARNING),
    )


def test_a_single_bound_needs_no_list() -> None:
    assert len(dataset_entity(orders(alerts=Freshness("1h"))).metadata.alerts) == 1


@pytest.mark.parametrize(
    ("declared", "code", "says"),
    [
        (lambda: Freshness("soon"), "NX102", "`max_age` of `Freshness`"),
        (lambda: Freshness(5), "NX102", "must be text"),  # type: ignore[arg-type]
        (lambda: Freshness("0s"), "NX106", "write a duration above zero"),
        (lambda: Freshness("1h", severity="bad"), "NX106", "`severity` of `Freshness` is `'bad'`"),
        (lambda: QuarantineRate(1), "NX106", "`max_rate` of `QuarantineRate` is `1`"),
        (lambda: QuarantineRate(True), "NX106", "write a share"),
        (lambda: QuarantineRate("1%"), "NX106", "write a share"),  # type: ignore[arg-type]
        (lambda: QuarantineRate(0.1, window="x"), "NX102", "`window` of `QuarantineRate`"),
        (lambda: meta(alerts=["10m"]), "NX106", "`alerts` has `'10m'`"),  # type: ignore[list-item]
        (lambda: meta(alerts=5), "NX106", "`alerts` has `5`"),  # type: ignore[arg-type]
        (lambda: meta(alerts=[Freshness("1h"), Freshness("2h")]), "NX106", "two bounds"),
    ],
)
def test_a_bound_is_refused_on_its_line(
    declared: Callable[[], object], code: str, says: str
) -> None:
    with pytest.raises(DefinitionError) as refused:
        declared()

    assert refused.value.code == code
    assert says in str(refused.value)
    assert refused.value.origin.file.endswith("test_declare_alerts.py")
    assert refused.value.origin.line > 0


def test_entities_without_rows_have_no_bounds() -> None:
    with pytest.raises(DefinitionErrors) as refused:

        @meta(owner="a@b.co")
        @dataset(index=True)
        class Kept:
            k: int = field(key=True)
            at: datetime

            @meta(alerts=[Freshness("1h")])
            @pipeline
            @inputs(orders())
            def keep(cls, orders: Any) -> Any:
                return orders

    (error,) = refused.value.exceptions_flat()
    assert "pipeline `keep` has `alerts`" in str(error)
    with pytest.raises(DefinitionErrors) as refused:

        @meta(owner="a@b.co")
        @featureset
        class Shop:
            k: int
            double: int

            @meta(alerts=[Freshness("1h")])
            @extractor
            @inputs("k")
            @outputs("double")
            def doubled(cls, ts: Any, k: Any) -> Any:
                return k * 2

    assert any(
        "extractor `doubled` has `alerts`" in str(e) for e in refused.value.exceptions_flat()
    )


def test_a_featureset_has_bounds() -> None:
    kept = orders()

    @meta(owner="a@b.co", alerts=[Freshness("1h")])
    @featureset
    class Shop:
        k: int
        at: datetime = feature(kept.at, default=datetime(2026, 1, 1))  # type: ignore[attr-defined]  # noqa: DTZ001

    (found,) = definitions([kept], [Shop]).featuresets

    assert [bound.max_age_us for bound in found.metadata.alerts] == [3_600_000_000]  # type: ignore[union-attr]


def test_a_bound_changes_no_asset_and_is_deployed() -> None:
    without = definitions([orders()], [])
    bounded = definitions([orders(alerts=[Freshness("1h"), QuarantineRate(0.5)])], [])

    def assets(of: Definitions) -> dict[str, bytes]:
        return {asset.label: asset.fingerprint for asset in compile_blueprint(of).assets}

    changes = compare(without, bounded, incremental=False)

    assert assets(without) == assets(bounded)
    assert changes.metadata_only == ("dataset `Orders`: its metadata or its index",)
    assert changes.definitions == bounded
    assert from_plain(to_plain(bounded)) == bounded


def test_definitions_from_before_bounds_are_read() -> None:
    plain: Any = to_plain(definitions([orders()], []))
    for one in (plain["datasets"][0], *plain["datasets"][0]["schema"]["fields"]):
        del one["metadata"]["alerts"]

    found = from_plain(plain)

    assert isinstance(found, Definitions)
    assert found.datasets[0].metadata.alerts == ()
