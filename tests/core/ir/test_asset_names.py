import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narthex._ir.asset_names import install_prefix, kind_prefix, physical_name
from narthex._ir.assets import AssetKind

LEGAL = re.compile(r"^[a-z][a-z0-9_]{0,62}$")


def name_of(
    *,
    install_id: str = "7k2m9q4a",
    tenant: int | str = 1,
    kind: AssetKind = AssetKind.KAFKA_TOPIC,
    fp_version: int = 1,
    fingerprint: bytes = b"f" * 32,
    incarnation: int = 1,
) -> str:
    return physical_name(
        install_id=install_id,
        tenant=tenant,
        kind=kind,
        fp_version=fp_version,
        fingerprint=fingerprint,
        incarnation=incarnation,
    )


def test_a_name_is_the_same_in_every_process_and_version() -> None:
    assert name_of() == "nx_7k2m9q4a_kt_54ajymh3ozmev3hobg5wmp25ey_i1"


@given(
    st.integers(min_value=0),
    st.sampled_from(AssetKind),
    st.binary(max_size=40),
    st.integers(min_value=1, max_value=10**20 - 1),
)
def test_a_name_is_legal_for_kafka_files_and_postgres(
    tenant: int, kind: AssetKind, fingerprint: bytes, incarnation: int
) -> None:
    name = name_of(tenant=tenant, kind=kind, fingerprint=fingerprint, incarnation=incarnation)

    assert LEGAL.fullmatch(name)
    assert name.startswith(kind_prefix("7k2m9q4a", kind))


def test_each_part_of_the_meaning_changes_the_name() -> None:
    names = {
        name_of(),
        name_of(install_id="00000000"),
        name_of(tenant=2),
        name_of(kind=AssetKind.INDEX),
        name_of(fp_version=2),
        name_of(fingerprint=b"g" * 32),
        name_of(incarnation=2),
    }

    assert len(names) == 7


def test_parts_never_run_into_each_other() -> None:
    assert name_of(tenant=1, fp_version=11) != name_of(tenant=11, fp_version=1)
    assert name_of(fp_version=1, fingerprint=b"1x") != name_of(fp_version=11, fingerprint=b"x")


@pytest.mark.parametrize("install_id", ["", "short", "7K2M9Q4A", "7k2m9q4_", "7k2m9q4aa"])
def test_an_installation_of_another_shape_has_no_names(install_id: str) -> None:
    with pytest.raises(ValueError, match="eight"):
        install_prefix(install_id)


def test_incarnations_count_from_one() -> None:
    with pytest.raises(ValueError, match="must be at least 1"):
        name_of(incarnation=0)
