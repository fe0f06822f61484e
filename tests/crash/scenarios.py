"""The scenarios of crash tests: the initial state, the actions, the expected result."""

import datetime as dt
from collections.abc import Callable
from uuid import UUID

import attrs

from narthex._ir import Expectation, Schema, Severity
from narthex._ir.assets import (
    AssetBlueprint,
    AssetKind,
    DatasetPlan,
    FeedSpec,
    HistorySpec,
    IndexSpec,
    SinkJobSpec,
    TopicRole,
    TopicSpec,
)
from narthex_ledger import (
    AlertFinding,
    AuditView,
    BlockedSource,
    CommitState,
    Desired,
    ErasureRequest,
    PromotionPolicy,
)
from tests.crash.world import BLUEPRINTS, STRAY, ServerProcess, World, blueprint, later
from tests.ledger.world import (
    LOG,
    asset,
    erasable,
    files_dataset,
    fingerprint,
    sink,
    topic,
    webhook_dataset,
)


def tiny(name: str) -> tuple[AssetBlueprint, ...]:
    """A log, an index, and the row that feeds one from the other."""
    log = topic(name)
    index = asset(AssetKind.INDEX, name, IndexSpec(log=LOG))
    feed = asset(AssetKind.INDEX_FEED, name, FeedSpec(dataset=name, log=LOG), log=log, index=index)
    return log, index, feed


def checked(name: str) -> tuple[AssetBlueprint, ...]:
    """A dataset with an index and a history, which a gate checks."""
    log, *others = tiny(name)
    history = asset(AssetKind.HISTORY, name, HistorySpec(log=LOG), log=log)
    return log, attrs.evolve(history, paths=(f"dataset/{name}/history",)), *others


def plan(name: str, severity: Severity) -> DatasetPlan:
    """The plan of a checked dataset with one expectation."""
    expectation = Expectation(
        kind="expect_column_values_to_not_be_null", arguments=(), severity=severity
    )
    return DatasetPlan(
        name=name,
        version=1,
        schema=Schema(fields=()),
        log=LOG,
        aggregates=(),
        ladder_us=(),
        online=True,
        offline=True,
        expectations=(expectation,),
    )


MEMBERS = erasable("members")
ONE = blueprint("one", tiny("one"))
TWO = blueprint("two", tiny("two"))
BOTH = blueprint("both", tiny("one"), tiny("two"))
WHOLE = blueprint("whole", webhook_dataset("whole"))
PAST = blueprint("past", files_dataset("past"))
NOTHING = blueprint("nothing")
ERASABLE = blueprint("erasable", erasable("members"), tiny("one"))
ERASABLE_WITH_SINK = blueprint("erasable with sink", MEMBERS, sink("members", MEMBERS[1]))
ERASABLE_TOO = blueprint("erasable too", erasable("members"), tiny("two"))
CHECKED = blueprint("checked", checked("good"), plans=(plan("good", Severity.WARNING),))
SPOILT = blueprint(
    "spoilt",
    checked("good"),
    checked("bad"),
    plans=(plan("good", Severity.WARNING), plan("bad", Severity.CRITICAL)),
)
"""The history of `bad` breaks a critical expectation."""

Play = Callable[[World, ServerProcess], None]


def ask(number: int, wanted: str, branch: str = "main", **how: object) -> Play:
    """Ask for a commit; `how` are other parts of its request."""

    def play(world: World, life: ServerProcess) -> None:
        request = world.request(number, wanted, branch=branch)
        life.submit(attrs.evolve(request, **how))  # type: ignore[arg-type]

    return play


def settle(world: World, life: ServerProcess) -> None:
    world.settle(life)


def look(_world: World, life: ServerProcess) -> None:
    """One turn of the recovery loop: up to what a supervisor has to do."""
    life.recovery.look()


def deploy(number: int, wanted: str, branch: str = "main") -> Play:
    return acts(ask(number, wanted, branch), settle)


