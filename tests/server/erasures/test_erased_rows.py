"""Erased keys are found in raw rows, whatever becomes of the rows, and known as digests alone."""

import json
from datetime import datetime

import pytest

from narthex._ir import Cdc, ColumnRef, Schema, Source, WebhookEndpoint
from narthex._ir.schema import Field, Role
from narthex._ir.types import Datetime, Int, Str
from narthex._sdk.datasets.datasets import dataset_entity
from narthex.connectors import Webhook, source
from narthex.datasets import dataset, field
from narthex_ledger import Sealer
from narthex_server.erasures.erased_rows import (
    EMPTY_CALL,
    Digests,
    KeyFinder,
    RowFilter,
    erase_fields,
    form_of,
    keys_of,
)
from narthex_server.errors import InvalidRequest

SCHEMA = Schema(
    fields=(
        Field(name="person", type=Str(), role=Role.KEY, erase_key=True),
        Field(name="device", type=Int(), role=Role.KEY, erase_key=True),
        Field(name="club", type=Str()),
        Field(name="since", type=Datetime(), role=Role.TIMESTAMP),
    )
)
ENDPOINT = WebhookEndpoint(webhook="w", endpoint="members")
FIELDS = ["person", "device"]
ANN = {"person": "ann", "device": 7}
SINCE = "2026-01-01T00:00:00Z"


def a_source(**changes: object) -> Source:
    return Source(connector=ENDPOINT, disorder_us=0, cdc=Cdc.APPEND, **changes)  # type: ignore[arg-type]


def finder(**changes: object) -> KeyFinder:
    return KeyFinder.of("Members", a_source(**changes), SCHEMA, FIELDS)


def digests(key: bytes = b"k" * 32) -> Digests:
    return Digests.of(Sealer.of(key))


def test_a_digest_depends_on_the_key_the_dataset_and_the_values() -> None:
    made = {
        digests().of_key("Members", ANN),
        digests().of_key("Others", ANN),
        digests().of_key("Members", {**ANN, "device": 8}),
        digests(b"j" * 32).of_key("Members", ANN),
    }

    assert len(made) == 4
    assert digests().of_key("Members", dict(reversed(ANN.items()))) in made


@pytest.mark.parametrize(
    "row",
    [
        {"person": "ann", "device": 7, "club": "chess", "since": SINCE},
        {"person": "ann", "device": 7.0, "club": None, "since": "never"},
        {"person": "ann", "device": "7"},
    ],
)
def test_rows_that_do_not_fit_have_keys_too(row: dict[str, object]) -> None:
    assert ANN in list(finder().keys(row))  # type: ignore[arg-type]


def test_the_key_of_a_renamed_column_is_found() -> None:
    renamed = finder(preproc=(("person", ColumnRef("user", ("name",))),))

    row = {"user": {"name": "ann"}, "device": 7, "club": "chess", "since": SINCE}
    assert ANN in list(renamed.keys(row))  # type: ignore[arg-type]
    assert renamed.columns["person"] == {"name"}


def test_both_sides_of_a_change_have_keys() -> None:
    changes = KeyFinder.of(
        "Members",
        Source(connector=ENDPOINT, disorder_us=0, cdc=Cdc.DEBEZIUM),
        SCHEMA,
        FIELDS,
    )
    before = {**ANN, "club": "chess", "since": SINCE}
    after = {**before, "person": "bea"}

    found = list(changes.keys({"op": "u", "before": before, "after": after, "ts_ms": 1}))

    assert ANN in found
    assert {"person": "bea", "device": 7} in found


def test_a_source_is_stored_and_read_back() -> None:
    form = json.loads(json.dumps(form_of(a_source(), SCHEMA, FIELDS)))

    found = KeyFinder.of_form("Members", form)
    assert (found.source, found.fields) == (a_source(), finder().fields)
    assert ANN in list(found.keys({**ANN}))
    with pytest.raises(ValueError, match="another form"):
        KeyFinder.of_form("Members", {"source": 1})


def test_only_the_rows_of_erased_keys_leave_a_record() -> None:
    rows = RowFilter(
        finders=(finder(),),
        digests=digests(),
        blocked={"Members": frozenset({digests().of_key("Members", ANN)})},
    )
    ann = {**ANN, "club": "chess", "since": SINCE}
    bea = {**ann, "person": "bea"}

    untouched = json.dumps({"rows": [bea]}, indent=3).encode()
    assert rows(untouched) is untouched
    assert json.loads(rows(json.dumps({"rows": [ann, bea, ann]}).encode()) or b"") == {
        "rows": [bea]
    }
    assert json.loads(rows(json.dumps({"rows": [ann]}).encode()) or b"") == json.loads(EMPTY_CALL)
    assert rows(None) is None


@source(Webhook(name="w").endpoint("members"), disorder="1d", cdc="upsert")
@dataset
class Members:
    person: str = field(key=True, erase_key=True)
    device: int = field(key=True)
    club: str
    since: datetime = field(timestamp=True)


def test_a_request_names_exactly_the_erase_keys() -> None:
    entity = dataset_entity(Members)
    assert [column.name for column in erase_fields(entity)] == ["person"]
    assert keys_of(entity, [{"person": "ann"}, {"person": "ann"}, {"person": "bea"}]) == [
        {"person": "ann"},
        {"person": "bea"},
    ]
    for wrong in ({"device": 7}, {"person": "ann", "device": 7}, {}):
        with pytest.raises(InvalidRequest, match="exactly the erase keys"):
            keys_of(entity, [wrong])
    with pytest.raises(InvalidRequest, match="not of the type") as refused:
        keys_of(entity, [{"person": ["a-secret-person"]}])
    assert "a-secret-person" not in str(refused.value)
