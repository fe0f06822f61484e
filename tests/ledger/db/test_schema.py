"""The database enforces the same state machines, columns and constraints as the code."""

import ast
import itertools
import re
from pathlib import Path

import pytest
import sqlalchemy as sa

import narthex_ledger
from narthex._ir.assets import AssetKind
from narthex_ledger import ASSET_NEXT, COMMIT_NEXT, migrate
from narthex_ledger.db.schema import METADATA
from narthex_ledger.model.states import allowed
from tests.ledger.world import ORDERS, World, blueprint

ROOM = Path(narthex_ledger.__file__).parent


@pytest.mark.postgres
def test_migrating_twice_changes_nothing(world: World) -> None:
    migrate(world.dsn)

    assert world.ledger.slots.count() == 4


@pytest.mark.postgres
def test_statements_use_existing_columns(world: World) -> None:
    engine = sa.create_engine(world.dsn, poolclass=sa.pool.NullPool)
    found: dict[str, set[str]] = {}
    with engine.connect() as connection:
        for table, column in connection.exec_driver_sql(
            "SELECT table_name, column_name FROM information_schema.columns"
            " JOIN information_schema.tables USING (table_schema, table_name)"
            " WHERE table_schema = 'public' AND table_type = 'BASE TABLE'"
        ):
            found.setdefault(table, set()).add(column)
    del found["alembic_version"]

    known = {table.name: set(table.columns.keys()) for table in METADATA.tables.values()}
    assert known == found


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("table", "function", "following"),
    [
        ("asset", "guard_asset", allowed(ASSET_NEXT)),
        ("deploy_commit", "guard_commit", allowed(COMMIT_NEXT)),
    ],
)
def test_triggers_hold_the_same_transitions_as_the_code(
    world: World, table: str, function: str, following: frozenset[tuple[str, str]]
) -> None:
    engine = sa.create_engine(world.dsn, poolclass=sa.pool.NullPool)
    states = {state for pair in following for state in pair}
    passed = set()
    with engine.begin() as connection:
        connection.exec_driver_sql(
            f"CREATE TEMPORARY TABLE probe AS SELECT * FROM {table} WITH NO DATA"  # noqa: S608
        )
        connection.exec_driver_sql(
            "CREATE TRIGGER guard BEFORE UPDATE ON probe"
            f" FOR EACH ROW EXECUTE FUNCTION {function}()"
        )
        for old, new in itertools.permutations(sorted(states), 2):
            savepoint = connection.begin_nested()
            try:
                connection.exec_driver_sql("INSERT INTO probe (state) VALUES (%s)", (old,))
                connection.exec_driver_sql("UPDATE probe SET state = %s", (new,))
                passed.add((old, new))
            except sa.exc.IntegrityError:
                pass
            finally:
                savepoint.rollback()

    assert passed == {(str(old), str(new)) for old, new in following}


@pytest.mark.postgres
def test_every_kind_of_asset_has_its_place(world: World) -> None:
    engine = sa.create_engine(world.dsn, poolclass=sa.pool.NullPool)
    with engine.connect() as connection:
        check = connection.exec_driver_sql(
            "SELECT string_agg(pg_get_constraintdef(oid), ' ') FROM pg_constraint"
            " WHERE conrelid = 'asset'::regclass AND contype = 'c'"
        ).scalar_one()

    assert all(f"'{kind.value}'" in check for kind in AssetKind)


@pytest.mark.postgres
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE manifest SET content = '{}'",
        "DELETE FROM manifest_binding",
        "UPDATE ledger_event SET actor = 'eve'",
        "DELETE FROM ledger_event",
        "UPDATE bundle SET content = ''",
        "UPDATE asset SET spec = '{}'",
        "UPDATE asset SET physical_name = 'nx_other'",
        "UPDATE deploy_commit SET fence = 0",
    ],
)
def test_immutable_columns_are_guarded(world: World, statement: str) -> None:
    world.committed(world.request(1), blueprint(ORDERS))
    engine = sa.create_engine(world.dsn, poolclass=sa.pool.NullPool)

    with pytest.raises(sa.exc.IntegrityError), engine.begin() as connection:
        connection.exec_driver_sql(statement)


def test_events_are_never_changed(world: World) -> None:
    test_immutable_columns_are_guarded(world, "UPDATE ledger_event SET actor = 'nobody'")


def test_no_update_of_an_asset_decides_by_a_sub_select() -> None:
    for path in sorted(ROOM.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                text = ast.unparse(node)
                updates = "sa.update(ASSET)" in text or "UPDATE asset" in text
                decides = "exists()" in text or "EXISTS" in text or "sa.select(" in text
                assert not (updates and decides), f"{path.name}: {node.name}"


def test_only_the_mapper_and_the_rotation_of_keys_read_columns_by_name() -> None:
    by_name = re.compile(r"RowMapping|\.mappings\(\)|\brow\[[\"']")
    readers = {path.name for path in ROOM.rglob("*.py") if by_name.search(path.read_text())}

    # A rotation signs the rows of all tables again, whose statements have columns of each.
    assert readers == {"mapper.py", "signed_rows.py", "signature_api.py"}


def test_only_statements_touch_the_tables() -> None:
    outside = [path for path in sorted(ROOM.rglob("*.py")) if ROOM / "db" not in path.parents]
    assert outside
    for path in outside:
        tree = ast.parse(path.read_text())
        modules = {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
        assert "narthex_ledger.db.schema" not in modules, path.name
