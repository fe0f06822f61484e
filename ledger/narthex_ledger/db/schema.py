"""The ledger's tables as statements use them; migrations define constraints and guards."""

import uuid
from typing import TypeAlias

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, BYTEA, JSONB, TIMESTAMP, UUID
from sqlalchemy.types import UserDefinedType
from typing_extensions import override

from narthex._base import Json as JsonValue

METADATA = sa.MetaData()

BIG = sa.BigInteger()
TEXT = sa.Text()
INSTANT = TIMESTAMP(timezone=True)
JSON: JSONB[JsonValue] = JSONB(none_as_null=True)
ID = UUID(as_uuid=True)
BYTES = BYTEA()
FLAG = sa.Boolean()
COUNT = sa.Integer()


class Xid8(UserDefinedType[str]):
    """A transaction id that never wraps."""

    cache_ok: bool | None = True

    @override
    def get_col_spec(self, **_: object) -> str:
        return "xid8"


_Type: TypeAlias = (
    sa.BigInteger
    | sa.Boolean
    | sa.Double[float]
    | sa.Integer
    | sa.SmallInteger
    | sa.Text
    | ARRAY[str]
    | ARRAY[bytes]
    | ARRAY[float]
    | BYTEA
    | JSONB[JsonValue]
    | TIMESTAMP
    | UUID[uuid.UUID]
    | Xid8
)


def _table(name: str, keys: str, /, **columns: _Type) -> sa.Table:  # type: ignore[explicit-any]
    key = keys.split()
    return sa.Table(
        name,
        METADATA,
        *(sa.Column(column, kind, primary_key=column in key) for column, kind in columns.items()),
    )


