# ruff: noqa: SLF001 (guards are where they are)
"""The guards of the protocol, each with its switch and the tests that must notice."""

from collections.abc import Callable

import attrs

from narthex_ledger.alerts.alert_api import Alerts
from narthex_ledger.branches import lifecycle
from narthex_ledger.commits import creation, ending, planning, promotion
from narthex_ledger.commits.commit_api import Assets
from narthex_ledger.db import single_leases
from narthex_ledger.db.statements import alerts as on_alerts
from narthex_ledger.db.statements import assets as on_assets
from narthex_ledger.db.statements import inventory as on_inventory
from narthex_ledger.db.statements import jobs as on_jobs
from narthex_ledger.db.statements import offline as on_offline
from narthex_ledger.db.statements import pins as on_pins
from narthex_ledger.erasures import erased_sinks, erasing
from narthex_ledger.gc import destruction
from narthex_ledger.jobs_and_slots import job_registry
from narthex_ledger.requests import commit_requests
from narthex_server.alerts.evaluator import AlertLoop
from narthex_server.deploy import auditor, offline_files, recovery
from narthex_server.deploy.executor import Executor
from narthex_server.deploy.garbage_collector import Collector
from narthex_server.deploy.quality_gates import QualityGates
from narthex_server.deploy.store_ownership import OwnedStoreAdapter
from narthex_server.erasures.erasing import Eraser
from tests.crash import test_alerts, test_auditor, test_erasure, test_recovery, test_retention
from tests.ledger.alerts import test_alert_api
from tests.ledger.branches import test_branches
from tests.ledger.commits import test_abort, test_commit
from tests.ledger.db import test_locks, test_schema
from tests.ledger.erasures import test_erased_sinks, test_erasing
from tests.ledger.jobs_and_slots import test_job_registry
from tests.reference.mutants.edits import Patch, edited

Notices = Callable[..., None]


@attrs.frozen(kw_only=True)
class Guard:
    """One thing that the protocol does to be safe.

    Attributes:
        off: Switches it off in the code of this process.
        sql: Or in the database.
        noticed_by: Tests of which at least one must fail then, the quickest first.
    """

    name: str
    noticed_by: tuple[Notices, ...]
    off: Patch | None = None
    sql: str = ""


def _off(
    name: str, function: object, old: str, *noticed_by: Notices, new: str = "if False:"
) -> Guard:
    return Guard(name=name, off=edited(function, old, new), noticed_by=noticed_by)


def _sql(name: str, statement: str, *noticed_by: Notices) -> Guard:
    return Guard(name=name, sql=statement, noticed_by=noticed_by)


_QUIET = "if not on_assets.quiet_since_create(connection, asset_id, rules.quiesce_margin):"

