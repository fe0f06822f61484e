"""What must hold of the ledger and the stores: at every moment, and when all is quiet.

The numbers are those of the protocol's list of promises.
"""

from collections.abc import Iterator
from itertools import pairwise

from narthex_ledger import ASSET_NEXT, COMMIT_NEXT, AssetState, CommitState
from tests.crash.world import World

_STATES = {state.value for state in AssetState}
_COMMITS = {state.value for state in CommitState}


def broken_now(world: World) -> list[str]:
    """Give the promises that do not hold at this moment."""
    return [
        *(f"I5 destroyed while pinned: {name}" for name in world.wrong_destroys),
        *_none(world, "I2 a head binds what is not live", _HEADS),
        *_none(world, "I6 a pinned asset is going away", _DANGLING),
        *_none(world, "I11 two commits in flight on a branch", _IN_FLIGHT),
        *_none(world, "I12 a branch's numbers have gaps", _GAPS),
        *_none(world, "I12 a commit's parent is not the one before it", _PARENTS),
        *_none(world, "I18 a binding crosses tenants", _TENANTS),
        *_none(world, "I1 readers see what no pin holds", _SERVING),
        *_written_ahead(world),
        *_done_is_there(world),
        *_paths(world),
        *_fences(world),
        *_counts(world),
    ]


def broken_when_quiet(world: World) -> list[str]:
    """Give the promises that do not hold although nobody has anything to do any more."""
    there = world.there()
    live = {
        row["physical_name"]: row["external_id"]
        for row in world.rows(
            "SELECT physical_name, external_id FROM asset WHERE kind IN"
            " ('kafka_topic', 'index', 'history', 'checkpoint')"
            " AND state IN ('live', 'quarantined')"
        )
    }
    return [
        *broken_now(world),
        *(f"L1 {row['what']} {row['id']} is {row['state']}" for row in world.rows(_UNENDED)),
        *(f"L2 a stray: {name}" for name in sorted(there.keys() - live.keys())),
        *(f"L2 lost: {name}" for name in sorted(live.keys() - there.keys())),
        *(
            f"I10 another thing: {name}"
            for name in live
            if there.get(name) not in (None, live[name])
        ),
        *_none(world, "I4 an aborted commit left something", _LEFT),
        *_none(world, "I19 created other than planned", _UNPLANNED),
        *_none(world, "a destroyed job is in the registry", _GHOST_JOBS),
        *(f"I8 made twice: {name}" for name in _twice(world)),
    ]


def _none(world: World, what: str, query: str) -> Iterator[str]:
    found = world.rows(query)
    if found:
        yield f"{what}: {found[:3]}"


def _written_ahead(world: World) -> Iterator[str]:
    known = {
        row["physical_name"]
        for row in world.rows(
            "SELECT physical_name FROM asset JOIN create_ledger USING (asset_id)"
            " WHERE intent_at IS NOT NULL"
        )
    }
    for name in sorted(world.there().keys() - known):
        if "_stray" in name:  # a test put it there: the auditor's business
            continue
        yield f"I9 nobody wrote down that {name} would be made"


def _done_is_there(world: World) -> Iterator[str]:
    there = world.there()
    for row in world.rows(
        "SELECT physical_name FROM asset JOIN create_ledger USING (asset_id)"
        " WHERE status = 'DONE' AND state IN ('live', 'retiring')"
        " AND kind IN ('kafka_topic', 'index', 'history', 'checkpoint')"
    ):
        if row["physical_name"] not in there:
            yield f"I10 {row['physical_name']} is done and not there"


def _paths(world: World) -> Iterator[str]:
    seen: dict[object, list[str]] = {}
    for row in world.rows("SELECT * FROM ledger_event ORDER BY event_id"):
        if row["transition"] in _STATES and row["asset_id"] is not None:
            seen.setdefault(row["asset_id"], []).append(row["transition"])
        elif row["transition"] in _COMMITS:
            seen.setdefault(row["commit_id"], []).append(row["transition"])
    for what, path in seen.items():
        for old, new in pairwise(path):
            if not _may(old, new):
                yield f"I14 {what} went from {old} to {new}"
        if {"COMMITTED", "ABORTING"} <= set(path):
            yield f"I13 {what} was both committed and aborted"


def _may(old: str, new: str) -> bool:
    if old in _STATES:
        return AssetState(new) in ASSET_NEXT[AssetState(old)]
    return CommitState(new) in COMMIT_NEXT[CommitState(old)]


