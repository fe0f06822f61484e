"""A backup of an installation, restored to another home, has all that it had."""

import hashlib
import json
import re
import tarfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import psycopg
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from narthex_stack.errors import NotHereError
from narthex_stack.install.installation import load_installation
from narthex_stack.install.layout import HomeLayout
from narthex_stack.local_services.service_plan import cluster
from narthex_stack.operator.backups import DESCRIPTION, KEYS, STATE, back_up, described, restore
from narthex_stack.operator.stack import Stack
from narthex_stack.servers import postgres
from narthex_stores import platform_broker
from narthex_stores.kafka.brokers import client_config
from tests.guides.pages import DOCS, blocks
from tests.guides.shell import Shell, environment

pytestmark = pytest.mark.slow

ONLY = ("postgres", "kafka")
TOPIC = "orders"


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    stack = Stack(tmp_path / "home", only=ONLY)
    yield stack
    stack.stop()
    if stack.layout.secrets.exists():
        stack.wipe()


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Stack]:
    stack = Stack(tmp_path / "other", only=ONLY)
    yield stack
    stack.stop()
    if stack.layout.secrets.exists():
        stack.wipe()


@pytest.fixture
def offline(tmp_path: Path) -> Stack:
    """An installation whose services never ran."""
    layout = HomeLayout(tmp_path / "offline")
    load_installation(layout, environment={}, files_root=tmp_path)
    (layout.home / "index").mkdir()
    (layout.home / "index" / "data.mdb").write_bytes(b"rows" * 1000)
    (layout.home / "signing.key").write_text("a key")
    (layout.home / "out").symlink_to("/etc/passwd")
    (layout.run_dir / "status.json").write_text("{}")
    return Stack(layout.home)


def connection(stack: Stack) -> "psycopg.Connection[tuple[object, ...]]":
    return postgres.connect(cluster(load_installation(stack.layout)))


def records(stack: Stack) -> list[bytes | None]:
    consumer = Consumer(client_config(platform_broker(stack.settings)) | {"group.id": "reader"})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    try:
        found = consumer.consume(3, timeout=30.0)
        return [one.value() for one in found]
    finally:
        consumer.close()


@pytest.mark.stack
@pytest.mark.kafka
@pytest.mark.postgres
def test_a_running_installation_is_backed_up_and_restored_beside_itself(
    stack: Stack, other: Stack, tmp_path: Path
) -> None:
    stack.start()
    with connection(stack) as ledger:
        ledger.execute("CREATE TABLE assets AS SELECT generate_series(1, 1000) AS asset")
    admin = AdminClient(client_config(platform_broker(stack.settings)))
    topic = NewTopic(TOPIC, num_partitions=1, replication_factor=1)
    admin.create_topics([topic])[TOPIC].result(30.0)
    producer = Producer(client_config(platform_broker(stack.settings)))
    for value in (b"a", b"b", b"c"):
        producer.produce(TOPIC, value, partition=0)
    assert producer.flush(30.0) == 0
    (stack.layout.home / "policy.toml").write_text("# ours\n")

    (page,) = blocks(DOCS / "guide" / "running.md", "sh backup")
    shell = Shell(directory=tmp_path, variables=environment(stack.layout.home))
    shown = shell.types(page.text, DIRECTORY="backup", NEW_HOME=other.layout.home)
    services = stack.status()
    again = shell.prints(f"narthex restore backup --home {tmp_path / 'third'} --json")
    other.start()

    assert re.search(r"^backed up to backup: [\d.,]+ MB$", shown, re.MULTILINE), shown
    assert f"restored to {other.layout.home}, as of " in shown
    assert f"; start it with `narthex up --home {other.layout.home}`\n" in shown
    assert json.loads(again) == described(tmp_path / "backup").plain()

    assert services.is_well
    assert {one.name for one in services.services} == {"postgres", "kafka"}
    with connection(other) as ledger:
        assert ledger.execute("SELECT count(*) FROM assets").fetchone() == (1000,)
    assert records(other) == records(stack) == [b"a", b"b", b"c"]
    assert (other.layout.home / "policy.toml").read_text() == "# ours\n"
    assert other.settings.install_id == stack.settings.install_id
    assert other.settings.kafka != stack.settings.kafka


