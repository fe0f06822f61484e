"""The assets of a dataset: its log, its index, its history, and the jobs that fill them."""

from collections.abc import Mapping

import attrs

from narthex._analysis.fingerprints import (
    ENGINE_SEMANTICS,
    contributions_fingerprint,
    enforced_identity,
    fingerprint,
    operator_fingerprint,
    source_fingerprint,
    source_id,
)
from narthex._analysis.graph import TypedDataset, reads
from narthex._base.records import Value
from narthex._compiler.blueprint_builder import BlueprintBuilder
from narthex._compiler.log_specs import final_aggregate
from narthex._ir.assets import (
    AssetKind,
    AssetRef,
    DatasetPlan,
    FeedSpec,
    Fingerprint,
    HistorySpec,
    LogShape,
    Need,
    TopicRole,
    TopicSpec,
)
from narthex._ir.entities import FIRST_PARTITIONS, Dataset
from narthex._ir.shards import shards_of_index


@attrs.frozen(kw_only=True)
class DatasetAssets:
    """A dataset with its listed assets.

    Attributes:
        meaning: The fingerprint of its rows as its readers get them.
        data: The fingerprint of the content of its log: its meaning, or that of the version whose
            log it reuses.
        contributions: The fingerprint of the same without the version and the aggregates that are
            folded; None unless it ends in an aggregate.
        index: None when nothing looks it up.
        invalidation_topic: The topic that sends its corrections to joins; None without an index by
            key.
        voidable: Whether a keyed row of it may cease to exist (`narthex._ir.facts.TOMBSTONE_TIME`).
    """

    typed: TypedDataset
    plan: DatasetPlan
    meaning: Fingerprint
    data: Fingerprint
    contributions: Fingerprint | None
    topic: AssetRef
    index: AssetRef | None
    invalidation_topic: AssetRef | None
    voidable: bool = False


def hold(
    builder: BlueprintBuilder,
    typed: TypedDataset,
    plan: DatasetPlan,
    *,
    upstream: Mapping[str, DatasetAssets],
    joined: bool,
    stateful: bool,
) -> DatasetAssets:
    """Add the assets of a dataset; it has an index if it declares one or is joined.

    Args:
        builder: The builder that lists the assets.
        typed: The dataset.
        plan: Its storage and read plan.
        upstream: The assets of the datasets that it reads.
        joined: Whether a job looks it up.
        stateful: Whether a stateful job fills it.
    """
    dataset = typed.dataset
    # A computed row that a correction makes break an expectation is deleted.
    deletes = stateful or (bool(dataset.pipelines) and bool(dataset.enforced))
    voidable = plan.log.shape is LogShape.KEYED and (
        deletes or any(upstream[name].voidable for name in reads(dataset))
    )
    corrected = typed.node is not None and typed.node.correctable and bool(plan.aggregates)
    correctable = corrected or voidable
    plan = attrs.evolve(
        plan,
        correctable=correctable,
        expires=plan.history_us is not None and not correctable and not joined,
    )
    meaning = data = data_fingerprint(typed, upstream)
    contributions = contributions_of(typed, plan, upstream)
    if dataset.carried is not None and dataset.carried.contributions == contributions:
        data = Fingerprint(dataset.carried.data)
    topic = builder.add(
        AssetKind.KAFKA_TOPIC,
        fingerprint("topic.dataset", None, (data,)),
        TopicSpec(role=TopicRole.DATASET, partitions=dataset.log_partitions, log=plan.log),
        path=f"dataset/{dataset.name}/log",
        label=f"log of {dataset.name}",
    )
    feed = FeedSpec(
        dataset=dataset.name,
        log=plan.log,
        disorder_us=disorder_of(dataset),
        disorders=tuple((source_id(source), source.disorder_us) for source in dataset.sources),
    )
    index, invalidation_topic = None, None
    if dataset.index is not None or joined:
        index = _add_index(builder, plan, data, partitions=dataset.log_partitions)
        invalidation_topic = (
            None if plan.aggregates else _add_invalidation_topic(builder, dataset, data)
        )
        add_index_feed(
            builder,
            index,
            feed,
            topic=topic,
            invalidation_topic=invalidation_topic,
            path=f"dataset/{dataset.name}/index_feed",
        )
    _add_history(builder, feed, data=data, topic=topic)
    return DatasetAssets(
        typed=typed,
        plan=plan,
        meaning=meaning,
        data=data,
        contributions=contributions,
        topic=topic,
        index=index,
        invalidation_topic=invalidation_topic,
        voidable=voidable,
    )


def disorder_of(dataset: Dataset) -> int | None:
    """Return the greatest disorder of a dataset's sources; None if it has none."""
    return max((source.disorder_us for source in dataset.sources), default=None)