def begin(number: int, wanted: str, branch: str = "main", *, create: int = 0) -> Play:
    """Plan a commit, create the first few of its assets, and leave it at that."""

    def play(world: World, life: ServerProcess) -> None:
        commit_id = life.submit(world.request(number, wanted, branch=branch))
        if life.attempt(lambda: life.executor.plan(commit_id)):
            for found in life.ledger.commits.get(commit_id).assets[:create]:
                life.attempt(lambda found=found: life.executor.create(commit_id, found.asset_id))

    return play


def cancel(number: int) -> Play:
    def play(world: World, life: ServerProcess) -> None:
        commit_id = world.commit_id(number)
        life.attempt(lambda: life.ledger.commits.cancel(commit_id, actor="ada"))
        life.recovery.notice(commit_id)

    return play


def wait(**span: float) -> Play:
    return lambda world, _life: world.wait(later(**span))


def wait_until(**span: float) -> Play:
    """Wait until so long after the world began."""
    return lambda world, _life: world.wait(max(0.0, later(**span) - world.seconds))


def sweep(_world: World, life: ServerProcess) -> None:
    life.attempt(life.collector.sweep)


def begin_to_destroy(world: World, life: ServerProcess) -> None:
    """Destroy what can be, one step into each."""
    for asset_id in life.ledger.gc.due_destroys():
        life.attempt(lambda a=asset_id: life.ledger.gc.destroy_intent(a, life.collector.owner))
    del world


def acts(*plays: Play) -> Play:
    def play(world: World, life: ServerProcess) -> None:
        for one in plays:
            one(world, life)

    return play


@attrs.frozen(kw_only=True)
class Scenario:
    """A scenario that runs once without a fault and then with each one.

    Attributes:
        name: For the table.
        given: The initial actions, without a fault.
        when: The actions; a client whose server died repeats them from the start.
        then: The recovery, by any remaining process.
        serve: Of each of these, at least one commit of such a number must have come to its end.
        wrong: What else is wrong at the end.
    """

    name: str
    when: Play
    given: Play = lambda _world, _life: None
    then: Play = settle
    serve: tuple[tuple[int, ...], ...] = ()
    wrong: Callable[[World], list[str]] = lambda _world: []

    def wrong_end(self, world: World) -> list[str]:
        """Say which commits have not come to where they must."""
        found = {
            int(row["commit_id"]): row["state"]
            for row in world.rows("SELECT commit_id, state FROM deploy_commit")
        }
        return [
            *(
                f"none of commits {some} is FINALIZED: {[found.get(n) for n in some]}"
                for some in self.serve
                if not any(found.get(n) == CommitState.FINALIZED.value for n in some)
            ),
            *self.wrong(world),
        ]


def _wrong_erasure(world: World) -> list[str]:
    """Say what is wrong at the end of an erasure."""
    states = [row["state"] for row in world.rows("SELECT state FROM erasure")]
    obsolete = world.rows("SELECT physical_name, state FROM asset WHERE obsolete_by IS NOT NULL")
    live = world.rows(
        "SELECT physical_name, filled_from FROM asset WHERE state = 'live' AND incarnation > 1"
        " AND kind = 'kafka_topic' AND spec::text LIKE '%ingest%'"
    )
    return [
        *(["the erasure is not certified"] if states != ["certified"] else []),
        *(["nothing was obsolete"] if not obsolete else []),
        *(
            f"obsolete, and there: {row['physical_name']}"
            for row in obsolete
            if row["state"] != "destroyed" or row["physical_name"] in world.there()
        ),
        *(
            f"not whole: {row['physical_name']}"
            for row in live
            if row["filled_from"] is None or row["physical_name"] not in world.topics.whole
        ),
        *(["no endpoint has a successor"] if not live else []),
    ]


def _wrong_targets(world: World) -> list[str]:
    """Say what is wrong at the end of an erasure of rows that a sink has written."""
    certificates = [
        row["certificate"] or {} for row in world.rows("SELECT certificate FROM erasure")
    ]
    listed = [one for certificate in certificates for one in certificate.get("sinks", [])]
    running = [
        job.asset.physical_name
        for job in world.supervisor.jobs.all()
        if isinstance(job.asset.spec, SinkJobSpec) and job.desired is Desired.RUNNING
    ]
    names = {str(job["job"]) for one in listed for job in one.get("deletions", ())}
    return [
        *_wrong_erasure(world),
        *world.topics.wrong,
        *([f"the target is listed as {listed}"] if not names else []),
        *(f"certified, and not deleted: {name}" for name in names - world.topics.deleted),
        *([f"sinks that run: {running}"] if len(running) != 1 else []),
    ]