def test_keys_are_in_a_file_of_their_own(offline: Stack, other: Stack, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    made = back_up(offline, tmp_path / "backup", progress=lambda *each: told.append(each))

    with tarfile.open(tmp_path / "backup" / KEYS) as archive:
        assert sorted(archive.getnames()) == ["home/secrets.json", "home/signing.key"]
    with tarfile.open(tmp_path / "backup" / STATE) as archive:
        names = set(archive.getnames())
    assert {"home/index/data.mdb", "home/ports.json", "home/policy.toml"} <= names
    assert not {name for name in names if "secrets" in name or "signing" in name or "run" in name}
    assert made.links == ("home/out",)
    assert (tmp_path / "backup").stat().st_mode & 0o077 == 0
    done, total = told[-1]
    assert 0 < total <= done

    elsewhere = tmp_path / "kept.tar"
    (tmp_path / "backup" / KEYS).rename(elsewhere)
    with pytest.raises(NotHereError, match=r"keys\.tar` is missing"):
        restore(other, tmp_path / "backup")
    restore(other, tmp_path / "backup", keys=elsewhere)
    assert (other.layout.home / "index" / "data.mdb").read_bytes() == b"rows" * 1000
    assert (other.layout.home / "signing.key").read_text() == "a key"


def test_a_damaged_backup_changes_nothing(offline: Stack, other: Stack, tmp_path: Path) -> None:
    back_up(offline, tmp_path / "backup")
    state = tmp_path / "backup" / STATE
    content = bytearray(state.read_bytes())
    content[len(content) // 2] ^= 1
    state.write_bytes(content)

    with pytest.raises(NotHereError, match=r"state\.tar` is damaged"):
        restore(other, tmp_path / "backup")

    assert not (other.layout.home / "index").exists()
    assert not other.layout.secrets.exists()


def test_a_home_with_an_installation_is_not_overwritten(offline: Stack, tmp_path: Path) -> None:
    back_up(offline, tmp_path / "backup")

    with pytest.raises(NotHereError, match="holds an installation"):
        restore(offline, tmp_path / "backup")
    with pytest.raises(NotHereError, match="exists, or is inside"):
        back_up(offline, tmp_path / "backup")
    with pytest.raises(NotHereError, match="exists, or is inside"):
        back_up(offline, offline.layout.home / "backup")


def test_an_interrupted_restore_is_repeated(offline: Stack, other: Stack, tmp_path: Path) -> None:
    back_up(offline, tmp_path / "backup")

    def fail(done: int, total: int) -> None:
        if done > total // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        restore(other, tmp_path / "backup", progress=fail)
    assert not other.layout.secrets.exists()

    restore(other, tmp_path / "backup")
    assert (other.layout.home / "index" / "data.mdb").read_bytes() == b"rows" * 1000


def test_state_elsewhere_and_newer_versions_are_refused(
    offline: Stack, other: Stack, tmp_path: Path
) -> None:
    back_up(offline, tmp_path / "backup")
    description = tmp_path / "backup" / DESCRIPTION
    found = json.loads(description.read_text())
    description.write_text(json.dumps(found | {"version": "999.0.0"}))
    with pytest.raises(NotHereError, match=r"is of version 999\.0\.0"):
        restore(other, tmp_path / "backup")
    description.write_text(json.dumps(found | {"files": {}}))
    with pytest.raises(NotHereError, match="is damaged"):
        described(tmp_path / "backup")
    with pytest.raises(NotHereError, match="holds no backup"):
        described(tmp_path)

    offline.layout.config.write_text('kafka = "kafka:9092"\n')
    with pytest.raises(NotHereError, match="elsewhere: `kafka`"):
        back_up(offline, tmp_path / "second")
    with pytest.raises(NotHereError, match="holds no installation"):
        back_up(Stack(tmp_path / "nothing"), tmp_path / "second")


@pytest.mark.parametrize("name", ["home/../../stolen", "/stolen", "etc/stolen", "home"])
def test_no_member_is_written_outside_of_the_home(
    offline: Stack, other: Stack, tmp_path: Path, name: str
) -> None:
    back_up(offline, tmp_path / "backup")
    state = tmp_path / "backup" / STATE
    with tarfile.open(state, "w") as archive:
        member = tarfile.TarInfo(name)
        member.size = 4
        archive.addfile(member, BytesIO(b"evil"))
    description = tmp_path / "backup" / DESCRIPTION
    found = json.loads(description.read_text())
    digest = hashlib.sha256(state.read_bytes()).hexdigest()
    found["files"][STATE] = {"bytes": state.stat().st_size, "sha256": digest}
    description.write_text(json.dumps(found))

    with pytest.raises(NotHereError, match="member"):
        restore(other, tmp_path / "backup")

    assert not list(tmp_path.rglob("stolen"))
    assert not other.layout.secrets.exists()


def test_a_restored_file_replaces_what_has_its_name_and_is_not_written_into_it(
    offline: Stack, other: Stack, tmp_path: Path
) -> None:
    back_up(offline, tmp_path / "backup")
    policy = offline.layout.policy.read_bytes()
    (tmp_path / "linked").write_text("a file of somebody")
    other.layout.make()
    other.layout.policy.hardlink_to(tmp_path / "linked")
    (other.layout.home / "kept").write_text("a file beside")
    (other.layout.home / "ports.json").symlink_to("kept")

    restore(other, tmp_path / "backup")

    assert other.layout.policy.read_bytes() == policy
    assert (tmp_path / "linked").read_text() == "a file of somebody"
    assert (other.layout.home / "kept").read_text() == "a file beside"


def test_nothing_is_restored_through_a_link_to_a_directory(
    offline: Stack, other: Stack, tmp_path: Path
) -> None:
    back_up(offline, tmp_path / "backup")
    other.layout.make()
    elsewhere = other.layout.home / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "data.mdb").write_text("rows of somebody")
    (other.layout.home / "index").symlink_to("elsewhere")

    with pytest.raises(NotHereError, match="is reached by a symbolic link"):
        restore(other, tmp_path / "backup")

    assert (elsewhere / "data.mdb").read_text() == "rows of somebody"


def test_a_backup_inside_of_the_home_is_not_restored_into_it(
    offline: Stack, tmp_path: Path
) -> None:
    made = tmp_path / "new" / "backup"
    back_up(offline, made)
    before = {path.name: path.read_bytes() for path in made.iterdir()}
    (tmp_path / "link").symlink_to(made)

    for home, source in (
        (tmp_path / "new", made),
        (made, made),
        (made / "home", made),
        (tmp_path / "new", tmp_path / "link"),
    ):
        with pytest.raises(NotHereError, match="contain each other"):
            restore(Stack(home), source)

    assert {path.name: path.read_bytes() for path in made.iterdir()} == before


def test_a_backup_removes_only_what_an_interrupted_one_has_left(
    offline: Stack, tmp_path: Path
) -> None:
    unfinished = tmp_path / ".backup.unfinished"
    unfinished.mkdir()
    (unfinished / "letters").write_text("of somebody")

    with pytest.raises(NotHereError, match="is not an unfinished backup"):
        back_up(offline, tmp_path / "backup")
    assert (unfinished / "letters").read_text() == "of somebody"

    (unfinished / "letters").rename(unfinished / STATE)
    back_up(offline, tmp_path / "backup")
    assert not unfinished.exists()


def test_a_target_that_is_a_link_to_nothing_is_refused(offline: Stack, tmp_path: Path) -> None:
    (tmp_path / "backup").symlink_to(tmp_path / "nothing")

    with pytest.raises(NotHereError, match="exists, or is inside"):
        back_up(offline, tmp_path / "backup")