INSTALL = _table("install", "one", one=FLAG, install_id=TEXT, timeline=BIG)
REGISTRY_VERSION = _table("registry_version", "one", one=FLAG, version=BIG)
TENANT = _table("tenant", "tenant_id", tenant_id=BIG, slug=TEXT)
BRANCH = _table(
    "branch",
    "branch_id",
    branch_id=BIG,
    tenant_id=BIG,
    name=TEXT,
    is_main=FLAG,
    state=TEXT,
    head_commit_id=ID,
    serving_commit_id=ID,
    head_seq=BIG,
    serving_seq=BIG,
    deleted_at=INSTANT,
    is_protected=FLAG,
)
BUNDLE = _table(
    "bundle", "sha256", sha256=BYTES, content=BYTES, signature=BYTES, created_at=INSTANT
)
MANIFEST = _table(
    "manifest",
    "manifest_id",
    manifest_id=ID,
    tenant_id=BIG,
    content_sha256=BYTES,
    bundle_sha256=BYTES,
    signature=BYTES,
    content=JSON,
    created_at=INSTANT,
)
DEPLOY_COMMIT = _table(
    "deploy_commit",
    "commit_id",
    commit_id=ID,
    tenant_id=BIG,
    branch_id=BIG,
    kind=TEXT,
    idempotency_key=TEXT,
    request_sha256=BYTES,
    bundle_sha256=BYTES,
    signature=BYTES,
    head_signature=BYTES,
    request=JSON,
    actor=TEXT,
    message=TEXT,
    base_seq=BIG,
    base_pinned=FLAG,
    backfill_policy=TEXT,
    promotion_policy=TEXT,
    parent_commit_id=ID,
    manifest_id=ID,
    plan=JSON,
    plan_sha256=BYTES,
    expected_plan_sha256=BYTES,
    state=TEXT,
    fence=BIG,
    owner=TEXT,
    lease_expires_at=INSTANT,
    deadline=INSTANT,
    cancel_requested_at=INSTANT,
    seq=BIG,
    commit_xid=Xid8(),
    error=JSON,
    accepted_at=INSTANT,
    committed_at=INSTANT,
    finished_at=INSTANT,
)
ASSET = _table(
    "asset",
    "asset_id",
    asset_id=BIG,
    tenant_id=BIG,
    kind=TEXT,
    fp_version=sa.SmallInteger(),
    fingerprint=BYTES,
    incarnation=COUNT,
    physical_name=TEXT,
    spec=JSON,
    spec_sha256=BYTES,
    signature=BYTES,
    needs_signature=BYTES,
    state=TEXT,
    external_id=TEXT,
    live_at=INSTANT,
    retiring_at=INSTANT,
    destroyed_at=INSTANT,
    obsolete_by=ID,
    filled_from=BIG,
)
ASSET_DEP = _table(
    "asset_dep", "asset_id needs_asset_id role", asset_id=BIG, needs_asset_id=BIG, role=TEXT
)
BINDING = _table(
    "manifest_binding", "manifest_id logical_path", manifest_id=ID, logical_path=TEXT, asset_id=BIG
)
PIN = _table(
    "pin",
    "pin_id",
    pin_id=BIG,
    manifest_id=ID,
    branch_id=BIG,
    holder=TEXT,
    commit_id=ID,
    expires_at=INSTANT,
    hot=FLAG,
    hot_until=INSTANT,
)
CREATE_LEDGER = _table(
    "create_ledger",
    "asset_id",
    asset_id=BIG,
    introduced_by=ID,
    owner_commit_id=ID,
    status=TEXT,
    needs_backfill=FLAG,
    attempt=COUNT,
    fence=BIG,
    last_call_deadline=INSTANT,
    external_id=TEXT,
    last_error=JSON,
    intent_at=INSTANT,
    done_at=INSTANT,
)
DESTROY_LEDGER = _table(
    "destroy_ledger",
    "asset_id",
    asset_id=BIG,
    reason=TEXT,
    cause_commit_id=ID,
    not_before=INSTANT,
    status=TEXT,
    attempt=COUNT,
    fence=BIG,
    owner=TEXT,
    lease_expires_at=INSTANT,
    last_call_deadline=INSTANT,
    last_error=JSON,
    intent_at=INSTANT,
    done_at=INSTANT,
)
LEDGER_EVENT = _table(
    "ledger_event",
    "event_id",
    event_id=BIG,
    at=INSTANT,
    commit_id=ID,
    asset_id=BIG,
    actor=TEXT,
    fence=BIG,
    transition=TEXT,
    detail=JSON,
)
JOB = _table(
    "job",
    "asset_id",
    asset_id=BIG,
    tenant_id=BIG,
    slot_space=TEXT,
    shard_count=COUNT,
    desired=TEXT,
    desired_at=INSTANT,
    generation=BIG,
    spec_sha256=BYTES,
    checkpoint_incarnation=COUNT,
    needs_backfill=FLAG,
    backfilled_at=INSTANT,
    backfill_owner=TEXT,
    backfill_epoch=BIG,
    backfill_expires_at=INSTANT,
    changed_in=BIG,
)
DRIVER_BACKFILL = _table(
    "driver_backfill",
    "commit_id",
    commit_id=ID,
    state=TEXT,
    owner=TEXT,
    expires_at=INSTANT,
    error=TEXT,
    requested_at=INSTANT,
)
SLOT_LEASE = _table(
    "slot_lease",
    "slot_space slot",
    slot_space=TEXT,
    slot=COUNT,
    owner=TEXT,
    epoch=BIG,
    expires_at=INSTANT,
)
JOB_SHARD = _table(
    "job_shard",
    "asset_id shard",
    asset_id=BIG,
    shard=COUNT,
    slot_space=TEXT,
    slot=COUNT,
    seen_generation=BIG,
    seen_epoch=BIG,
    phase=TEXT,
    caught_up_reports=COUNT,
    lag_ms=BIG,
    progress=JSON,
    backfill=JSON,
    reported_at=INSTANT,
)
WATERMARK = _table(
    "watermark", "asset_id place", asset_id=BIG, place=TEXT, event_time_us=BIG, arrived_ms=BIG
)
SINK_PROGRESS = _table(
    "sink_progress",
    "job_key shard",
    job_key=TEXT,
    shard=COUNT,
    epoch=BIG,
    checkpoint_incarnation=COUNT,
    batch_id=BIG,
)
PROMOTION = _table(
    "promotion",
    "commit_id",
    commit_id=ID,
    branch_id=BIG,
    policy=TEXT,
    state=TEXT,
    approved_by=TEXT,
    approved_at=INSTANT,
    evidence=JSON,
    decided_at=INSTANT,
)
EXTERNAL_INVENTORY = sa.Table(
    "external_inventory",
    METADATA,
    sa.Column("system", TEXT, primary_key=True),
    sa.Column("physical_name", TEXT, primary_key=True),
    sa.Column("external_id", TEXT, primary_key=True),
    sa.Column("class", TEXT),
    sa.Column("first_seen", INSTANT),
    sa.Column("last_seen", INSTANT),
    sa.Column("scans", COUNT),
)
ENGINE = _table(
    "engine",
    "engine_id",
    engine_id=TEXT,
    slot_space=TEXT,
    weight=sa.Double(),
    info=JSON,
    seen_at=INSTANT,
)
API_TOKEN = _table(
    "api_token",
    "token_sha256",
    token_sha256=BYTES,
    name=TEXT,
    scopes=ARRAY(TEXT),
    expires_at=INSTANT,
    token_id=TEXT,
    branches=ARRAY(TEXT),
    tags=ARRAY(TEXT),
    created_by=TEXT,
    created_at=INSTANT,
    last_used_at=INSTANT,
    revoked_at=INSTANT,
    signature=BYTES,
)
CONTROL_LOG = _table(
    "control_log",
    "number",
    number=BIG,
    at=INSTANT,
    entry=JSON,
    previous_sha256=BYTES,
    sha256=BYTES,
    signature=BYTES,
)
CONTROL_LOG_TIP = _table("control_log_tip", "one", one=FLAG, number=BIG, sha256=BYTES)
WEBHOOK_CALL = _table(
    "webhook_call",
    "topic key",
    topic=TEXT,
    key=TEXT,
    digest=BYTES,
    from_offset=BIG,
    appending_until=INSTANT,
    at_partition=COUNT,
    at_offset=BIG,
    called_at=INSTANT,
)
SECRET, CONNECTION = (
    _table(
        name,
        "tenant_id name",
        tenant_id=BIG,
        name=TEXT,
        version=BIG,
        sealed=JSON,
        changed_by=TEXT,
        changed_at=INSTANT,
    )
    for name in ("secret", "connection")
)
ERASURE = _table(
    "erasure",
    "erasure_id",
    erasure_id=ID,
    tenant_id=BIG,
    branch=TEXT,
    dataset=TEXT,
    fields=ARRAY(TEXT),
    actor=TEXT,
    request_sha256=BYTES,
    state=TEXT,
    sealed=JSON,
    digests=ARRAY(BYTES),
    leave_sinks=ARRAY(TEXT),
    sinks=JSON,
    waits_for=TEXT,
    certificate=JSON,
    signature=BYTES,
    owner=TEXT,
    lease_expires_at=INSTANT,
    requested_at=INSTANT,
    finished_at=INSTANT,
)
BLOCKED_KEY = _table(
    "blocked_key",
    "tenant_id dataset digest",
    tenant_id=BIG,
    dataset=TEXT,
    digest=BYTES,
    erasure_id=ID,
)
BLOCKED_SOURCE = _table(
    "blocked_source",
    "tenant_id endpoint dataset sha256",
    tenant_id=BIG,
    endpoint=TEXT,
    dataset=TEXT,
    sha256=BYTES,
    form=JSON,
)
_TIMES: dict[str, _Type] = dict.fromkeys(("submitted_at", "started_at", "finished_at"), INSTANT)
OFFLINE_QUERY = _table(
    "offline_query",
    "request_id",
    request_id=ID,
    state=TEXT,
    manifest_id=ID,
    pin_id=BIG,
    actor=TEXT,
    request=JSON,
    signature=BYTES,
    progress=JSON,
    result=JSON,
    error=JSON,
    owner=TEXT,
    epoch=BIG,
    lease_expires_at=INSTANT,
    **_TIMES,
)
TRAINING_SET = _table(
    "training_set",
    "training_set_id",
    training_set_id=ID,
    branch=TEXT,
    name=TEXT,
    request_id=ID,
    commit_id=ID,
    content_sha256=BYTES,
    data_sha256=BYTES,
    rows=BIG,
    description=JSON,
    signature=BYTES,
    created_at=INSTANT,
)
AUDIT = _table(
    "audit",
    "audit_id",
    audit_id=ID,
    dataset=TEXT,
    branch=TEXT,
    from_us=BIG,
    to_us=BIG,
    result=JSON,
    success=FLAG,
    at=INSTANT,
    commit_id=ID,
    is_critical=FLAG,
    examples=JSON,
)
_DIFFS: dict[str, _Type] = {"result": JSON, "examples": JSON, "at": INSTANT}
VALUE_DIFF = _table("value_diff", "commit_id dataset", commit_id=ID, dataset=TEXT, **_DIFFS)
ANSWER_OFFSET = _table("answer_offset", "partition", partition=COUNT, next_offset=BIG)
FEATURE_SUMMARY = _table(
    "feature_summary", "branch feature hour", branch=TEXT, feature=TEXT, hour=INSTANT, summary=BYTES
)
PINNED_WINDOW = _table(
    "pinned_window",
    "branch name feature",
    branch=TEXT,
    name=TEXT,
    feature=TEXT,
    from_at=INSTANT,
    to_at=INSTANT,
    summary=BYTES,
    created_at=INSTANT,
)
FEATURE_DRIFT = _table(
    "feature_drift",
    "branch feature reference_kind reference from_at to_at",
    branch=TEXT,
    feature=TEXT,
    reference_kind=TEXT,
    reference=TEXT,
    from_at=INSTANT,
    to_at=INSTANT,
    rows=BIG,
    reference_rows=BIG,
    is_compared=FLAG,
    severity=TEXT,
    metrics=JSON,
    at=INSTANT,
)
_FINDING: dict[str, _Type] = {
    "rule": TEXT,
    "branch": TEXT,
    "subject": TEXT,
    "severity": TEXT,
    "summary": TEXT,
    "remedy": TEXT,
    "page": TEXT,
}
ALERT = _table("alert", "rule branch subject", **_FINDING, started_at=INSTANT)
ALERT_FINDING = _table("alert_finding", "rule branch subject", **_FINDING, expires_at=INSTANT)
ALERT_SILENCE = _table(
    "alert_silence",
    "silence_id",
    silence_id=ID,
    rule=TEXT,
    branch=TEXT,
    subject=TEXT,
    reason=TEXT,
    created_by=TEXT,
    created_at=INSTANT,
    until=INSTANT,
)
ALERT_NOTICE = _table(
    "alert_notice",
    "receiver rule branch",
    receiver=TEXT,
    rule=TEXT,
    branch=TEXT,
    announced=JSON,
    announced_at=INSTANT,
    message_id=ID,
    message=JSON,
    attempts=COUNT,
    next_attempt_at=INSTANT,
    error=TEXT,
    delivered_at=INSTANT,
)
_LEASE: dict[str, _Type] = {"owner": TEXT, "expires_at": INSTANT}
ALERT_EVALUATOR = _table("alert_evaluator", "one", one=FLAG, **_LEASE, memory=JSON)
_SENT: dict[str, _Type] = {"sent_to": BIG, "missing": JSON, "backfills": JSON, "failures": COUNT}
LINEAGE_SENDER = _table("lineage_sender", "one", one=FLAG, **_LEASE, **_SENT, error=TEXT)
_SERIES: dict[str, _Type] = {"kind": TEXT, "branch": TEXT, "subject": TEXT, "counters": JSON}
METRIC_SERIES = _table("metric_series", "series_id", series_id=BIG, **_SERIES, sampled_at=INSTANT)
_SAMPLE: dict[str, _Type] = {"minutes": COUNT, "at": INSTANT, "numbers": ARRAY(sa.REAL())}
METRIC_SAMPLE = _table("metric_sample", "series_id minutes at", series_id=BIG, **_SAMPLE)
STORE_FORMAT = _table("store_format", "kind", kind=TEXT, version=COUNT, recorded_at=INSTANT)
REFCOUNT = sa.table("asset_refcount", sa.column("asset_id", BIG), sa.column("refs", BIG))