def _fences(world: World) -> Iterator[str]:
    greatest: dict[object, int] = {}
    for row in world.rows(
        "SELECT commit_id, fence, transition FROM ledger_event WHERE commit_id IS NOT NULL"
        " AND fence IS NOT NULL AND transition NOT LIKE 'backfill%' ORDER BY event_id"
    ):
        if row["fence"] < greatest.get(row["commit_id"], 0):
            yield f"I15 {row['transition']} of {row['commit_id']} came from an older fence"
        greatest[row["commit_id"]] = max(row["fence"], greatest.get(row["commit_id"], 0))


def _counts(world: World) -> Iterator[str]:
    bound: dict[int, set[object]] = {}
    for row in world.rows("SELECT asset_id, manifest_id FROM manifest_binding"):
        bound.setdefault(row["asset_id"], set()).add(row["manifest_id"])
    pins = [row["manifest_id"] for row in world.rows("SELECT manifest_id FROM pin")]
    for row in world.rows("SELECT asset_id, refs FROM asset_refcount"):
        counted = sum(manifest in bound.get(row["asset_id"], ()) for manifest in pins)
        if counted != row["refs"]:
            yield f"I17 asset {row['asset_id']} has {counted} references, shown {row['refs']}"


def _twice(world: World) -> list[str]:
    made = [name for store in world.stores.values() for name in store.made]
    return sorted({name for name in made if made.count(name) > 1})


_HEADS = """
SELECT pin.holder, asset.asset_id, asset.state FROM pin
  JOIN manifest_binding USING (manifest_id) JOIN asset USING (asset_id)
 WHERE pin.holder IN ('head', 'serving', 'history', 'undelete')
   AND asset.state NOT IN ('live', 'quarantined')
"""
_DANGLING = """
SELECT pin.holder, asset.asset_id, asset.state FROM pin
  JOIN manifest_binding USING (manifest_id) JOIN asset USING (asset_id)
 WHERE asset.state NOT IN ('planned', 'creating', 'live', 'quarantined')
"""
_IN_FLIGHT = """
SELECT branch_id FROM deploy_commit WHERE state IN ('PLANNED', 'APPLYING', 'READY')
 GROUP BY branch_id HAVING count(*) > 1
"""
_GAPS = """
SELECT branch_id, head_seq, count(seq) FROM branch LEFT JOIN deploy_commit USING (branch_id)
 GROUP BY branch_id, head_seq HAVING head_seq <> coalesce(max(seq), 0) OR head_seq <> count(seq)
"""
_PARENTS = """
SELECT mine.commit_id FROM deploy_commit mine LEFT JOIN deploy_commit before
    ON before.branch_id = mine.branch_id AND before.seq = mine.seq - 1
 WHERE mine.seq > 1 AND mine.parent_commit_id IS DISTINCT FROM before.commit_id
"""
_TENANTS = """
SELECT asset_id FROM manifest_binding JOIN manifest USING (manifest_id) JOIN asset USING (asset_id)
 WHERE asset.tenant_id <> manifest.tenant_id
"""
_SERVING = """
SELECT branch_id FROM branch WHERE state = 'active' AND serving_commit_id IS NOT NULL AND NOT EXISTS
 (SELECT 1 FROM pin JOIN deploy_commit c ON c.manifest_id = pin.manifest_id
   WHERE pin.branch_id = branch.branch_id AND holder = 'serving'
     AND c.commit_id = branch.serving_commit_id)
"""
_UNENDED = """
SELECT 'commit' AS what, commit_id::text AS id, state FROM deploy_commit
 WHERE state NOT IN ('FINALIZED', 'ABORTED', 'REJECTED')
UNION ALL SELECT 'asset', asset_id::text, state FROM asset
 WHERE state IN ('planned', 'creating', 'retiring', 'destroying')
UNION ALL SELECT 'promotion', commit_id::text, state FROM promotion WHERE state = 'PENDING'
"""
_LEFT = """
SELECT asset.asset_id, asset.state FROM deploy_commit
  JOIN create_ledger ON introduced_by = commit_id OR owner_commit_id = commit_id
  JOIN asset USING (asset_id) JOIN asset_refcount USING (asset_id)
 WHERE deploy_commit.state = 'ABORTED' AND asset.state <> 'destroyed' AND refs = 0
"""
_UNPLANNED = """
SELECT commit_id FROM deploy_commit WHERE state IN ('COMMITTED', 'FINALIZED') AND kind = 'deploy'
   AND (SELECT count(*) FROM create_ledger WHERE introduced_by = commit_id)
    <> (SELECT count(*) FROM jsonb_array_elements(plan -> 'create'))
"""
_GHOST_JOBS = """
SELECT job.asset_id FROM job JOIN asset USING (asset_id) WHERE asset.state = 'destroyed'
"""
