"""The part of an erasure in the stores: copies without rows, deletions, and the search at its end.

The search reads every store raw, and knows nothing of how rows are removed.
"""

import datetime as dt
import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final
from uuid import UUID

import attrs
import structlog

from narthex._base import Json
from narthex._formats import key_bytes, parse_cell
from narthex._ir import AssetKind, Dataset, Definitions, TopicRole, TopicSpec
from narthex._query import answers_topic
from narthex.settings import Settings
from narthex_ledger import (
    ErasureView,
    Ledger,
    NotReady,
    ObsoleteSink,
    ReachedAsset,
    Sealer,
    Successor,
    TenantId,
)
from narthex_server.definitions.bundles import read_bundle
from narthex_server.definitions.data_flow import derived_entities, known_entities
from narthex_server.erasures.erased_rows import (
    EMPTY_CALL,
    Digests,
    RowFilter,
    erase_fields,
    finders_of,
)
from narthex_server.erasures.erasure_effects import COUNTED_KEPT
from narthex_server.erasures.sink_targets import why_not_deleted
from narthex_stores import (
    LogReader,
    Needle,
    RowEnds,
    Searched,
    SnapshotStore,
    compare_logs,
    consumer_group,
    copy_log,
    delete_records,
    divided_index,
    end_rows,
    file_system_of,
    index_names,
    index_store,
    names_below,
    platform_broker,
    seal_topic,
    search_files,
    search_indexes,
    search_topic,
)

log = structlog.get_logger()

DESTROYED_WITHIN_S: Final = 30.0


@attrs.frozen(kw_only=True)
class SearchResult:
    """The result of a search of all stores.

    Attributes:
        found: The places where something was found, without values.
        searched: What was read: for each store, the number of items and bytes.
        kept: The entries with a key that no erasure can remove, by store.
        anywhere: How many keys were searched for anywhere.
        in_columns: How many keys were searched for only in columns of their names.
    """

    found: tuple[str, ...]
    searched: tuple[Json, ...]
    kept: tuple[Json, ...]
    anywhere: int
    in_columns: int


