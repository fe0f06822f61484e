"""Migrations keep what an earlier release wrote; a later release's database is refused."""

from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory

import narthex_ledger
from narthex_ledger import (
    NEWEST_SCHEMA,
    SCHEMAS,
    InstallationIsNewer,
    UpgradeNeeded,
    find_schema,
    migrate,
    require_known,
)
from tests.ledger.world import World

ROOM = Path(narthex_ledger.__file__).parent
SEED = """
INSERT INTO install(install_id) VALUES ('tests000');
INSERT INTO tenant(slug) VALUES ('default');
INSERT INTO bundle(sha256, content) VALUES (sha256('code'), 'code');
INSERT INTO branch(tenant_id, name, is_main) VALUES (1, 'main', true), (1, 'dev', false);
INSERT INTO manifest(manifest_id, tenant_id, content_sha256, bundle_sha256, content)
  VALUES ('00000000-0000-0000-0000-00000000000a', 1, sha256('m'), sha256('code'), '{}');
INSERT INTO deploy_commit(commit_id, tenant_id, branch_id, kind, idempotency_key, request_sha256,
    bundle_sha256, actor, message, base_seq, base_pinned, backfill_policy, promotion_policy,
    manifest_id, plan, plan_sha256, state, deadline, seq, committed_at, finished_at)
  VALUES ('00000000-0000-0000-0000-00000000000c', 1, 1, 'deploy', 'key-of-a-commit', sha256('r'),
    sha256('code'), 'ann', 'first', 0, false, 'allowed', 'when_ready',
    '00000000-0000-0000-0000-00000000000a', '{}', sha256('p'), 'FINALIZED', now(), 1, now(), now());
UPDATE branch SET head_commit_id = '00000000-0000-0000-0000-00000000000c', head_seq = 1,
    serving_commit_id = '00000000-0000-0000-0000-00000000000c', serving_seq = 1 WHERE is_main;
INSERT INTO asset(tenant_id, kind, fp_version, fingerprint, incarnation, physical_name, spec,
    spec_sha256, state, external_id, live_at)
  VALUES (1, 'kafka_topic', 1, sha256('t'), 1, 'nx_topic', '{}', sha256('s'), 'live', 'x', now()),
    (1, 'stream_job', 1, sha256('j'), 1, 'nx_job', '{}', sha256('s'), 'live', 'y', now());
INSERT INTO asset_dep VALUES (2, 1, 'input');
INSERT INTO manifest_binding(manifest_id, logical_path, asset_id)
  VALUES ('00000000-0000-0000-0000-00000000000a', 'dataset/Orders/log', 1);
INSERT INTO pin(manifest_id, branch_id, holder, commit_id)
  SELECT manifest_id, branch_id, 'head', commit_id FROM deploy_commit;
INSERT INTO slot_lease(slot_space, slot) VALUES ('default', 0);
INSERT INTO job(asset_id, tenant_id, slot_space, shard_count, desired, spec_sha256)
  VALUES (2, 1, 'default', 1, 'running', sha256('s'));
INSERT INTO job_shard(asset_id, shard, slot_space, slot) VALUES (2, 0, 'default', 0);
INSERT INTO api_token(token_sha256, name, scopes) VALUES (sha256('token'), 'ci', '{reader}');
INSERT INTO offline_query(request_id, state, manifest_id, actor, request, finished_at)
  VALUES ('00000000-0000-0000-0000-00000000000f', 'done',
    '00000000-0000-0000-0000-00000000000a', 'ann', '{}', now());
INSERT INTO audit(audit_id, dataset, result, success)
  VALUES ('00000000-0000-0000-0000-0000000000aa', 'Orders', '{}', true);
INSERT INTO promotion(commit_id, branch_id, policy, state)
  VALUES ('00000000-0000-0000-0000-00000000000c', 1, 'when_ready', 'DONE');
INSERT INTO ledger_event(actor, transition) VALUES ('ann', 'asset planned');
INSERT INTO engine(engine_id, slot_space, seen_at) VALUES ('one', 'default', now());
"""
"""Rows as the first migration knows them."""


def engine_of(dsn: str) -> sa.Engine:
    return sa.create_engine(dsn, poolclass=sa.pool.NullPool)


