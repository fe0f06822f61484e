"""Every table and every store has an entry with the effect of an erasure."""

import inspect
from pathlib import Path

import attrs
import pytest
from sqlalchemy.dialects.postgresql import ARRAY, BYTEA

from narthex._ir import AssetKind
from narthex.settings import Settings
from narthex_ledger import Ledger
from narthex_ledger.db.schema import METADATA
from narthex_server.erasures.erasure_effects import (
    ASSETS,
    BYTE_COLUMNS,
    PLACES,
    TABLES,
    Effect,
)

HASHES = ("sha256", "signature", "fingerprint", "digest", "digests")
PLACE_NAMES = ("_dir", "_root", "_file")
SERVERS = {"index_store", "kafka"}
"""Settings that name a store on servers."""


def test_each_declared_table_has_an_effect() -> None:
    assert set(METADATA.tables) - set(TABLES) == set()
    assert all(entry.why for entry in TABLES.values())


@pytest.mark.postgres
def test_each_table_of_a_database_has_an_effect_and_no_other(ledger_dsn: str) -> None:
    ledger = Ledger(ledger_dsn)
    try:
        assert set(ledger.erasures.search([])) == set(TABLES)
    finally:
        ledger.close()


def test_columns_of_bytes_are_hashes_or_have_an_effect() -> None:
    """A search for texts finds nothing in bytes, so they must not hold values of rows."""
    found = {
        f"{table.name}.{column.name}"
        for table in METADATA.tables.values()
        for column in table.columns
        if isinstance(
            column.type.item_type if isinstance(column.type, ARRAY) else column.type, BYTEA
        )
        and not column.name.endswith(HASHES)
    }
    assert found == set(BYTE_COLUMNS)
    for column, effect in BYTE_COLUMNS.items():
        assert TABLES[column.partition(".")[0]].effect is effect
        assert effect is not Effect.SEARCHED


def test_each_kind_of_asset_has_an_effect() -> None:
    assert set(ASSETS) == set(AssetKind)


def test_each_place_of_the_settings_has_an_effect() -> None:
    fields = {
        one.name
        for one in attrs.fields(Settings)
        if one.name.endswith(PLACE_NAMES) or one.type is Path
    }
    derived = {
        name
        for name, found in inspect.getmembers(Settings, lambda one: isinstance(one, property))
        if inspect.signature(found.fget).return_annotation is Path
    }
    assert fields | derived | SERVERS == set(PLACES)