def take_back(number: int) -> Play:
    """End a commit as its run does when it fails."""

    def play(world: World, life: ServerProcess) -> None:
        commit_id = world.commit_id(number)
        life.attempt(lambda: life.recovery.roll_back(commit_id))

    return play


def approve(number: int) -> Play:
    def play(world: World, life: ServerProcess) -> None:
        commit_id = world.commit_id(number)
        life.attempt(lambda: life.ledger.promotions.approve(commit_id, actor="ada"))

    return play


def protect(world: World, life: ServerProcess) -> None:
    life.attempt(lambda: life.ledger.branches.protect(world.tenant, "main", actor="ada"))


def reject(number: int) -> Play:
    """Reject a commit as a person does, and again until that is answered."""
    return lambda world, life: _reject(life, world.commit_id(number))


def settle_rejecting(world: World, life: ServerProcess) -> None:
    """Settle, with a person who rejects whatever waits for one."""
    world.settle(life, decide=lambda commit_id: _reject(life, commit_id))


def _reject(life: ServerProcess, commit_id: UUID) -> None:
    def once() -> None:
        view = life.ledger.commits.get(commit_id)
        life.recovery.reject(view, actor="grace", reason="too wide")

    life.attempt(once)


def _wrong_rejection(*, number: int, read: str | None) -> Callable[[World], list[str]]:
    """Say what is wrong if a commit was rejected and readers still read the assets of `read`."""

    def wrong(world: World) -> list[str]:
        (ended,) = world.rows(_END_OF, commit_id=world.commit_id(number))
        rejections = [
            one.actor
            for one in world.supervisor.commits.events(world.commit_id(number))
            if one.transition == "rejected"
        ]
        kept = {one.fingerprint for one in BLUEPRINTS[read].assets} if read else set()
        bound = {bytes(row["fingerprint"]) for row in world.rows(_READ_ON_MAIN)}
        live = world.rows("SELECT physical_name, kind, fingerprint FROM asset WHERE state = 'live'")
        left = [row for row in live if bytes(row["fingerprint"]) not in kept]
        jobs = {job.asset.physical_name for job in world.supervisor.jobs.all()}
        return [
            *([f"it ended as {ended}"] if ended != _REJECTED else []),
            *([f"rejections: {rejections}"] if rejections != ["grace"] else []),
            *(["readers do not read what they read before"] if bound != kept else []),
            *(f"left: {row['kind']} {row['physical_name']}" for row in left),
            *(f"a job left: {name}" for name in jobs - {row["physical_name"] for row in live}),
        ]

    return wrong


_END_OF = """
SELECT deploy_commit.state, promotion.state AS promotion, approved_by
  FROM deploy_commit LEFT JOIN promotion USING (commit_id) WHERE commit_id = :commit_id
"""
_REJECTED = {"state": "FINALIZED", "promotion": "SUPERSEDED", "approved_by": None}
_READ_ON_MAIN = """
SELECT fingerprint FROM branch JOIN deploy_commit ON commit_id = serving_commit_id
  JOIN manifest_binding USING (manifest_id) JOIN asset USING (asset_id) WHERE name = 'main'
"""


def clone(number: int, name: str, *, source: str) -> Play:
    def play(world: World, life: ServerProcess) -> None:
        plan_request = world.branch_request(number, name)
        life.attempt(lambda: life.ledger.branches.clone(plan_request, source=source))

    return play


def delete(number: int, name: str) -> Play:
    def play(world: World, life: ServerProcess) -> None:
        life.attempt(lambda: life.ledger.branches.delete(world.branch_request(number, name)))

    return play


def undelete(number: int, name: str) -> Play:
    def play(world: World, life: ServerProcess) -> None:
        life.attempt(lambda: life.ledger.branches.undelete(world.branch_request(number, name)))

    return play


