"""Unit tests of authors see the rows that enforced expectations leave."""

from datetime import datetime
from typing import Any

import pandas as pd

from narthex.connectors import Webhook, source
from narthex.datasets import dataset, field
from narthex.lib import expect_column_values_to_be_between, expectations
from narthex_reference.inprocess import MockClient

__owner__ = "shop@narthex.dev"


@source(Webhook(name="shop").endpoint("prices"), disorder="1d", cdc="upsert")
@dataset(index=True)
class Prices:
    """The price of an article; a negative one is quarantined."""

    article: str = field(key=True)
    euros: float
    at: datetime

    @expectations
    def possible(cls) -> Any:  # noqa: N805
        return [
            expect_column_values_to_be_between("euros", min_value=0, action="quarantine"),
            expect_column_values_to_be_between("euros", max_value=100),
        ]


def test_a_row_that_breaks_an_enforced_expectation_leaves_the_former_one() -> None:
    client = MockClient()
    client.commit("prices", datasets=[Prices])
    rows = [
        {"article": "tea", "euros": 2.0, "at": "2024-03-01T12:00:00Z"},
        {"article": "tea", "euros": -1.0, "at": "2024-03-01T13:00:00Z"},
        {"article": "gold", "euros": 900.0, "at": "2024-03-01T12:00:00Z"},
    ]

    answer = client.log("shop", "prices", pd.DataFrame(rows))

    assert answer.status_code == 200
    found = client.get_dataset_df("Prices")
    assert dict(zip(found["article"], found["euros"], strict=True)) == {"tea": 2.0, "gold": 900.0}
