"""The effects of an erasure on each table of the ledger and each kind of store.

A new table or store needs an entry here, or a test fails: whoever adds one decides what an erasure
does to it. The search at the end of an erasure reads every table of the database, whatever its
entry says.
"""

import enum
from types import MappingProxyType
from typing import Final

import attrs

from narthex._ir import AssetKind


class Effect(enum.Enum):
    """The fate of the values of erased rows in a place."""

    REPLACED = "replaced"
    """Other assets take the place of those with the rows, which are destroyed."""

    DELETED = "deleted"
    """The entries that have the values are deleted."""

    SEARCHED = "searched"
    """A value may be in a text that a person or a client wrote. Then there is no certificate."""

    KEPT = "kept"
    """Entries with a value stay; the certificate counts them."""

    NO_VALUES = "no values"
    """Values of rows are never written there."""


@attrs.frozen
class ErasureEffect:
    """The effect of an erasure on one place, and the reason or the manner of it."""

    effect: Effect
    why: str


def _entries(effect: Effect, /, **why: str) -> dict[str, ErasureEffect]:
    return {name: ErasureEffect(effect, text) for name, text in why.items()}


TABLES: Final = MappingProxyType(
    _entries(
        Effect.DELETED,
        erasure="the sealed keys are deleted with the certificate; digests of them stay",
        offline_query="queries whose files have a key are deleted",
        training_set="sets whose rows have a key are deleted, with their statistics",
        audit="examples of rows are deleted",
        value_diff="examples of differences are deleted",
        feature_summary="summaries of the datasets, and of the features on their way, are deleted",
        pinned_window="windows with such summaries are deleted",
    )
    | _entries(
        Effect.KEPT,
        control_log="each entry has the hash of all before it; clients choose some of its texts",
    )
    | _entries(
        Effect.SEARCHED,
        deploy_commit="messages, and idempotency keys that clients choose",
        ledger_event="details of transitions, with messages of errors",
        create_ledger="messages of stores",
        destroy_ledger="messages of stores",
        job_shard="messages of jobs that failed",
        driver_backfill="messages of runs that failed",
        webhook_call="idempotency keys that clients choose",
        secret="names; the values are sealed",  # noqa: S106 (a table)
        connection="names; the values are sealed",
        api_token="names of tokens",  # noqa: S106 (a table)
        tenant="the name of the installation's tenant",
        branch="names of branches",
        promotion="evidence, and names of people who approved",
        feature_drift="metrics of comparisons",
        alert="texts of alerts",
        alert_finding="texts of alerts",
        alert_silence="reasons that people wrote",
        alert_notice="messages to receivers",
        alert_evaluator="the state of rules between two evaluations",
        metric_series="names of branches, datasets and processes, and counters; no key of a row",
        last_read="names of datasets and features, and instants; no key of a row",
        manifest="definitions, in which an author may have written a value",
        asset="specifications, in which an author may have written a value",
        blocked_source="definitions of sources",
        engine="names and versions of processes",
    )
    | _entries(
        Effect.NO_VALUES,
        alembic_version="the version of the schema",
        store_format="versions of formats",
        install="the id of the installation",
        registry_version="a number",
        bundle="the definitions that authors committed, compressed; an erasure changes no code",
        asset_dep="ids and roles",
        manifest_binding="ids, and paths with names of definitions",
        pin="ids and holders",
        job="states of jobs",
        lineage_sender="numbers of events, and the kind of the last error of the receiver",
        slot_lease="names of processes",
        watermark="event times of source partitions",
        sink_progress="epochs",
        metric_sample="numbers of metrics; no key and no value of a row",
        external_inventory="names of assets",
        control_log_tip="a hash",
        blocked_key="keyed digests of keys, which stay so that the keys remain blocked",
        answer_offset="offsets",
    )
)
"""Each table of the ledger's database."""

COUNTED_KEPT: Final = frozenset(
    name for name, entry in TABLES.items() if entry.effect is Effect.KEPT
)
"""Tables whose entries with a key stay."""

BYTE_COLUMNS: Final = MappingProxyType(
    {
        "bundle.content": Effect.NO_VALUES,
        "feature_summary.summary": Effect.DELETED,
        "pinned_window.summary": Effect.DELETED,
    }
)
"""The columns of bytes that are not hashes: a search for texts finds nothing in them."""

ASSETS: Final = MappingProxyType(
    {
        AssetKind.KAFKA_TOPIC: ErasureEffect(Effect.REPLACED, "and each record is searched"),
        AssetKind.INDEX: ErasureEffect(Effect.REPLACED, "and each entry is searched"),
        AssetKind.HISTORY: ErasureEffect(Effect.REPLACED, "and each file is searched"),
        AssetKind.CHECKPOINT: ErasureEffect(Effect.REPLACED, "and each file is searched"),
        AssetKind.STREAM_JOB: ErasureEffect(Effect.NO_VALUES, "a row of the ledger"),
        AssetKind.INDEX_FEED: ErasureEffect(Effect.NO_VALUES, "a row of the ledger"),
        AssetKind.HISTORY_FEED: ErasureEffect(Effect.NO_VALUES, "a row of the ledger"),
        AssetKind.SINK_FENCE: ErasureEffect(Effect.NO_VALUES, "a row of the ledger"),
    }
)
"""Each kind of asset."""

PLACES: Final = MappingProxyType(
    _entries(
        Effect.REPLACED,
        index_dir="the indexes of this machine",
        index_store="the indexes on servers",
        history_dir="the histories",
        checkpoint_dir="the states of jobs",
    )
    | _entries(
        Effect.DELETED,
        snapshot_dir="snapshots of replaced indexes and states are deleted",
        offline_dir="the directories of queries that have a key are deleted",
        training_sets_dir="files that have a key are deleted",
        kafka="the log of logged queries is emptied if it has a key; topics are assets",
    )
    | _entries(
        Effect.NO_VALUES,
        home="contains the directories that are named here, and no other rows",
        files_root="files of sources; datasets that read them are not erased",
        definitions_root="code of authors",
        expectations_dir="expectations of authors, and counts of the rows that break them",
        data_docs_dir="pages of the same",
        jars_dir="libraries",
        secrets_dir="secrets that an operator mounts",
        policy_file="rules of the operator",
        alerts_file="rules of the operator",
        sso_file="rules of the operator",
        spark_secret_file="a secret of Spark",  # noqa: S106 (a setting)
        ca_file="certificates",
        control_log_heads_file="hashes of entries of the audit log",
        secrets_key="the key of secrets",
        signing_key="the key of signatures",
        next_signing_key="the next key of signatures, during a rotation",
        verifying_key="the public halves of the keys of signatures",
    )
)
"""Each setting that names a place where the platform stores or reads something."""
