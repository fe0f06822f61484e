"""Licences of all dependencies, the Java archives of the bill of materials, and the audit."""

import zipfile
from pathlib import Path

import pytest

from tests.supply_chain.bill_of_materials import archive_component
from tests.supply_chain.licences import (
    LOCK,
    PAGE,
    RECIPROCAL,
    installed,
    pinned,
    refused,
    render,
)
from tests.supply_chain.vulnerabilities import parse


def test_each_package_has_a_licence_that_is_accepted() -> None:
    found = dict(installed())

    assert len(found) > 150
    assert [name for name, stated in found.items() if refused(name, stated)] == []
    assert RECIPROCAL.keys() <= found.keys()


def test_the_page_lists_the_licence_of_each_package() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), "`python -m tests.supply_chain licences`"


@pytest.mark.parametrize(
    ("stated", "is_refused"),
    [
        ("MIT", False),
        ("MIT AND PSF-2.0", False),
        ("GPL-3.0-only OR Apache-2.0", False),
        ("GPL-3.0-only", True),
        ("MIT AND GPL-3.0-only", True),
        ("UNKNOWN", True),
        ("", True),
    ],
)
def test_a_licence_that_is_not_permissive_is_refused(stated: str, is_refused: bool) -> None:
    assert refused("some-package", stated) is is_refused


def test_names_of_a_lock_file_are_those_of_the_index() -> None:
    assert pinned("ruamel.yaml==1 \\\n    --hash=sha256:00\nPyYAML==2\n# x==3\n") == (
        "pyyaml",
        "ruamel-yaml",
    )
    assert "pyspark" in pinned(LOCK.read_text(encoding="utf-8"))


def test_a_java_archive_has_the_coordinates_that_it_states(tmp_path: Path) -> None:
    archive = tmp_path / "avro-tools-1.12.0.jar"
    with zipfile.ZipFile(archive, "w") as opened:
        opened.writestr("META-INF/maven/org.other/shaded/pom.properties", "")
        opened.writestr("META-INF/maven/org.apache.avro/avro-tools/pom.properties", "")

    component = archive_component(archive)

    assert component["purl"] == "pkg:maven/org.apache.avro/avro-tools@1.12.0"
    assert component["hashes"] != []


def test_a_package_that_was_not_looked_up_is_not_audited() -> None:
    result = parse(
        [
            {"name": "one", "version": "1.0", "vulns": []},
            {"name": "two", "skip_reason": "not found"},
            {"name": "three", "version": "3", "vulns": [{"id": "CVE-1", "fix_versions": ["3.1"]}]},
        ]
    )

    assert result.audited == ("one", "three")
    assert result.not_audited == {"two": "not found"}
    assert result.found == ("three 3: CVE-1, mended in 3.1",)