GUARDS = (
    _off(
        "intent is written before the call",
        Assets.intend,
        "self._db.run(",
        test_abort.test_a_call_in_flight_is_waited_for_before_its_asset_is_destroyed,
        new="self._db.transactions.dry_run(",
    ),
    _off(
        "a probe comes before done",
        Executor._make,
        "match found:",
        test_recovery.test_a_call_that_had_no_effect_is_not_believed,
        new="match Match('anything'):",
    ),
    _off(
        "an old fence is refused",
        commit_requests._checked,
        "if commit.fence != fence:",
        test_commit.test_a_zombie_executor_writes_nothing,
    ),
    _off(
        "a pin is looked for under the asset's lock",
        destruction.mark,
        "if on_pins.pinned_assets(connection, [asset_id]):",
        test_abort.test_an_asset_that_a_pin_reaches_is_not_retired,
    ),
    _off(
        "only what retires is destroyed",
        destruction._why_not,
        "if asset.state not in {AssetState.RETIRING.value, AssetState.DESTROYING.value}:",
        test_locks.test_the_collector_does_not_take_an_asset_that_a_plan_is_sharing,
    ),
    _off(
        "a plan locks what it shares",
        on_assets.lock_retained,
        ".with_for_update(key_share=True, of=ASSET)",
        test_locks.test_from_a_plans_look_on_the_collector_finds_its_assets_locked,
        new="",
    ),
    _off(
        "a destroy call waits for create calls",
        destruction.destroy_call,
        _QUIET,
        test_abort.test_a_call_in_flight_is_waited_for_before_its_asset_is_destroyed,
    ),
    _off(
        "destroyed waits for create calls",
        destruction.destroyed,
        _QUIET,
        test_abort.test_a_call_in_flight_is_waited_for_before_its_asset_is_destroyed,
    ),
    _off(
        "names are used once",
        planning._reserve_assets,
        "known.get(key, _NEVER).newest + 1",
        test_abort.test_an_asset_that_is_being_destroyed_is_made_anew_under_another_name,
        new="1",
    ),
    _off(
        "an abort leaves what others pin",
        ending._unref,
        "if asset_id not in pinned:",
        test_abort.test_an_asset_shared_with_a_commit_in_flight_survives_its_makers_abort,
        new="if True:",
    ),
    _off(
        "an abort hands creations over",
        ending._unref,
        "elif mine and asset_id in heirs:",
        test_abort.test_an_asset_shared_with_a_commit_in_flight_survives_its_makers_abort,
        new="elif False:",
    ),
    _off(
        "an unanswered commit is read before it is repeated",
        ending.commit,
        "if row.state in {CommitState.COMMITTED.value, CommitState.FINALIZED.value}:",
        test_commit.test_a_commit_whose_answer_is_lost_is_read_before_it_is_repeated,
    ),
    _off(
        "what has happened is not aborted",
        ending.abort,
        "if state in {CommitState.COMMITTED, CommitState.FINALIZED}:",
        test_locks.test_an_abort_that_meets_the_commit_point_loses,
    ),
    _off(
        "what was cancelled does not happen",
        creation.check_ready,
        "if commit.cancel_requested_at is not None:",
        test_locks.test_a_commit_point_that_meets_a_cancel_loses,
    ),
    _off(
        "ready means live",
        creation.ready,
        "if waiting:",
        test_commit.test_ready_needs_every_asset_live,
    ),
    _off(
        "an asset is made after its needs",
        creation._turn,
        "if missing:",
        test_commit.test_an_asset_waits_for_its_needs,
    ),
    _off(
        "an asset goes after what needs it",
        destruction._why_not,
        "if dependants:",
        test_abort.test_an_asset_is_destroyed_after_its_dependents,
    ),
    _off(
        "an old fence of a destruction is refused",
        destruction._hold,
        "entry.fence != fence or ",
        test_abort.test_two_collectors_do_not_destroy_one_asset,
        new="",
    ),
    _off(
        "a destruction has one holder",
        destruction._why_not,
        "if entry.held:",
        test_abort.test_two_collectors_do_not_destroy_one_asset,
    ),
    _off(
        "a job is still before it is destroyed",
        destruction._why_not,
        'return stop_job(connection, asset_id, rules) if _has_job(asset) else ""',
        test_abort.test_a_running_job_is_stopped_before_it_is_destroyed,
        new='return ""',
    ),
    _off(
        "readiness is of this generation",
        promotion._why_not,
        "if shard.seen_generation != job.generation:",
        test_commit.test_evidence_of_an_older_generation_does_not_count,
    ),
    _off(
        "readiness is of this epoch",
        promotion._why_not,
        "if shard.seen_epoch != shard.slot_epoch:",
        test_commit.test_evidence_of_an_older_slot_epoch_does_not_count,
    ),
    _off(
        "evidence is fresh when readers flip",
        promotion._proof,
        "if frozenset(evidence) != frozenset(fresh.evidence):",
        test_commit.test_evidence_of_an_older_slot_epoch_does_not_count,
        test_commit.test_without_evidence_readers_stay,
    ),
    _off(
        "readiness lasts",
        promotion._why_not,
        "if shard.caught_up_reports < rules.caught_up_reports:",
        test_commit.test_a_job_that_has_only_just_caught_up_is_not_ready,
    ),
    _off(
        "a person approves",
        promotion._proof,
        "if policy is PromotionPolicy.MANUAL and promotion.approved_by is None:",
        test_commit.test_a_manual_promotion_waits_for_a_person,
    ),
    _off(
        "a later commit supersedes a pending promotion",
        promotion.open_promotion,
        "on_promotions.supersede(connection, commit.branch_id)",
        test_commit.test_a_later_commit_supersedes_a_pending_promotion,
        new="pass",
    ),
    _off(
        "a report has the slot's epoch",
        on_jobs.share_slots_of,
        "SLOT_LEASE.c.epoch == _REPORTS.c.epoch,",
        test_job_registry.test_a_report_with_an_old_epoch_is_refused,
        new="",
    ),
    _off(
        "a lease is renewed by its epoch",
        on_jobs.renew_slots,
        "sa.tuple_(SLOT_LEASE.c.slot, SLOT_LEASE.c.epoch).in_(list(leases)),",
        test_job_registry.test_a_lease_is_renewed_only_by_its_epoch,
        new="SLOT_LEASE.c.slot.in_([slot for slot, _ in leases]),",
    ),
    _off(
        "an expired lease is not renewed",
        on_jobs.renew_slots,
        "SLOT_LEASE.c.expires_at > NOW,",
        test_job_registry.test_an_expired_lease_won_back_has_a_new_epoch,
        test_job_registry.test_a_slot_has_one_holder_and_a_growing_epoch,
        new="",
    ),
    _off(
        "a lease of a job has one epoch",
        job_registry._hold_backfill,
        "job.backfill_epoch != epoch or ",
        test_job_registry.test_a_backfill_is_lent_to_one_run,
        new="",
    ),
    _off(
        "a key identifies one request",
        commit_requests.accept,
        "if before.request_sha256 != request.request_sha256:",
        test_commit.test_a_key_with_another_request_is_refused,
    ),
    _off(
        "a pinned base is the head",
        planning.reserve,
        "if commit.base_pinned and commit.base_seq != branch.head_seq:",
        test_commit.test_a_stale_base_is_rejected_if_it_was_pinned,
    ),
    _off(
        "a branch has one commit in flight",
        planning.plan,
        "if busy is not None:",
        test_commit.test_a_branch_has_one_commit_in_flight,
    ),
    _off(
        "the plan is the expected one",
        planning._judge,
        "if expected is not None and bytes(expected) != made.sha256:",
        test_commit.test_another_plan_than_the_expected_one_is_rejected_without_a_trace,
    ),
    _off(
        "a manifest is closed under needs",
        planning._bind,
        "if unbound:",
        test_abort.test_a_manifest_binds_all_that_its_assets_need,
    ),
    _off(
        "a pin is derived from one that is locked",
        on_pins.lock_pins,
        ".with_for_update()",
        test_locks.test_expiry_leaves_a_pin_that_another_is_derived_from,
        new="",
    ),
    _off(
        "no call without trust in the claim",
        Executor.create,
        "if self.clock() + CALL_TIMEOUT_S > leased_until:",
        test_recovery.test_a_process_that_was_stopped_after_its_claim_calls_no_store,
    ),
    _off(
        "absence is confirmed twice",
        Collector._patience,
        "SECOND_PROBE_S if order.kind is AssetKind.KAFKA_TOPIC else 0.0",
        test_recovery.test_a_topic_counts_as_gone_when_it_was_looked_for_twice,
        new="0.0",
    ),
    _off(
        "past the commit point only forward",
        recovery._must_be_undone,
        "if view.state is CommitState.COMMITTED:",
        test_recovery.test_past_the_commit_point_no_deadline_turns_a_commit_back,
    ),
    _off(
        "a superseded commit ends",
        Executor.promote,
        "if view.promotion is PromotionState.SUPERSEDED:",
        test_recovery.test_a_commit_that_another_supersedes_ends_although_its_jobs_never_catch_up,
    ),
    _off(
        "a stray is seen by two scans",
        on_inventory.confirmed,
        "EXTERNAL_INVENTORY.c.last_seen - EXTERNAL_INVENTORY.c.first_seen >= apart,",
        test_auditor.test_a_stray_is_reported_at_once_and_destroyed_after_a_second_scan,
        new="",
    ),
    _off(
        "the breaker",
        auditor.trips,
        "if wrong <= most:",
        test_auditor.test_a_round_that_would_destroy_too_much_destroys_nothing,
        new="if True:",
    ),
    _off(
        "the mark of the install",
        OwnedStoreAdapter.check,
        "if found - {mine}:",
        test_auditor.test_a_ledger_that_did_not_make_the_mark_destroys_nothing_until_it_is_adopted,
    ),
    _off(
        "an obsolete asset is not shared",
        on_assets.known_incarnations,
        "sa.func.bool_or(_IS_RETAINED)",
        test_erasing.test_a_later_plan_creates_successors_of_obsolete_assets_and_shares_the_others,
        new="sa.func.bool_or(ASSET.c.state.in_(_RETAINED))",
    ),
    _off(
        "a commit waits for the records of its endpoints",
        creation.ready,
        "check_filled(connection, commit.planned_manifest_id)",
        test_erasing.test_a_commit_waits_until_its_endpoints_have_their_records,
        new="pass",
    ),
    _off(
        "endpoints are held when all branches wait",
        erasing.hold,
        "if waiting:",
        test_erasing.test_endpoints_are_held_only_when_every_branch_waits,
    ),
    _off(
        "an erasure waits for readers",
        erasing._require_unread,
        "if holders:",
        test_erasing.test_readers_are_waited_for_and_old_commits_are_not,
    ),
    _off(
        "nothing goes back to obsolete assets",
        lifecycle.refuse_obsolete,
        "if any(on_erasures.binds_obsolete(connection, manifest) for manifest in manifests):",
        test_erasing.test_nothing_goes_back_to_obsolete_assets,
    ),
    _off(
        "certified when destroyed",
        erasing.certify,
        "if left:",
        test_erasing.test_obsolete_assets_are_destroyed_at_once_and_only_then_certified,
    ),
    _off(
        "an erasure has one holder",
        erasing._hold,
        "if not on_erasures.has_lease(connection, erasure_id, owner):",
        test_erasing.test_only_the_process_with_the_lease_takes_steps,
    ),
    _off(
        "what a search finds is not certified",
        Eraser._remove,
        "if result.found:",
        test_erasure.test_an_erasure_is_not_certified_while_a_search_finds_something,
    ),
    _off(
        "a second search follows",
        Eraser._remove,
        "if self.clock() - since < SETTLED_S:",
        test_erasure.test_a_second_search_follows_before_the_certificate,
    ),
    _off(
        "deletions in targets are waited for",
        Eraser._delete_in_targets,
        "if waiting:",
        test_erasure.test_an_erasure_waits_until_its_rows_are_deleted_from_targets,
    ),
    _off(
        "rows end in logs that nothing else writes",
        Eraser._delete_in_targets,
        "if busy:",
        test_erasure.test_rows_end_when_all_writers_of_their_logs_have_stopped,
    ),
    _off(
        "a new sink waits for the obsolete one",
        job_registry.start_jobs,
        "and job.asset_id not in waiting",
        test_erased_sinks.test_a_new_sink_waits_and_readers_flip_without_it,
        new="",
    ),
    _off(
        "readers flip without waiting sinks",
        promotion._checked_jobs,
        "if job.asset_id not in waiting",
        test_erased_sinks.test_a_new_sink_waits_and_readers_flip_without_it,
        new="",
    ),
    _off(
        "an obsolete sink has stopped before the new one writes",
        erased_sinks.start_successors,
        "if why:",
        test_erased_sinks.test_a_new_sink_writes_only_when_the_obsolete_one_has_stopped,
    ),
    _off(
        "new sinks write after a confirmation",
        erased_sinks.start_successors,
        "if erasure.sinks is None:",
        test_erased_sinks.test_a_new_sink_writes_only_when_the_obsolete_one_has_stopped,
    ),
    _off(
        "a confirmation is stored once",
        erased_sinks.confirm,
        "if erasure.sinks is None:",
        test_erased_sinks.test_the_first_confirmation_is_kept,
        new="if True:",
    ),
    _off(
        "a sink that deletes is not paused",
        on_pins.cold_jobs,
        ", ~DELETES_ROWS",
        test_erased_sinks.test_a_sink_that_deletes_is_not_paused_when_nothing_keeps_it_warm,
        new="",
    ),
    _off(
        "readers wait for the gates",
        promotion._pass_gates,
        "if missing:",
        test_commit.test_readers_wait_for_the_gates_of_all_datasets,
    ),
    _off(
        "readers never read what broke a gate",
        promotion._pass_gates,
        "if broken:",
        test_commit.test_readers_never_read_a_commit_that_breaks_a_critical_expectation,
    ),
    _sql(
        "a gate has one outcome",
        "DROP INDEX audit_gate",
        test_commit.test_the_first_outcome_of_a_gate_is_kept,
    ),
    _off(
        "gates are of what readers would read anew",
        QualityGates.outcomes,
        "if not missing:",
        test_retention.test_a_commit_that_breaks_its_gate_is_reverted_with_its_assets,
        new="if True:",
    ),
    _off(
        "a commit that breaks its gate is taken back",
        recovery.Recovery._promote,
        "self.roll_back(commit_id)",
        test_retention.test_a_commit_that_breaks_its_gate_is_reverted_with_its_assets,
        new="pass",
    ),
    _off(
        "only snapshots of what is destroyed are deleted",
        Collector.delete_snapshots,
        "if row.state is AssetState.DESTROYED",
        test_retention.test_only_snapshots_of_destroyed_indexes_are_deleted,
        new="if True",
    ),
    _off(
        "snapshots of others stay",
        Collector.delete_snapshots,
        "if divided_index(name) in destroyed",
        test_retention.test_only_snapshots_of_destroyed_indexes_are_deleted,
        new="if True",
    ),
    _off(
        "a pin is kept until it expires",
        on_pins.delete_expired,
        ".where(PIN.c.expires_at < NOW)",
        test_branches.test_a_clone_retains_its_assets_when_its_source_changes,
        test_branches.test_a_deleted_branch_is_retained_and_then_released,
        new="",
    ),
    _off(
        "a deleted branch keeps its assets",
        lifecycle.delete,
        "expires_at=on_commits.NOW + rules.undelete_window,",
        test_branches.test_the_jobs_of_a_deleted_branch_pause_until_it_is_restored,
        test_branches.test_a_deleted_branch_is_retained_and_then_released,
        new="expires_at=None,",
    ),
    _off(
        "a branch comes back only with its assets",
        lifecycle.undelete,
        "if len(pins) != (head is not None) + (serving is not None):",
        test_branches.test_a_deleted_branch_is_retained_and_then_released,
    ),
    _off(
        "one server evaluates alerts",
        single_leases.claim,
        "table.c.owner == owner,",
        test_alert_api.test_one_server_evaluates_until_its_lease_ends,
        new="sa.true(),",
    ),
    _off(
        "alerts are stored under the lease",
        Alerts.store,
        "if not on_alerts.holds_evaluation(connection, owner, lock=True):",
        test_alert_api.test_a_server_without_the_lease_stores_and_delivers_nothing,
    ),
    _off(
        "messages are sent under the lease",
        Alerts.due,
        "if is_mine else ()",
        test_alert_api.test_a_server_without_the_lease_stores_and_delivers_nothing,
        new="",
    ),
    _off(
        "a delivered message is not stored again",
        on_alerts.put_notice,
        ".where(*place, same)",
        test_alert_api.test_a_message_that_was_delivered_meanwhile_is_not_stored_again,
        new=".where(*place)",
    ),
    _off(
        "a message that failed waits",
        on_alerts.due_notices,
        ".where(ALERT_NOTICE.c.next_attempt_at <= NOW)",
        test_alert_api.test_a_message_is_due_until_it_is_delivered,
        new=".where(ALERT_NOTICE.c.message_id.is_not(None))",
    ),
    _off(
        "a message that was not taken is sent again",
        AlertLoop._deliver_one,
        "self._ledger.alerts.failed(message_id, error=str(error), delay=delay)",
        test_alerts.test_a_message_that_was_not_taken_is_sent_again,
        new="self._ledger.alerts.delivered(message_id)",
    ),
    _off(
        "a message stays until it is delivered",
        on_alerts.due_notices,
        ".where(ALERT_NOTICE.c.next_attempt_at <= NOW)",
        test_alerts.test_a_message_whose_sender_died_is_sent_by_the_next_server,
        new=".where(ALERT_NOTICE.c.next_attempt_at > NOW - dt.timedelta(seconds=30))",
    ),
    _off(
        "answers of queries that ended lately stay",
        on_offline.kept_queries,
        "finished_at > NOW - keep",
        test_retention.test_answers_are_deleted_a_week_after_their_queries_end,
        new="sa.false()",
    ),
    _off(
        "answers of queries that ended long ago go",
        on_offline.kept_queries,
        "finished_at > NOW - keep",
        test_retention.test_answers_are_deleted_a_week_after_their_queries_end,
        new="sa.true()",
    ),
    _off(
        "answers that no query has yet stay",
        offline_files.delete_expired,
        " and _age(path, now) > UNQUEUED",
        test_retention.test_answers_are_deleted_a_week_after_their_queries_end,
        new="",
    ),
    _sql(
        "a blocked key stays blocked",
        "DROP TRIGGER blocked_key_stays ON blocked_key",
        test_erasing.test_a_blocked_key_stays_blocked,
    ),
    _sql(
        "the database checks an asset's states",
        "DROP TRIGGER asset_states ON asset",
        test_locks.test_why_the_collector_checks_in_a_second_statement,
    ),
    _sql(
        "what happened is never changed",
        "DROP TRIGGER ledger_event_append_only ON ledger_event",
        test_schema.test_events_are_never_changed,
    ),
)
