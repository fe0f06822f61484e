"""Featuresets of a commit are compared if they are computed otherwise, with rows of the log."""

import attrs

from narthex._base import Json
from narthex._ir.entities import Definitions, LookupExtractor
from narthex._query import LoggedQuery
from narthex_server.deploy import feature_diffs
from narthex_server.deploy.feature_diffs import FeatureManifest, changed_featuresets, rows_of
from narthex_stores import Record
from tests.server.shop import shop_definitions


def manifest(definitions: Definitions) -> FeatureManifest:
    return FeatureManifest(definitions=definitions, plans=(), bindings={})


def with_default(definitions: Definitions, default: float) -> Definitions:
    """Return definitions in which a looked-up feature has another default."""
    return attrs.evolve(
        definitions,
        featuresets=tuple(
            attrs.evolve(
                one,
                extractors=tuple(
                    attrs.evolve(each, default=default, has_default=True)
                    if isinstance(each, LookupExtractor) and each.feature == "spent"
                    else each
                    for each in one.extractors
                ),
            )
            for one in definitions.featuresets
        ),
    )


def record(offset: int, branch: str, inputs: dict[str, list[Json]]) -> Record:
    query = LoggedQuery(
        tenant="t",
        branch=branch,
        commit_id="c",
        as_of=0,
        workflow="",
        inputs=inputs,
        outputs={},
        offsets={},
    )
    return Record("t", 0, offset, offset, None, query.encoded(), ())


def test_a_featureset_is_compared_if_an_extractor_differs_and_not_for_its_version() -> None:
    shop = shop_definitions()
    raised = attrs.evolve(
        shop,
        featuresets=tuple(
            attrs.evolve(
                one, extractors=tuple(attrs.evolve(each, version=7) for each in one.extractors)
            )
            for one in shop.featuresets
        ),
    )

    assert [*changed_featuresets(manifest(shop), manifest(raised))] == []
    assert "Buyer" in changed_featuresets(manifest(shop), manifest(with_default(shop, 8.0)))
    new = attrs.evolve(shop, featuresets=())
    assert [*changed_featuresets(manifest(new), manifest(shop))] == []


def test_the_newest_rows_of_the_branch_are_taken() -> None:
    records = [
        record(0, "main", {"F.a": [1, 2], "F.b": ["x", "y"]}),
        record(1, "dev", {"F.a": [3]}),
        record(2, "main", {"G.c": [None]}),
        Record("t", 0, 3, 3, None, b"garbled", ()),
    ]

    found = rows_of(records, "main")

    assert found == [{"G.c": None}, {"F.a": 1, "F.b": "x"}, {"F.a": 2, "F.b": "y"}]
    many = [record(n, "main", {"F.a": [n] * 100}) for n in range(100)]
    assert len(rows_of(many, "main")) == feature_diffs.MOST_LOGGED_ROWS