def roll_back(number: int, *, to_seq: int | None = None) -> Play:
    def play(world: World, life: ServerProcess) -> None:
        plan_request = world.branch_request(number, "main")
        life.attempt(lambda: life.ledger.branches.roll_back(plan_request, to_seq=to_seq))

    return play


def leave(world: World, name: str) -> None:
    """Create an unrecorded topic, as a creation does that comes too late."""
    spec = TopicSpec(role=TopicRole.DATASET, partitions=1)
    world.stores[AssetKind.KAFKA_TOPIC].things.create(name, spec, asset_id=0, timeout_s=1.0)
    world.tampered.add(name)


def leave_a_stray(world: World, _life: ServerProcess) -> None:
    leave(world, STRAY)


def lose_a_topic(world: World, _life: ServerProcess) -> None:
    store = world.stores[AssetKind.KAFKA_TOPIC].things
    for one in store.list("", timeout_s=1.0):
        store.destroy(one.name, external_id=one.external_id, timeout_s=1.0)
        world.tampered.add(one.name)


def audit(world: World, life: ServerProcess) -> None:
    world.audit(life)


replaced = acts(deploy(1, ONE), deploy(2, TWO), wait(days=8), sweep)

ERASURE = UUID(int=900)


def ask_to_erase(world: World, life: ServerProcess) -> None:
    """Ask for an erasure as a client does, and again until it is answered."""
    request = ErasureRequest(
        erasure_id=ERASURE,
        tenant=world.tenant,
        branch="main",
        dataset="members",
        fields=("person",),
        actor="ada",
        request_sha256=fingerprint("erase"),
        digests=(fingerprint("a key"),),
        sealed={"value": "sealed"},
        sources=(BlockedSource(endpoint="w/members", dataset="members", form={}),),
    )
    life.attempt(lambda: life.ledger.erasures.request(request))


def begin_erasure(world: World, life: ServerProcess) -> None:
    """Let one process carry an erasure out as far as it can."""
    for _ in range(40):
        world.catch_up()
        life.recovery.look()
        life.eraser.look()
        world.wait(5.0)


FOREIGN = "nx_of_another_installation"


def copy_indexes(world: World, _life: ServerProcess) -> None:
    """Take a snapshot of every index that exists, and of a shard of it."""
    for one in world.stores[AssetKind.INDEX].things.list("", timeout_s=1.0):
        world.copies.names.update((one.name, f"{one.name}_s1"))
    world.copies.names.add(FOREIGN)


def copy_late(world: World, _life: ServerProcess) -> None:
    """Store a snapshot that was begun before its index was destroyed."""
    for row in world.rows(
        "SELECT physical_name FROM asset WHERE kind = 'index' AND state = 'destroyed'"
    ):
        world.copies.names.add(str(row["physical_name"]))


def delete_snapshots(_world: World, life: ServerProcess) -> None:
    life.attempt(life.collector.delete_snapshots)


def _wrong_snapshots(world: World) -> list[str]:
    there = {one.name for one in world.stores[AssetKind.INDEX].things.list("", timeout_s=1.0)}
    kept = {FOREIGN, *there, *(f"{name}_s1" for name in there)}
    return [f"snapshots: {name}" for name in sorted(world.copies.names ^ kept)]


OLD, NEW = UUID(int=701), UUID(int=702)


def note_keys(audit_id: UUID) -> Play:
    """Store the outcome of an audit, with the keys of rows, and a call of a webhook."""

    def play(world: World, life: ServerProcess) -> None:
        audit = AuditView(
            audit_id=audit_id,
            commit_id=None,
            dataset="good",
            branch="main",
            from_us=None,
            to_us=None,
            result={"rows": 3},
            success=False,
            is_critical=False,
            examples=[["ann"]],
        )
        life.attempt(lambda: life.ledger.audits.record(audit))
        life.attempt(
            lambda: life.ledger.webhook_calls.begin(
                "topic", str(audit_id), digest=bytes(32), from_offset=0, within_s=5.0
            )
        )
        del world

    return play


