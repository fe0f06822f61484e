# ruff: noqa: ARG002, ARG005, N805
"""Metadata of entities (owners, tags, deletion), and the members of structs."""

import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from narthex._analysis.graph import check
from narthex._ir.entities import Index
from narthex._sdk.commit_definitions import definitions
from narthex._sdk.datasets.datasets import dataset_entity
from narthex._sdk.features.featuresets import featureset_entity
from narthex.cli.projects.author_files import load_file
from narthex.connectors import Webhook, source
from narthex.datasets import Dataset, dataset, field, pipeline
from narthex.dtypes import struct
from narthex.errors import DefinitionErrors, MetaInvalid, StructInvalid
from narthex.expr import col
from narthex.featuresets import extractor, feature, featureset
from narthex.lib import inputs, meta, outputs


def _dataset(**options: Any) -> Dataset:
    @source(Webhook("w").endpoint("e"), disorder="1h", cdc="upsert")
    @dataset(**options)
    class D:
        k: int = field(key=True)
        v: int
        at: datetime

    return D


@pytest.mark.parametrize(
    ("options", "index"),
    [
        ({"index": True}, Index(online=True, offline=True)),
        ({"index": True, "offline": False}, Index(online=True, offline=False)),
        ({"index": True, "online": False}, Index(online=False, offline=True)),
        ({"index": True, "online": False, "offline": False}, Index(online=False, offline=False)),
        ({"offline": True}, Index(online=False, offline=True)),
        ({"offline": True, "online": False}, Index(online=False, offline=True)),
        ({"online": True}, Index(online=True, offline=False)),
        ({"online": True, "offline": False}, Index(online=True, offline=False)),
        ({"online": False, "offline": False}, None),
        ({}, None),
        ({"index": True, "offline": True}, "NX112"),
        ({"index": True, "online": True}, "NX112"),
        ({"online": True, "offline": True}, "NX112"),
    ],
)
def test_index_shorthands_match_the_table(
    options: dict[str, bool], index: Index | str | None
) -> None:
    if isinstance(index, str):
        with pytest.raises(DefinitionErrors) as raised:
            _dataset(**options)
        assert [error.code for error in raised.value.exceptions_flat()] == [index]
    else:
        assert dataset_entity(_dataset(**options)).index == index


def test_a_single_tag_needs_no_list() -> None:
    assert dataset_entity(meta(tags="pii")(_dataset())).metadata.tags == ("pii",)
    assert dataset_entity(meta(tags=["a", "b"])(_dataset())).metadata.tags == ("a", "b")


@pytest.mark.parametrize(
    "said",
    [{"owner": "nobody"}, {"owner": 5}, {"description": 5}, {"tags": [5]}],
)
def test_metadata_is_text_and_an_owner_is_an_address(said: dict[str, Any]) -> None:
    with pytest.raises(MetaInvalid):
        meta(**said)


