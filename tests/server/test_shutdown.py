"""A server whose last records were not stored ends in order."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from structlog.testing import capture_logs

from narthex._ir.assets import AssetKind
from narthex_stores import Adapter, StoreError
from tests.server.conftest import house_at, settings_at

pytestmark = [pytest.mark.postgres, pytest.mark.kafka]

TOPIC = "server-shutdown-small-records"
WITHIN_S = 30.0
LARGE = np.random.default_rng(0).bytes(1000)
"""Larger than the topic takes, also when it is compressed."""


def test_a_server_ends_although_records_were_not_stored(
    tmp_path: Path,
    ledger_dsn: str,
    kafka_bootstrap: str,
    adapters: Mapping[AssetKind, Adapter],
) -> None:
    admin = AdminClient({"bootstrap.servers": kafka_bootstrap})
    topic = NewTopic(TOPIC, 1, 1, config={"max.message.bytes": "100"})
    admin.create_topics([topic])[TOPIC].result(WITHIN_S)
    settings = settings_at(tmp_path, dsn=ledger_dsn, kafka=kafka_bootstrap)
    with house_at(settings, adapters=adapters) as house, capture_logs() as lines, house.client:
        refused = house.services.producer.append(TOPIC, value=LARGE)
        with pytest.raises(StoreError, match=TOPIC):
            refused.result(WITHIN_S)

    (line,) = [line for line in lines if line["event"] == "records_not_stored"]
    assert TOPIC in line["error"]
