"""An installation that an earlier release made is upgraded, and everything in it is read.

`installation.tar.xz` is what commit 267ffe3b of this project left (schema 0012), three days before
formats were recorded: `make_installation` made it, and `shop` is its project.
"""

import base64
import json
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import attrs
import psycopg
import pytest
import sqlalchemy as sa
from typer.testing import CliRunner, Result

from narthex._base import Backoff
from narthex._formats.avro.codec import fact_codec
from narthex._ir.assets import HistorySpec, TopicSpec
from narthex.cli import make_app as make_cli
from narthex.settings import environment_of
from narthex_ledger import (
    NEWEST_SCHEMA,
    SCHEMAS,
    Ledger,
    NotSigned,
    ServingView,
    Verifier,
    find_schema,
    load_signing,
    migrate,
)
from narthex_server.__main__ import make_services, serve
from narthex_server.reads.__main__ import main as read_process
from narthex_stack.errors import NewerInstallationError, NotHereError
from narthex_stack.install.formats import our_formats, record_formats, upgrade_ahead
from narthex_stack.install.installation import load_installation
from narthex_stack.machine.files import load_object, store_json
from narthex_stack.operator.backups import restore
from narthex_stack.operator.stack import Stack
from narthex_stack.operator.upgrades import plan_upgrade, upgrade
from narthex_stores import STORE_FORMATS, history_path, history_rows
from tests.server.conftest import NOBODY, House, house_at, in_memory, settings_at

pytestmark = pytest.mark.nightly

MADE: Final = Path(__file__).with_name("installation.tar.xz")
SCHEMA: Final = "0012"
POLL: Final = Backoff(first_s=0.02, greatest_s=0.1)


@attrs.frozen(kw_only=True)
class Earlier:
    """The installation as the earlier release left it: a home, and a database of its ledger."""

    home: Path
    dsn: str

    @property
    def verifier(self) -> Verifier:
        return Verifier.load(self.home / "signing.pub")

    def run(self, *arguments: str) -> Result:
        environment = {"NARTHEX_HOME": str(self.home), "NARTHEX_LEDGER_DSN": self.dsn}
        return CliRunner().invoke(make_cli(), ["upgrade", *arguments], env=environment)

    def records(self, topic: str) -> list[bytes]:
        """Return the values of a topic's records, as Kafka stored them."""
        lines = map(json.loads, (self.home / "records.jsonl").read_text().splitlines())
        return [
            base64.b64decode(one["value"])
            for one in lines
            if one["topic"] == topic and "value" in one
        ]


def load_sql(dsn: str, home: Path) -> None:
    with psycopg.connect(dsn.replace("postgresql+psycopg2://", "postgresql://")) as connection:
        connection.execute((home / "ledger.sql").read_bytes())


@pytest.fixture
def earlier(tmp_path: Path, postgres_dsn: str) -> Earlier:
    home = tmp_path / "earlier"
    home.mkdir(mode=0o700)
    with tarfile.open(MADE) as archive:
        archive.extractall(home, filter="data")
    load_sql(postgres_dsn, home)
    return Earlier(home=home, dsn=postgres_dsn)


@pytest.fixture
def upgraded(earlier: Earlier) -> Iterator[House]:
    """The server of this release on the upgraded installation."""
    assert earlier.run("--no-backup").exit_code == 0
    settings = settings_at(earlier.home, dsn=earlier.dsn, kafka=NOBODY)
    own = attrs.evolve(settings, install_id="arfdqpi0")
    with house_at(own, adapters=in_memory()) as house:
        yield house


def serving(ledger: Ledger) -> ServingView:
    tenant = ledger.installation.ensure_tenant("default")
    (main,) = ledger.branches.all(tenant)
    found = ledger.manifests.serving(main.branch_id)
    assert found is not None
    return found


@pytest.mark.postgres
def test_the_command_upgrades_once_and_lists_the_changes(earlier: Earlier) -> None:
    planned = json.loads(earlier.run("--dry-run", "--json").stdout)
    assert find_schema(earlier.dsn) == SCHEMA

    done = json.loads(earlier.run("--no-backup", "--json").stdout)
    again = json.loads(earlier.run("--no-backup", "--json").stdout)
    told = earlier.run("--no-backup").stderr

    assert done == planned
    assert done["ledger"] == [SCHEMA, NEWEST_SCHEMA]
    assert done["migrations"] == [f"{each} {SCHEMAS[each]}" for each in SCHEMAS if each > SCHEMA]
    assert done["changed"]
    assert again == {**done, "ledger": [NEWEST_SCHEMA] * 2, "migrations": [], "changed": False}
    assert "nothing to upgrade" in told
    assert not (earlier.home / "formats.json").exists(), "the home is of another machine"