def _wrong_retention(world: World) -> list[str]:
    """Say which keys were kept for too long, or not long enough."""
    audits = world.rows("SELECT audit_id, examples FROM audit")
    named = {row["audit_id"] for row in audits if row["examples"] is not None}
    calls = {UUID(row["key"]) for row in world.rows("SELECT key FROM webhook_call")}
    return [
        *(f"examples of audits {sorted(named)}" for _ in range(named != {NEW})),
        *(f"calls {sorted(calls)}" for _ in range(calls != {NEW})),
    ]


def _wrong_gates(world: World) -> list[str]:
    """Say which commits readers read without the outcomes of their gates, or against them."""
    unchecked = world.rows(
        "SELECT commit_id FROM deploy_commit JOIN promotion USING (commit_id)"
        " LEFT JOIN audit USING (commit_id)"
        " WHERE promotion.state = 'DONE' AND request = to_jsonb(cast(:wanted AS text))"
        " AND audit_id IS NULL",
        wanted=CHECKED,
    )
    read = {bytes(row["fingerprint"]) for row in world.rows(_READ_ON_MAIN)}
    good = {one.fingerprint for one in BLUEPRINTS[CHECKED].assets}
    return [
        *(f"promoted without a check: {row['commit_id']}" for row in unchecked),
        *(["readers do not read what passed its gates"] if read != good else []),
    ]


FINDING = AlertFinding(
    rule="nightly_check",
    branch="main",
    subject="one",
    severity="critical",
    summary="the nightly check failed",
    remedy="look at it",
    page="console/alerts",
)


def report(subject: str) -> Play:
    """Report a finding as another process than the server does, and again until it is stored."""

    def play(_world: World, life: ServerProcess) -> None:
        finding = attrs.evolve(FINDING, subject=subject)
        life.attempt(lambda: life.ledger.alerts.report(finding, lasts=dt.timedelta(days=9)))

    return play


def end_report(subject: str) -> Play:
    def play(_world: World, life: ServerProcess) -> None:
        life.attempt(lambda: life.ledger.alerts.end_report((FINDING.rule, "main", subject)))

    return play


def alert(world: World, life: ServerProcess) -> None:
    """Some turns of the loop of alerts."""
    for _ in range(3):
        life.attempt(life.alerts.turn)
        world.wait(5.0)


def _wrong_notices(world: World) -> list[str]:
    """Say what a receiver does not know, and which messages were never delivered."""
    firing = {str(row["subject"]) for row in world.rows("SELECT subject FROM alert")}
    known = world.inbox.firing()
    waiting = world.rows("SELECT rule FROM alert_notice WHERE message IS NOT NULL")
    return [
        *([f"firing {sorted(firing)}, and known {sorted(known)}"] if known != firing else []),
        *(["nothing fires"] if firing != {"two"} else []),
        *(f"never delivered: {row['rule']}" for row in waiting),
    ]


def ask_offline(query: UUID, *, ends: bool) -> Play:
    """Submit an offline query as a client does; its answer is written, and perhaps it ends."""

    def play(world: World, life: ServerProcess) -> None:
        manifest = life.ledger.commits.get(world.commit_id(1)).manifest_id
        queries = life.ledger.offline_queries
        life.attempt(
            lambda: queries.submit(query, manifest_id=manifest, request={}, actor="ada")  # type: ignore[arg-type]
        )
        world.outputs.write(query, seconds=world.seconds)
        if ends:
            life.attempt(lambda: queries.cancel(query))

    return play


def write_unasked(query: UUID) -> Play:
    """Write an answer of a query that was never stored."""
    return lambda world, _life: world.outputs.write(query, seconds=world.seconds)


def delete_outputs(world: World, life: ServerProcess) -> None:
    life.attempt(lambda: life.outputs.delete(seconds=world.seconds))


UNENDED, LEFT, LATELY_LEFT = UUID(int=703), UUID(int=704), UUID(int=705)


def _wrong_outputs(world: World) -> list[str]:
    """Say which answers were kept for too long, or not long enough."""
    kept = {NEW, UNENDED, LATELY_LEFT}
    return [f"answers: {query}" for query in sorted(world.outputs.names() ^ kept)]