@attrs.frozen(kw_only=True)
class ErasedStores:
    """The stores of an installation."""

    ledger: Ledger
    tenant: TenantId
    settings: Settings
    sealer: Sealer

    def copy(self, erasure: ErasureView, successor: Successor) -> None:
        """Copy what the topic of an endpoint has until now, while it accepts more.

        Raises:
            StoreError: The broker does not answer, or the topics differ.
        """
        if successor.new_name is not None:
            rewrite = self._filter(erasure, successor.old_name)
            copy_log(
                platform_broker(self.settings), successor.old_name, successor.new_name, rewrite
            )

    def seal_and_copy(self, erasure: ErasureView, successor: Successor) -> None:
        """Let the topic of an endpoint refuse more records, copy the rest, and compare all.

        Raises:
            StoreError: The broker does not answer, or the topics differ.
        """
        if successor.new_name is None:
            return
        kafka, rewrite = platform_broker(self.settings), self._filter(erasure, successor.old_name)
        seal_topic(kafka, successor.old_name, probe=EMPTY_CALL)
        copy_log(kafka, successor.old_name, successor.new_name, rewrite)
        copied = compare_logs(kafka, successor.old_name, successor.new_name, rewrite)
        log.info("endpoint_copied", records=copied.records, changed=copied.changed)

    def end_rows(self, sink: ObsoleteSink) -> RowEnds:
        """Let those rows end in the log of a sink that the log of its successor lacks.

        Raises:
            StoreError: The broker does not answer.
        """
        kafka, new_log = platform_broker(self.settings), sink.new_log or ""
        ends = end_rows(kafka, sink.spec, log=sink.log, new_log=new_log)
        log.info("rows_ended", log=sink.log, rows=ends.rows)
        return ends

    def has_written(self, sink: ObsoleteSink, ends: RowEnds) -> bool:
        """Whether the target of a sink has all changes of its log.

        Raises:
            StoreError: The broker does not answer.
        """
        places = [(sink.log, partition) for partition in ends.until]
        with LogReader(
            platform_broker(self.settings), group=consumer_group(sink.physical_name)
        ) as reader:
            read = reader.group_offsets.read(places) if places else {}
        found = {partition: at.offset for (_, partition), at in read.items()}
        return all(found.get(partition, 0) >= at for partition, at in ends.until.items())

    def why_not_deleted(self, sinks: Sequence[ObsoleteSink]) -> dict[str, str]:
        """Return the targets that cannot be erased through their sinks, each with the reason.

        Raises:
            StoreError: The broker does not answer.
        """
        replaced = self.ledger.erasures.replaced_sinks(self.tenant)
        specs = [sink.spec for sink in sinks]
        return why_not_deleted(specs, replaced, kafka=platform_broker(self.settings))

    def clean(self, erasure: ErasureView, names: Sequence[str]) -> bool:
        """Delete what no asset owns: snapshots, and answers with the keys.

        Returns:
            Whether an answer was deleted.
        """
        self._delete_snapshots(names)
        self._delete_late_keys(names)
        self._delete_statistics(erasure)
        return self._delete_derived(self._needles(erasure))

    def search(self, erasure: ErasureView, names: Sequence[str]) -> SearchResult:
        """Read every store, and search it for the keys and for the obsolete assets."""
        needles = self._needles(erasure)
        kept: list[Json] = []
        found, searched = self._search(erasure, names, needles, kept)
        anywhere = sum(needle.is_long for needle in needles)
        return SearchResult(
            found=tuple(found),
            searched=tuple(searched),
            kept=tuple(kept),
            anywhere=anywhere,
            in_columns=len(needles) - anywhere,
        )

    def _filter(self, erasure: ErasureView, topic: str) -> RowFilter:
        """Return the filter of an endpoint's records: all blocked keys, not only this erasure's."""
        endpoint = self._endpoint(erasure, topic)
        sources = self.ledger.erasures.blocked_sources(self.tenant, endpoint)
        return RowFilter(
            finders=finders_of(sources),
            digests=Digests.of(self.sealer),
            blocked={erasure.dataset: frozenset(erasure.digests)},
        )

    def _endpoint(self, erasure: ErasureView, topic: str) -> str:
        for asset in self.ledger.erasures.remaining(erasure.erasure_id):
            if asset.physical_name == topic and isinstance(asset.spec, TopicSpec):
                return asset.spec.identity
        raise NotReady(f"topic `{topic}` is gone")

    def _needles(self, erasure: ErasureView) -> tuple[Needle, ...]:
        """Return what to search for; only this process, with the key of secrets, can read it."""
        text = self.sealer.open(erasure.sealed, about=about(erasure.erasure_id))
        rows: list[dict[str, Json]] = json.loads(text)
        sources = self.ledger.erasures.blocked_sources
        dataset = self._dataset(erasure)
        aliases: dict[str, frozenset[str]] = {}
        for endpoint in self._endpoints(erasure):
            for finder in finders_of(sources(self.tenant, endpoint)):
                if finder.dataset == erasure.dataset:
                    for field, columns in finder.columns.items():
                        aliases[field] = aliases.get(field, frozenset()) | columns
        fields = erase_fields(dataset)
        is_whole = fields == tuple(dataset.schema.keys)
        return tuple(
            Needle(
                cells=row,
                aliases=aliases,
                key=key_bytes(fields, [parse_cell(row[f.name], f.type) for f in fields])
                if is_whole
                else b"",
            )
            for row in rows
        )

    def _endpoints(self, erasure: ErasureView) -> list[str]:
        found = self.ledger.erasures.blocked_endpoints(self.tenant, erasure.dataset)
        return sorted(found)

    def _dataset(self, erasure: ErasureView) -> Dataset:
        """Find the dataset in the definitions of its branch, or of another one that has it."""
        branches = self.ledger.branches.all(self.tenant)
        for branch in sorted(branches, key=lambda one: one.name != erasure.branch):
            if branch.state != "active" or branch.head_commit_id is None:
                continue
            content = self.ledger.bundles.of_commit(branch.head_commit_id)
            for dataset in read_bundle(content).definitions.datasets:
                if dataset.name == erasure.dataset:
                    return dataset
        raise NotReady(f"no branch has the dataset `{erasure.dataset}` any more; commit it again")

    def _delete_snapshots(self, names: Sequence[str]) -> None:
        """Delete the snapshots of obsolete indexes, of their shards, and of job states."""
        if not self.settings.snapshot_dir:
            return
        store = SnapshotStore(*file_system_of(self.settings.snapshot_dir))
        for name in store.names():
            if divided_index(name) in names:
                store.delete(name)

    def _delete_late_keys(self, names: Sequence[str]) -> None:
        """Delete what a write that came too late has left of an obsolete index on Redis servers.

        The files of an index of a machine cannot come back, as their directory is gone.
        """
        store = index_store(self.settings)
        if store.is_shared:
            for name in sorted(index_names(self.settings).intersection(names)):
                store.adapter().destroy(name, external_id=None, timeout_s=DESTROYED_WITHIN_S)

    def _delete_statistics(self, erasure: ErasureView) -> None:
        """Delete the statistics of the columns and features that may have values of the rows.

        The hours that are still open are counted again, from what remains.
        """
        reached = self.ledger.erasures.reached(self.tenant, erasure.dataset)
        datasets = {erasure.dataset, *(one.dataset for one in reached if one.dataset is not None)}
        defined = [*self._deployed_definitions()]
        stored = self.ledger.feature_summaries.entities()
        self.ledger.feature_summaries.forget_entities(
            datasets | derived_entities(defined, datasets) | (stored - known_entities(defined))
        )

    def _deployed_definitions(self) -> Iterator[Definitions]:
        """Yield the definitions that branches deploy or serve."""
        for branch in self.ledger.branches.all(self.tenant):
            for commit_id in {branch.head_commit_id, branch.serving_commit_id} - {None}:
                if commit_id is not None:
                    yield read_bundle(self.ledger.bundles.of_commit(commit_id)).definitions

    def _delete_derived(self, needles: Sequence[Needle]) -> bool:
        """Delete offline queries, training sets and logged queries with the keys."""
        deleted = False
        settings, ledger = self.settings, self.ledger
        for directory in _children(settings.offline_dir):
            if search_files(directory, needles).found:
                shutil.rmtree(directory, ignore_errors=True)
                deleted = True
        for path in _children(settings.training_sets_dir):
            if path.suffix == ".parquet" and search_files(path, needles).found:
                ledger.training_sets.delete(UUID(path.stem))
                path.unlink(missing_ok=True)
                deleted = True
        topic = answers_topic(settings.install_id)
        if search_topic(platform_broker(settings), topic, needles).found:
            delete_records(platform_broker(settings), topic)
            deleted = True
        ledger.audits.forget_examples(older_than=dt.timedelta(0))
        ledger.value_diffs.forget_examples(older_than=dt.timedelta(0))
        return deleted

    def _search(
        self,
        erasure: ErasureView,
        names: Sequence[str],
        needles: Sequence[Needle],
        kept: list[Json],
    ) -> tuple[list[str], list[Json]]:
        """Read every store; return the places where something was found, and what was read.

        Entries that cannot be removed are added to `kept`.
        """
        found: list[str] = []
        searched: list[Json] = []

        def note(store: str, result: Searched) -> None:
            found.extend(result.found)
            searched.append({"store": store, "items": result.items, "bytes": result.size})

        results = [*self._results(erasure, needles)]
        others = frozenset[str]().union(*(result.others for _, result in results))
        if others and any(result.found for _, result in results):
            # Some of what was found may be part of longer keys and words of other rows.
            known = [attrs.evolve(needle, others=others) for needle in needles]
            results = [*self._results(erasure, known)]
        for store, result in results:
            note(store, result)
        texts = [text for needle in needles for text in needle.texts]
        for table, (rows, matches) in self.ledger.erasures.search(texts).items():
            if table not in COUNTED_KEPT:
                found += [f"table {table}"] * bool(matches)
            elif matches:
                kept.append({"store": f"table {table} of the ledger", "items": matches})
            searched.append({"store": f"table {table} of the ledger", "items": rows, "bytes": 0})
        found += [f"`{name}` exists" for name in self._existing(names)]
        return found, searched

    def _endpoint_topics(self, erasure: ErasureView) -> frozenset[str]:
        """Return the topics of the endpoints that feed the dataset, or fed it before."""
        endpoints = self._endpoints(erasure)
        return frozenset(
            name
            for name, row in self.ledger.gc.inventory(AssetKind.KAFKA_TOPIC).items()
            if isinstance(spec := row.spec, TopicSpec)
            and spec.role is TopicRole.INGEST
            and spec.identity in endpoints
        )

    def _results(
        self, erasure: ErasureView, needles: Sequence[Needle]
    ) -> Iterator[tuple[str, Searched]]:
        settings = self.settings
        assets = self.ledger.erasures.reached(self.tenant, erasure.dataset)
        plain = [attrs.evolve(needle, key=b"") for needle in needles]
        indexes = [one.physical_name for one in assets if one.kind is AssetKind.INDEX]
        for name, result in search_indexes(settings, indexes, needles).items():
            yield f"index {name}", result
        yield from self._results_of(assets, needles, plain)
        yield "offline queries", search_files(settings.offline_dir, plain)
        yield "training sets", search_files(settings.training_sets_dir, plain)
        topic = answers_topic(settings.install_id)
        yield "logged queries", search_topic(platform_broker(settings), topic, plain)
        known = {asset.physical_name for asset in assets}
        for name in sorted(self._endpoint_topics(erasure) - known):
            yield f"topic {name}", search_topic(platform_broker(settings), name, plain)

    def _results_of(
        self, assets: Sequence[ReachedAsset], needles: Sequence[Needle], plain: Sequence[Needle]
    ) -> Iterator[tuple[str, Searched]]:
        """Search the assets that are not indexes, and the snapshots of all."""
        settings = self.settings
        for asset in assets:
            name = asset.physical_name
            match asset.kind:
                case AssetKind.KAFKA_TOPIC if isinstance(asset.spec, TopicSpec):
                    is_log = asset.spec.role is TopicRole.DATASET
                    wanted = needles if is_log else plain
                    columns = asset.spec.log if is_log else None
                    yield (
                        f"topic {name}",
                        search_topic(platform_broker(settings), name, wanted, log=columns),
                    )
                case AssetKind.HISTORY:
                    place = f"{settings.history_dir.rstrip('/')}/{name}"
                    yield f"history {name}", search_files(place, plain)
                case AssetKind.CHECKPOINT:
                    place = str(settings.checkpoint_dir / name)
                    yield f"checkpoint {name}", search_files(place, needles)
                case _:
                    pass
            if settings.snapshot_dir and asset.kind in {AssetKind.INDEX, AssetKind.CHECKPOINT}:
                place = f"{settings.snapshot_dir.rstrip('/')}/{name}"
                yield f"snapshots of {name}", search_files(place, needles)

    def _existing(self, names: Sequence[str]) -> list[str]:
        """Return what of the obsolete assets is still in a store, in whatever state."""
        settings = self.settings
        roots: list[str | Path] = [
            settings.history_dir,
            settings.checkpoint_dir,
        ]
        roots += [settings.snapshot_dir] if settings.snapshot_dir else []
        there = {part for root in roots for part in names_below(root)}
        there |= index_names(settings)
        found = {part for part in there if _is_of(part.partition(".")[0], names)}
        for name in names:
            if search_topic(platform_broker(settings), name, ()).items:
                found.add(name)
        return sorted(found)


def about(erasure_id: UUID) -> str:
    """Return what the sealed values of an erasure's keys are sealed with."""
    return f"erasure\n{erasure_id}"


def _is_of(found: str, names: Sequence[str]) -> bool:
    """Whether a name is that of an asset, or of one of its shards."""
    return any(found == name or found.startswith(f"{name}_s") for name in names)


def _children(directory: Path) -> list[Path]:
    return sorted(directory.iterdir()) if directory.is_dir() else []