@pytest.mark.postgres
def test_rows_features_and_commits_are_read_after_an_upgrade(
    upgraded: House, earlier: Earlier
) -> None:
    commits = upgraded.client.get("/api/v1/commits").json()["commits"]
    asked = {
        "inputs": ["Buyer.user"],
        "outputs": ["Buyer.country", "Buyer.orders", "Buyer.spent", "Buyer.label"],
        "data": {"Buyer.user": ["ann", "bob", "eve"]},
    }
    answer = upgraded.client.post("/api/v1/query", json=asked)

    assert [(one["message"], one["state"]) for one in commits] == [("a shop", "FINALIZED")]
    assert answer.status_code == 200, answer.text
    assert {name: answer.json()[name] for name in asked["outputs"]} == {
        "Buyer.country": ["PT", "NL", "?"],
        "Buyer.orders": [2, 1, 0],
        "Buyer.spent": [5.5, 9.0, 0.0],
        "Buyer.label": ["ann of PT", "bob of NL", "eve of ?"],
    }
    bindings = serving(upgraded.ledger).manifest.bindings
    log = bindings["dataset/Orders/log"]
    assert isinstance(log.spec, TopicSpec)
    facts = fact_codec(log.spec.log).decode_many(earlier.records(log.physical_name))
    assert sorted(one.values[:2] for one in facts) == [("ann", 1.5), ("ann", 4.0), ("bob", 9.0)]


@pytest.mark.postgres
def test_histories_are_read_after_an_upgrade(upgraded: House, earlier: Earlier) -> None:
    found = {}
    for path, asset in serving(upgraded.ledger).manifest.bindings.items():
        if isinstance(asset.spec, HistorySpec):
            place = history_path(str(earlier.home / "history"), asset.physical_name)
            found[path] = history_rows(place, asset.spec.log, newest=10)

    users = found["dataset/Users/history"]
    assert [(one["user"], one["country"]) for one in users] == [("bob", "NL"), ("ann", "PT")]
    assert len(found["dataset/Orders/history"]) == 3
    assert len(found) == 3


@pytest.mark.postgres
def test_signatures_are_verified_after_an_upgrade(earlier: Earlier, tmp_path: Path) -> None:
    migrate(earlier.dsn)
    _, others = load_signing(tmp_path / "other.key", tmp_path / "other.pub")
    trusting = Ledger(earlier.dsn, verifier=earlier.verifier)
    doubting = Ledger(earlier.dsn, verifier=others)
    try:
        view = serving(trusting)
        assert b"labelled" in trusting.bundles.of_commit(view.commit_id)
        with pytest.raises(NotSigned):
            doubting.bundles.of_commit(view.commit_id)
        with pytest.raises(NotSigned):
            serving(doubting)
    finally:
        trusting.close()
        doubting.close()


@pytest.mark.postgres
def test_an_upgrade_that_was_killed_changes_nothing_and_is_completed(earlier: Earlier) -> None:
    engine = sa.create_engine(earlier.dsn, poolclass=sa.pool.NullPool)
    code = f"from narthex_ledger import migrate; migrate({earlier.dsn!r})"
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'bundle'::regclass"
    with engine.connect() as reader, engine.connect() as looker:
        # A later migration changes this table; those before it have run in the transaction.
        reader.exec_driver_sql("LOCK TABLE bundle IN ACCESS SHARE MODE")
        process = subprocess.Popen((sys.executable, "-c", code))
        POLL.until(
            lambda: looker.exec_driver_sql(waiting).scalar_one() > 0,
            within_s=120.0,
        )
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL

    assert find_schema(earlier.dsn) == SCHEMA
    assert not sa.inspect(engine).has_table("alert"), "migration 0015 was rolled back"
    assert earlier.run("--no-backup").exit_code == 0
    assert sa.inspect(engine).has_table("alert")


@pytest.mark.postgres
def test_a_server_that_starts_upgrades_too(earlier: Earlier) -> None:
    settings = attrs.evolve(
        settings_at(earlier.home, dsn=earlier.dsn, kafka=NOBODY), install_id="arfdqpi0"
    )
    services = make_services(settings, adapters=in_memory())
    try:
        assert find_schema(earlier.dsn) == NEWEST_SCHEMA
        assert services.ledger.installation.formats() == dict(STORE_FORMATS)
    finally:
        services.close()


