import os
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from narthex_stack import postgres
from narthex_stack.java import packaged_java, version_of


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
def test_no_topic_appears_because_somebody_asked_for_it(kafka_bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": kafka_bootstrap})

    found = admin.list_topics("nobody_made_me", timeout=10)

    assert found.topics["nobody_made_me"].error is not None
    assert "nobody_made_me" not in admin.list_topics(timeout=10).topics


@pytest.mark.stack
def test_the_packaged_java_takes_what_sparks_launcher_adds(tmp_path: Path) -> None:
    java = packaged_java(tmp_path) / "bin" / "java"

    assert version_of(java) >= 17
    assert "--add-modules=jdk.incubator.vector" in java.read_text()


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