def _load(tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    file = tmp_path / f"authored_{abs(hash(text)) % 10**8}.py"
    file.write_text(text)
    monkeypatch.setitem(sys.modules, file.stem, None)
    return load_file(file)


HEAD = """
from datetime import datetime
from narthex.connectors import Kafka, Webhook, source
from narthex.datasets import dataset, field
from narthex.featuresets import feature, featureset
from narthex.lib import meta
"""


def test_a_files_owner_owns_what_has_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"""{HEAD}
__owner__ = "team@example.com"

@source(Webhook("w").endpoint("e"), disorder="1h", cdc="append")
@dataset
class A:
    at: datetime

@meta(owner="ann@example.com")
@featureset
class F:
    a: int
"""
    found = _load(tmp_path, text, monkeypatch)

    assert found.check() == ()
    made = found.definitions()
    assert made.datasets[0].metadata.owner == "team@example.com"
    assert made.featuresets[0].metadata.owner == "ann@example.com"


def test_a_files_owner_is_an_address_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"""{HEAD}
__owner__ = "the team"

@dataset
class A:
    at: datetime
"""
    (error,) = _load(tmp_path, text, monkeypatch).check()

    assert error.code == "NX106"


def test_mistakes_of_all_entities_of_one_file_are_reported_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"""{HEAD}
bus = Kafka("bus", "b:9092", sasl_plain_password="hunter2").topic("t")

@source(bus, disorder="soon", cdc="append")
@dataset(index=True)
class A:
    k: int = field(key=True)
    v: set
    at: datetime

@featureset
class F:
    k: int
    v: int = feature(A.v, default=0)
    w: str = feature(default=1)
"""
    errors = _load(tmp_path, text, monkeypatch).check()

    assert [(error.code, error.origin.line) for error in errors] == [
        ("NX503", 8),
        ("NX102", 10),
        ("NX103", 14),
        ("NX601", 21),
    ]
    assert "hunter2" not in " ".join(map(str, errors))


@featureset
class Kept:
    a: int
    old: int = feature(col("a") + 1).meta(deleted=True)
    b: int
    c: int = feature().meta(deleted=True)

    @extractor
    @inputs("a")
    @outputs("b", "c")
    def both(cls, ts: Any, a: Any) -> Any:
        return a

    @meta(deleted=True)
    @extractor
    @inputs("a")
    @outputs("b")
    def gone(cls, ts: Any, a: Any) -> Any:
        return a


def test_deleted_entities_go_with_code_that_computes_nothing_else() -> None:
    found = featureset_entity(Kept)

    assert [one.name for one in found.features] == ["a", "b"]
    assert [getattr(one, "name", "") for one in found.extractors] == ["both"]


def test_deleted_entities_are_omitted_and_their_users_are_reported() -> None:
    deleted = meta(owner="a@b.co", deleted=True)(_dataset(index=True))

    @meta(owner="a@b.co")
    @featureset
    class F:
        k: int
        v: int = feature(deleted.v, default=0)

    made = definitions([deleted], [F])

    assert made.datasets == ()
    assert [error.code for error in check(made)] == ["NX801"]
    assert definitions([deleted], [], with_deleted=True).datasets[0].metadata.deleted


def _struct(**members: Any) -> Any:
    return type("Car", (), {"__annotations__": {"make": str}, **members})


@struct
class Wheel:
    size: int


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ({"drive": lambda self: None}, "has the method `drive`"),
        ({"drive": classmethod(lambda cls: None)}, "has the method `drive`"),
        ({"drive": staticmethod(lambda: None)}, "has the method `drive`"),
        ({"drive": property(lambda self: None)}, "has the method `drive`"),
        ({"make": "vw"}, "has the default `'vw'`"),
        ({"Engine": type("Engine", (), {})}, "has the attribute `Engine`"),
    ],
)
def test_a_struct_has_members_only(members: dict[str, Any], says: str) -> None:
    with pytest.raises(DefinitionErrors) as raised:
        struct(_struct(**members))

    (error,) = raised.value.exceptions_flat()
    assert isinstance(error, StructInvalid)
    assert says in error.message


def test_a_struct_may_hold_another_struct_and_its_class() -> None:
    made = struct(_struct(Wheel=Wheel))

    assert made(make="vw").as_json() == {"make": "vw"}


def test_a_struct_has_no_metadata() -> None:
    with pytest.raises(DefinitionErrors, match="has a `@meta`"):
        struct(meta(owner="a@b.co")(_struct()))


def test_docstrings_are_descriptions_unless_meta_has_one() -> None:
    @source(Webhook("w").endpoint("e"), disorder="1h", cdc="append")
    @dataset
    class Said:
        """Orders as they come in.

        One row an order.
        """

        v: int
        at: datetime

    @meta(owner="a@example.com", description="Of @meta.")
    @dataset(index=True)
    class Both:
        """Of the class."""

        k: int = field(key=True)
        v: int
        at: datetime

        @pipeline
        @inputs(Said)
        def first(cls, said: Dataset) -> Dataset:
            """Take the first ones."""
            return said.assign("k", int, lambda df: df["v"]).groupby("k").first()

    @featureset
    class Features:
        """The features of an order."""

        v: int

    said, both = dataset_entity(Said), dataset_entity(Both)
    features = featureset_entity(Features)

    assert said.metadata.description == "Orders as they come in.\n\nOne row an order."
    assert both.metadata.description == "Of @meta."
    assert both.pipelines[0].metadata.description == "Take the first ones."
    assert features.metadata.description == "The features of an order."


def test_a_class_without_a_docstring_has_no_description_of_its_base() -> None:
    class Base:
        """A base."""

    @source(Webhook("w").endpoint("e"), disorder="1h", cdc="append")
    @dataset
    class Plain(Base):
        v: int
        at: datetime

    assert dataset_entity(Plain).metadata.description == ""