@pytest.mark.postgres
def test_each_process_refuses_the_ledger_of_another_release(
    earlier: Earlier, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    settings = settings_at(earlier.home, dsn=earlier.dsn, kafka=NOBODY)
    own = attrs.evolve(settings, install_id="arfdqpi0", reads_url="http://127.0.0.1:1")
    for name, value in environment_of(own).items():
        monkeypatch.setenv(name, value)

    early = CliRunner().invoke(make_cli(), ["supervisor"])
    assert (early.exit_code, "[NX1136]" in early.stderr) == (1, True)
    assert read_process() == 1
    assert "reads cannot start: [NX1136]" in capfd.readouterr().err
    with sa.create_engine(earlier.dsn, poolclass=sa.pool.NullPool).begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9000'")
    supervisor = CliRunner().invoke(make_cli(), ["supervisor"])
    with pytest.raises(SystemExit, match=r"the server cannot start: .*NX1135.* schema 9000"):
        serve()

    assert supervisor.exit_code == 1
    assert "schema 9000" in supervisor.stderr
    assert read_process() == 1
    assert "reads cannot start: [NX1135]" in capfd.readouterr().err


@pytest.mark.postgres
def test_a_backup_is_refused_where_the_ledger_is_a_service_of_yours(earlier: Earlier) -> None:
    refused = earlier.run()

    assert refused.exit_code == 1
    assert "`ledger_dsn`" in refused.stderr
    assert "narthex upgrade --no-backup" in refused.stderr
    assert find_schema(earlier.dsn) == SCHEMA


@pytest.mark.postgres
def test_the_command_refuses_the_ledger_of_a_later_release(earlier: Earlier) -> None:
    with sa.create_engine(earlier.dsn, poolclass=sa.pool.NullPool).begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9000'")

    for arguments in (("--dry-run",), ("--no-backup",)):
        refused = earlier.run(*arguments)
        assert refused.exit_code == 1
        assert "schema 9000" in refused.stderr


def test_a_home_without_an_installation_is_not_upgraded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NARTHEX_LEDGER_DSN", raising=False)

    with pytest.raises(NotHereError, match="holds no installation"):
        plan_upgrade(Stack(tmp_path / "empty"))


def test_a_home_of_a_later_release_is_refused_before_anything_starts(tmp_path: Path) -> None:
    stack = Stack(tmp_path / "home")
    stack.layout.make()
    later: dict[str, Any] = {
        "release": "9.0.0",
        "ledger": "9000",
        "stores": {**STORE_FORMATS, "indexes": 7, "graphs": 1},
    }
    store_json(stack.layout.formats, later)

    with pytest.raises(NewerInstallationError) as refused:
        stack.launch()
    told = CliRunner().invoke(make_cli(), ["up", "--home", str(stack.layout.home)])

    assert "written by Narthex 9.0.0" in str(refused.value)
    assert f"schema 9000 (known: {NEWEST_SCHEMA})" in str(refused.value)
    assert "graphs of format 1 (known: none), indexes of format 7 (known: 1)" in str(refused.value)
    assert told.exit_code == 1
    assert "Nothing was started" in told.stderr
    assert not stack.layout.secrets.exists()
    with pytest.raises(NewerInstallationError):
        record_formats(stack.layout)
    assert load_object(stack.layout.formats) == later


def test_a_start_reports_its_upgrade(tmp_path: Path) -> None:
    layout = Stack(tmp_path / "home").layout
    assert upgrade_ahead(layout) == ""
    load_installation(layout, environment={}, files_root=tmp_path)

    assert "of an earlier release" in upgrade_ahead(layout)
    earlier: dict[str, Any] = {**our_formats().plain(), "release": "0.0.9", "ledger": SCHEMA}
    store_json(layout.formats, earlier)
    assert "of Narthex 0.0.9, schema 0012; the server upgrades" in upgrade_ahead(layout)
    record_formats(layout)
    assert upgrade_ahead(layout) == ""


@pytest.mark.stack
@pytest.mark.postgres
def test_an_upgrade_makes_a_backup_that_leads_back(tmp_path: Path, earlier: Earlier) -> None:
    stack = Stack(tmp_path / "home", only=("postgres",))
    other = Stack(tmp_path / "back", only=("postgres",))
    try:
        stack.start()
        load_sql(stack.settings.ledger_dsn, earlier.home)

        done = upgrade(stack, backup=tmp_path / "before", progress=lambda *_: None)
        again = upgrade(stack, backup=tmp_path / "again", progress=lambda *_: None)

        assert done.schema.before == SCHEMA
        assert again.changes_nothing
        assert not (tmp_path / "again").exists()
        assert load_object(stack.layout.formats) == our_formats().plain()
        assert stack.status().is_well, "what ran before runs again"
        assert find_schema(stack.settings.ledger_dsn) == NEWEST_SCHEMA
        restore(other, tmp_path / "before")
        assert not other.layout.formats.exists()
        other.start()
        assert find_schema(other.settings.ledger_dsn) == SCHEMA
    finally:
        for one in (stack, other):
            one.stop()
            if one.layout.secrets.exists():
                one.wipe()