def migrated_to(dsn: str, number: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(ROOM / "db" / "migrations"))
    with engine_of(dsn).begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, number)


def counts(connection: sa.Connection) -> dict[str, int]:
    names = sa.inspect(connection).get_table_names()
    return {
        name: connection.execute(
            sa.select(sa.func.count()).select_from(sa.table(name))
        ).scalar_one()
        for name in names
    }


def test_migrations_follow_each_other_in_the_order_of_their_numbers() -> None:
    config = Config()
    config.set_main_option("script_location", str(ROOM / "db" / "migrations"))
    chain = [one.revision for one in ScriptDirectory.from_config(config).walk_revisions()]

    assert [*reversed(chain)] == [*SCHEMAS] == sorted(SCHEMAS)
    assert SCHEMAS["0007"] == "signatures"


@pytest.mark.postgres
def test_each_migration_keeps_the_rows_that_were_there_before_it(postgres_dsn: str) -> None:
    migrated_to(postgres_dsn, "0001")
    with engine_of(postgres_dsn).begin() as connection:
        connection.exec_driver_sql(SEED)
        before = counts(connection)
    assert sum(count > 0 for count in before.values()) >= 18

    for number in [*SCHEMAS][1:]:
        migrated_to(postgres_dsn, number)
        with engine_of(postgres_dsn).connect() as connection:
            after = counts(connection)
            assert {name: after[name] for name in before} == before, number
        before = after

    with engine_of(postgres_dsn).connect() as connection:
        message, serving = connection.exec_driver_sql(
            "SELECT message, serving_seq FROM deploy_commit JOIN branch USING (branch_id)"
        ).one()
        kinds = connection.exec_driver_sql("SELECT kind FROM asset ORDER BY asset_id").scalars()
        assert (message, serving) == ("first", 1)
        assert [*kinds] == ["kafka_topic", "stream_job"]
    assert migrate(postgres_dsn).migrations == ()


@pytest.mark.postgres
def test_a_migration_lists_those_that_it_applied(postgres_dsn: str) -> None:
    assert find_schema(postgres_dsn) == ""
    migrated_to(postgres_dsn, "0023")

    change = migrate(postgres_dsn)

    assert (change.before, change.after) == ("0023", NEWEST_SCHEMA)
    assert change.migrations[0] == "0024 metrics"
    assert change.migrations[-1].startswith(f"{NEWEST_SCHEMA} ")
    assert find_schema(postgres_dsn) == NEWEST_SCHEMA


@pytest.mark.postgres
def test_the_database_of_a_later_release_is_refused_and_unchanged(world: World) -> None:
    with engine_of(world.dsn).begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9000'")

    with pytest.raises(InstallationIsNewer, match=rf"schema 9000, .* after {NEWEST_SCHEMA}"):
        migrate(world.dsn)
    with pytest.raises(InstallationIsNewer, match="or restore the backup"):
        world.ledger.installation.require_current({"logs": 1})

    assert find_schema(world.dsn) == "9000"


@pytest.mark.postgres
def test_the_stores_of_a_later_release_are_refused(world: World) -> None:
    installation = world.ledger.installation
    assert installation.record_formats({"logs": 1, "indexes": 1}) == {}
    assert installation.record_formats({"logs": 1, "indexes": 3}) == {"indexes": (1, 3)}

    with pytest.raises(InstallationIsNewer, match=r"indexes of format 3 \(known: 2\)"):
        installation.record_formats({"logs": 2, "indexes": 2})
    with pytest.raises(InstallationIsNewer, match=r"indexes of format 3 \(known: none\)"):
        installation.require_current({"logs": 1})

    assert installation.formats() == {"indexes": 3, "logs": 1}


@pytest.mark.postgres
def test_a_process_that_only_reads_waits_for_the_upgrade(world: World) -> None:
    world.ledger.installation.require_current({})
    with engine_of(world.dsn).begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0001'")

    with pytest.raises(UpgradeNeeded, match=r"schema 0001(.|\n)*`narthex upgrade`"):
        world.ledger.installation.require_current({})


def test_an_empty_database_is_not_of_a_later_release() -> None:
    require_known("")
    with pytest.raises(InstallationIsNewer):
        require_known("9000")
