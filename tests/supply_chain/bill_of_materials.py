"""A bill of materials in CycloneDX's format: Python packages, and the Java archives beside them."""

import hashlib
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Final

from narthex._base import Json
from narthex_stack.machine.jars import BROKER, CONNECTORS, resolve
from tests.supply_chain.licences import ROOT

TOOLS: Final = ROOT / ".venv" / "audit" / "bin"
_ARCHIVE: Final = re.compile(r"(?P<name>.+?)-(?P<version>\d[^/]*)\.jar")
_VALIDATE: Final = """
import sys
from cyclonedx.schema import OutputFormat, SchemaVersion
from cyclonedx.validation import make_schemabased_validator
validator = make_schemabased_validator(OutputFormat.JSON, SchemaVersion.V1_6)
error = validator.validate_str(open(sys.argv[1], encoding="utf-8").read())
sys.exit(f"not valid: {error!r}" if error else 0)
"""


def write_bill(path: Path) -> int:
    """Write the bill of materials of this environment; return the number of its components.

    Raises:
        subprocess.CalledProcessError: The tool failed, or the result does not match the schema.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [
            *(str(TOOLS / "cyclonedx-py"), "environment", sys.executable),
            *("--pyproject", str(ROOT / "pyproject.toml"), "--spec-version", "1.6"),
            *("--output-reproducible", "--output-file", str(path)),
        ],
        check=True,
        stdout=sys.stderr,
    )
    bill: dict[str, Json] = json.loads(path.read_text(encoding="utf-8"))
    components = bill["components"]
    if not isinstance(components, list):
        raise TypeError(f"`{path}` has no list of components")
    archives = {str(component["bom-ref"]): component for component in archive_components()}
    components += [archives[reference] for reference in sorted(archives)]
    path.write_text(json.dumps(bill, indent=2) + "\n", encoding="utf-8")
    subprocess.run([str(TOOLS / "python"), "-c", _VALIDATE, str(path)], check=True)
    return len(components)


def archive_components() -> Iterator[dict[str, Json]]:
    """Yield a component for each Java archive: those of PySpark, of the broker and of Spark."""
    directories = [
        Path(str(resources.files("pyspark"))) / "jars",
        *(resolve(jars) for jars in (BROKER, CONNECTORS)),
    ]
    for directory in directories:
        for archive in sorted(directory.rglob("*.jar")):
            yield archive_component(archive)


def archive_component(archive: Path) -> dict[str, Json]:
    """Return the component of one Java archive, with Maven's coordinates if it has its own."""
    named = _ARCHIVE.fullmatch(archive.name)
    name, version = (named["name"], named["version"]) if named else (archive.stem, "")
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    component: dict[str, Json] = {
        "type": "library",
        "bom-ref": f"{archive.name}@{digest}",
        "name": name,
        "version": version,
        "hashes": [{"alg": "SHA-256", "content": digest}],
    }
    group = _group(archive, name)
    if group:
        component |= {"group": group, "purl": f"pkg:maven/{group}/{name}@{version}"}
    return component


def _group(archive: Path, name: str) -> str:
    """Return the group that an archive states for the artifact of its own name; empty if none."""
    with zipfile.ZipFile(archive) as opened:
        for entry in opened.namelist():
            parts = entry.split("/")
            if entry.endswith("/pom.properties") and parts[-2] == name:
                return parts[-3]
    return ""
