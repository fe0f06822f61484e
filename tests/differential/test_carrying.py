"""The job of a new version fills the log that the version reuses."""

from collections import Counter

import attrs
import pytest

from narthex._base.canonical import encode
from narthex._compiler.blueprint import compile_blueprint
from narthex._compiler.log_reuse import reuse_logs
from narthex._compiler.log_specs import final_aggregate
from narthex._ir.aggregate_specs import Count
from narthex._ir.assets import (
    AssetBlueprint,
    AssetKind,
    CheckpointSpec,
    PipelineJobSpec,
    TopicRole,
    TopicSpec,
)
from narthex._ir.entities import Dataset, Definitions
from narthex._ir.schema import Field, Schema
from narthex._ir.types import Int
from tests.differential.drawing import drawn

pytestmark = pytest.mark.slow

ADDED = "one_more"


def with_one_more(dataset: Dataset) -> Dataset:
    """Raise the version of a dataset that ends in an aggregate, and count its rows beside."""
    aggregate = final_aggregate(dataset)
    if aggregate is None:
        return dataset
    count = Count(into=ADDED, window=aggregate.specs[0].window)
    more = attrs.evolve(aggregate, specs=(*aggregate.specs, count))
    fields = (*dataset.schema.fields, Field(name=ADDED, type=Int()))
    return attrs.evolve(
        dataset,
        version=dataset.version + 1,
        schema=Schema(fields),
        pipelines=tuple(attrs.evolve(one, terminal=more) for one in dataset.pipelines),
    )


def by_path(definitions: Definitions) -> dict[str, AssetBlueprint]:
    return {path: asset for asset in compile_blueprint(definitions).assets for path in asset.paths}


@pytest.mark.parametrize("seed", range(5))
def test_a_shared_asset_is_the_one_that_either_version_would_make(seed: int) -> None:
    shared: Counter[str] = Counter()
    for project in drawn(seed, count=40):
        drawn_datasets = project.definitions.datasets
        changed = {one.name for one in drawn_datasets if final_aggregate(one) is not None}
        raised = tuple(map(with_one_more, drawn_datasets))
        new = attrs.evolve(project.definitions, datasets=raised)
        # A first commit records the logs that it makes.
        old = reuse_logs(None, project.definitions)
        was, alone, now = by_path(old), by_path(new), by_path(reuse_logs(old, new))
        for path, asset in now.items():
            _, name, *_ = path.split("/")
            if asset.ref != was[path].ref or name not in changed:
                continue
            shared[asset.kind.value] += 1
            assert _filled_by(was[path]) == _filled_by(alone[path]), path
    assert shared[AssetKind.STREAM_JOB.value] > 5


def _filled_by(asset: AssetBlueprint) -> tuple[bytes, frozenset[str]]:
    """Return what an asset is made of, without what other versions of its dataset are called.

    A job that fills groups does not look at the public schema of its dataset.
    """
    spec = asset.spec
    if isinstance(spec, PipelineJobSpec):
        spec = attrs.evolve(spec, schema=Schema(()))
    if isinstance(spec, CheckpointSpec):
        spec = CheckpointSpec(job="")
    if isinstance(spec, TopicSpec) and spec.role is TopicRole.QUARANTINE:
        spec = attrs.evolve(spec, identity="")
    return encode(spec), frozenset(need.role for need in asset.needs)