DELIVER = Scenario(
    name="deliver alerts",
    when=acts(report("one"), alert, report("two"), alert, end_report("one"), alert),
    then=acts(wait(minutes=10), alert, alert),
    wrong=_wrong_notices,
)
EXPIRE = Scenario(
    name="delete expired outputs",
    given=acts(
        deploy(1, ONE),
        ask_offline(OLD, ends=True),
        ask_offline(UNENDED, ends=False),
        write_unasked(LEFT),
        wait(days=5),
        ask_offline(NEW, ends=True),
        wait_until(days=9),
    ),
    when=delete_outputs,
    then=acts(wait(days=1, hours=1), write_unasked(LATELY_LEFT), delete_outputs),
    wrong=_wrong_outputs,
)

ERASE = Scenario(
    name="erase",
    given=deploy(1, ERASABLE),
    when=acts(ask_to_erase, settle),
    wrong=_wrong_erasure,
)
ERASE_TARGETS = Scenario(
    name="erase what a sink has written",
    given=deploy(1, ERASABLE_WITH_SINK),
    when=acts(ask_to_erase, settle),
    wrong=_wrong_targets,
)
ERASE_ON_BRANCHES = Scenario(
    name="erase on two branches, after another commit",
    given=acts(deploy(1, ERASABLE), clone(2, "copy", source="main"), deploy(3, ERASABLE_TOO)),
    when=acts(ask_to_erase, settle),
    wrong=_wrong_erasure,
)
"""Its points are those of `ERASE`, on each branch."""

REJECT = Scenario(
    name="reject",
    given=acts(deploy(1, ONE), protect),
    when=acts(ask(2, BOTH), look, reject(2), settle_rejecting),
    then=settle_rejecting,
    wrong=_wrong_rejection(number=2, read=ONE),
)
REJECT_FIRST = Scenario(
    name="reject the first commit of a branch",
    when=acts(ask(1, ONE, promotion=PromotionPolicy.MANUAL), look, reject(1), settle_rejecting),
    then=settle_rejecting,
    wrong=_wrong_rejection(number=1, read=None),
)