def data_fingerprint(typed: TypedDataset, upstream: Mapping[str, DatasetAssets]) -> Fingerprint:
    """Hash the content of a dataset: its fields, its version, and the origin of its rows."""
    dataset = typed.dataset
    value = (
        dataset.version,
        dataset.schema,
        dataset.history_us,
        *_chosen_partitions(dataset),
        *_enforced(dataset),
    )
    sources = sorted(source_fingerprint(source, dataset.schema) for source in dataset.sources)
    computed: tuple[Fingerprint, ...] = ()
    if typed.node is not None:
        columns = (*typed.node.keys, *typed.node.values)
        inputs = _meanings(upstream)
        computed = tuple(
            operator_fingerprint(pipeline.terminal, inputs, columns)
            for pipeline in dataset.pipelines
        )
    return fingerprint("dataset", value, (*sources, *computed))


def _enforced(dataset: Dataset) -> tuple[Value, ...]:
    """Return the enforced expectations for a fingerprint; nothing if there are none."""
    enforced = enforced_identity(dataset)
    return ("enforce", ENGINE_SEMANTICS["enforce"], enforced) if enforced else ()


def _chosen_partitions(dataset: Dataset) -> tuple[int, ...]:
    """Return the number of partitions for a fingerprint; nothing for the first number.

    Positions in a log are part of what is computed from it (offsets of indexes, histories and
    jobs), so logs of one content with different partitions are different assets, and so is
    everything that reads them.
    """
    partitions = dataset.log_partitions
    return () if partitions == FIRST_PARTITIONS else (partitions,)


def contributions_of(
    typed: TypedDataset, plan: DatasetPlan, upstream: Mapping[str, DatasetAssets]
) -> Fingerprint | None:
    """Hash the content of the log of a dataset that ends in an aggregate; None for others."""
    dataset = typed.dataset
    aggregate = final_aggregate(dataset)
    if aggregate is None or dataset.sources or len(dataset.pipelines) > 1:
        return None
    kept = (plan.log, dataset.history_us, *_chosen_partitions(dataset))
    return contributions_fingerprint(aggregate, _meanings(upstream), kept)


def _meanings(upstream: Mapping[str, DatasetAssets]) -> dict[str, Fingerprint]:
    return {name: held.meaning for name, held in upstream.items()}


def add_index_feed(
    builder: BlueprintBuilder,
    index: AssetRef,
    spec: FeedSpec,
    *,
    topic: AssetRef,
    invalidation_topic: AssetRef | None,
    path: str,
) -> AssetRef:
    """Add the feed that fills an index from a log."""
    needs: tuple[Need, ...] = (Need("log", topic), Need("index", index))
    if invalidation_topic is not None:
        needs = (*needs, Need("touched", invalidation_topic))
    return builder.add(
        AssetKind.INDEX_FEED,
        fingerprint("feed.index", None, tuple(of_ref(need.asset) for need in needs)),
        spec,
        needs=needs,
        path=path,
        label=f"index feed of {spec.dataset}",
    )


def of_ref(ref: AssetRef) -> Fingerprint:
    """Return an asset's fingerprint as an input of another fingerprint."""
    return Fingerprint(ref.fingerprint)


def _add_index(
    builder: BlueprintBuilder, plan: DatasetPlan, data: Fingerprint, *, partitions: int
) -> AssetRef:
    spec = plan.index
    # Not part of the identity: an index that exists already keeps its one shard.
    return builder.add(
        AssetKind.INDEX,
        fingerprint("index", spec, (data,)),
        attrs.evolve(spec, shards=shards_of_index(spec, partitions)),
        path=f"dataset/{plan.name}/index",
        label=f"index of {plan.name}",
    )


def _add_invalidation_topic(
    builder: BlueprintBuilder, dataset: Dataset, data: Fingerprint
) -> AssetRef:
    # Each keyed index has one, joined or not: adding it later would make another feed, and
    # two feeds would fence each other out of one index.
    return builder.add(
        AssetKind.KAFKA_TOPIC,
        fingerprint("topic.touched", None, (data,)),
        TopicSpec(
            role=TopicRole.INVALIDATION,
            partitions=dataset.log_partitions,
            identity=data.hex(),
        ),
        path=f"dataset/{dataset.name}/touched",
        label=f"corrections of {dataset.name}",
    )


def _add_history(
    builder: BlueprintBuilder, feed: FeedSpec, *, data: Fingerprint, topic: AssetRef
) -> None:
    spec = HistorySpec(log=feed.log)
    history = builder.add(
        AssetKind.HISTORY,
        fingerprint("history", spec, (data,)),
        spec,
        path=f"dataset/{feed.dataset}/history",
        label=f"history of {feed.dataset}",
    )
    builder.add(
        AssetKind.HISTORY_FEED,
        fingerprint("feed.history", None, (of_ref(topic), of_ref(history))),
        feed,
        needs=(Need("log", topic), Need("history", history)),
        path=f"dataset/{feed.dataset}/history_feed",
        label=f"history feed of {feed.dataset}",
    )