SCENARIOS = (
    Scenario(name="deploy", when=deploy(1, ONE), serve=((1,),)),
    Scenario(name="deploy, whole", when=deploy(1, WHOLE), serve=((1,),)),
    Scenario(name="deploy, with a past", when=deploy(1, PAST), serve=((1,),)),
    Scenario(name="share", given=deploy(1, ONE), when=deploy(2, ONE, "dev"), serve=((2,),)),
    Scenario(
        name="replace and collect",
        given=deploy(1, ONE),
        when=acts(deploy(2, TWO), wait(days=8), settle),
        serve=((2,),),
    ),
    Scenario(
        name="cancel midway",
        when=acts(begin(1, ONE, create=1), cancel(1), settle),
    ),
    Scenario(
        name="cancel what another shares",
        given=begin(1, ONE, create=2),
        when=acts(begin(2, BOTH, "dev"), cancel(1), settle),
        serve=((2,),),
    ),
    Scenario(
        name="take over",
        given=begin(1, ONE, create=1),
        when=acts(wait(minutes=1), deploy(1, ONE)),
        serve=((1,),),
    ),
    Scenario(
        name="resurrect",
        given=replaced,
        when=acts(deploy(3, ONE)),
        serve=((3,),),
    ),
    Scenario(
        name="make anew",
        given=acts(replaced, wait(minutes=1), begin_to_destroy),
        when=acts(deploy(3, ONE)),
        serve=((3,),),
    ),
    Scenario(
        name="two branches, one asset",
        when=acts(begin(1, ONE), deploy(2, BOTH, "dev")),
        serve=((1,), (2,)),
    ),
    Scenario(
        name="two commits, one branch",
        when=acts(begin(1, ONE), deploy(2, BOTH)),
        serve=((1,), (2,)),
    ),
    Scenario(
        name="empty a branch",
        given=deploy(1, ONE),
        when=acts(deploy(2, NOTHING), wait(days=8), settle),
        serve=((2,),),
    ),
    Scenario(
        name="past its deadline",
        when=acts(ask(1, ONE, deadline_s=20.0), wait(minutes=1), settle),
    ),
    Scenario(
        name="another plan than expected",
        when=acts(ask(1, ONE, expected_plan_sha256=bytes(32)), settle),
    ),
    Scenario(
        name="superseded",
        given=deploy(1, ONE),
        when=acts(ask(2, TWO), look, deploy(3, BOTH)),
        serve=((2,), (3,)),
    ),
    Scenario(
        name="approve",
        given=deploy(1, ONE),
        when=acts(ask(2, TWO, promotion=PromotionPolicy.MANUAL), look, approve(2), settle),
        serve=((2,),),
    ),
    REJECT,
    REJECT_FIRST,
    Scenario(
        name="revert an unread commit",
        given=deploy(1, ONE),
        when=acts(ask(2, TWO), look, take_back(2), wait(days=8), settle),
    ),
    Scenario(
        name="roll back, hot",
        given=acts(deploy(1, ONE), deploy(2, TWO)),
        when=acts(roll_back(3), settle),
        serve=((3,),),
    ),
    Scenario(
        name="roll back, cold",
        given=acts(deploy(1, ONE), deploy(2, TWO), wait(hours=2), sweep),
        when=acts(roll_back(3, to_seq=1), settle),
        serve=((3,),),
    ),
    Scenario(
        name="clone",
        given=deploy(1, ONE),
        when=acts(clone(2, "copy", source="main"), settle),
        serve=((2,),),
    ),
    Scenario(
        name="clone, then change",
        given=deploy(1, ONE),
        when=acts(clone(2, "copy", source="main"), deploy(3, BOTH, "copy")),
        serve=((2,), (3,)),
    ),
    Scenario(
        name="clone an unpromoted commit",
        given=acts(deploy(1, ONE), ask(2, TWO), look),
        when=acts(clone(3, "copy", source="main"), settle),
        serve=((2,), (3,)),
    ),
    Scenario(
        name="delete a branch",
        given=acts(deploy(1, ONE), deploy(2, BOTH, "dev")),
        when=acts(delete(3, "dev"), wait(days=8), settle),
        serve=((3,),),
    ),
    Scenario(
        name="bring a branch back",
        given=acts(deploy(1, ONE), deploy(2, BOTH, "dev")),
        when=acts(delete(3, "dev"), undelete(4, "dev"), settle),
        serve=((3,), (4,)),
    ),
    Scenario(
        name="bring a branch back, at the end of its retention",
        given=acts(deploy(1, ONE), deploy(2, BOTH, "dev")),
        when=acts(delete(3, "dev"), wait(days=8), undelete(4, "dev"), settle),
        serve=((3,),),
    ),
    Scenario(
        name="roll back, at the end of the retention",
        given=acts(deploy(1, ONE), deploy(2, TWO)),
        when=acts(wait(days=8), roll_back(3, to_seq=1), settle),
        serve=((2,),),
    ),
    Scenario(
        name="forget the keys of rows and calls",
        given=acts(deploy(1, ONE), note_keys(OLD), wait(days=4), note_keys(NEW)),
        when=acts(wait_until(days=8), settle),
        then=acts(wait(hours=2), settle),
        wrong=_wrong_retention,
    ),
    Scenario(
        name="collect snapshots",
        given=acts(deploy(1, ONE), copy_indexes),
        when=acts(deploy(2, TWO), copy_indexes, wait(days=8), settle, delete_snapshots, copy_late),
        then=acts(settle, delete_snapshots),
        serve=((2,),),
        wrong=_wrong_snapshots,
    ),
    Scenario(
        name="pass the quality gate",
        given=deploy(1, ONE),
        when=deploy(2, CHECKED),
        serve=((2,),),
        wrong=_wrong_gates,
    ),
    Scenario(
        name="break the quality gate",
        given=deploy(1, CHECKED),
        when=acts(deploy(2, SPOILT), wait(days=8), settle),
        wrong=_wrong_gates,
    ),
    ERASE,
    ERASE_TARGETS,
    DELIVER,
    EXPIRE,
    Scenario(
        name="destroy a stray",
        given=acts(deploy(1, ONE), leave_a_stray),
        when=audit,
        then=acts(audit, settle),
        serve=((1,),),
    ),
    Scenario(
        name="set aside what is lost",
        given=acts(deploy(1, ONE), lose_a_topic),
        when=audit,
        then=acts(audit, settle),
        serve=((1,),),
    ),
)
