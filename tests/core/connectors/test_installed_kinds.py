"""A kind of connector from a package in one folder, found as an installer registers it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import attrs
import pytest

from docs.render_connectors import render
from narthex._analysis.fingerprints import source_id
from narthex._analysis.graph import check
from narthex._analysis.policy import Policy, egress_errors, policy_errors, tags_of_place
from narthex._analysis.policy.commit_checks import place_of
from narthex._authoring.error_collection import collecting
from narthex._base.origin import Origin
from narthex._base.records import to_plain
from narthex._compiler import compile_blueprint
from narthex._compiler.capability import not_carried_out
from narthex._connectors.registry import BUILT_IN, ConnectorKindError, kind_of, kinds
from narthex._ir.assets import SourceJobSpec, Trigger
from narthex._ir.entities import Definitions
from narthex._sdk.commit_definitions import definitions
from narthex.connectors import Secret, Webhook, source
from narthex.datasets import dataset
from narthex.errors import (
    ConnectorInvalid,
    CredentialInline,
    NotGranted,
    PlaceForbidden,
    SecretNotGranted,
)
from tests.connectors.installing import FOLDER, installed, write_distribution

__owner__ = "a@b.co"

COLUMNS = ["who", "at"]
ALL_FILES = '[[files]]\npath = "shop/**"\nbranches = ["main"]\ntags = ["pii"]\n'


@pytest.fixture
def line_files(tmp_path: Path) -> Iterator[Any]:
    """Install the package `line-files`; return its module, which authors import."""
    with installed(tmp_path):
        import line_files  # noqa: PLC0415 (it is installed just above)

        yield line_files


def reading(connector: object, cdc: str = "append") -> Definitions:
    @source(connector, disorder="1h", cdc=cdc)
    @dataset
    class Visits:
        who: str
        at: datetime

    return definitions([Visits], [])


def test_a_package_adds_a_kind_after_those_of_the_platform(line_files: Any) -> None:
    assert [kind.name for kind in kinds()] == [*BUILT_IN, "line_files"]
    assert kind_of(line_files.LineFiles("l").path("a", COLUMNS)) is line_files.KIND


def test_without_the_package_there_are_only_the_kinds_of_the_platform() -> None:
    kinds.cache_clear()

    assert [kind.name for kind in kinds()] == list(BUILT_IN)


def test_an_author_declares_it_as_any_other_connector(line_files: Any) -> None:
    made = reading(line_files.LineFiles("l").path("shop/*.txt", COLUMNS))

    (visits,) = made.datasets
    assert check(made) == ()
    assert not_carried_out(made) == ()
    assert source_id(visits.sources[0]) == "lines:shop/*.txt"


def test_a_wrong_part_is_reported_with_the_authors_line(line_files: Any) -> None:
    begun = line_files.LineFiles("l", "word")
    with collecting() as errors:
        begun.path("a", COLUMNS, separator="--")  # the line of the author

    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    line = 1 + next(n for n, text in enumerate(lines) if text.endswith("# the line of the author"))
    assert [type(error) for error in errors] == [ConnectorInvalid, CredentialInline]
    assert errors[0].message == "`separator` got `--`; expected one character"
    assert {(Path(error.origin.file).name, error.origin.line) for error in errors} == {
        (Path(__file__).name, line)
    }


def test_the_server_checks_payloads_of_other_clients(line_files: Any) -> None:
    made = reading(line_files.LineFiles("l").path("shop/a.txt", COLUMNS))
    (visits,) = made.datasets
    (read,) = visits.sources
    sources = (attrs.evolve(read, connector=attrs.evolve(read.connector, columns=())),)
    sent = attrs.evolve(made, datasets=(attrs.evolve(visits, sources=sources),))

    (error,) = check(sent)
    assert isinstance(error, ConnectorInvalid)
    assert error.message == "line files have no `columns`"
    assert error.origin == read.origin


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda kind: kind("l"), "`LineFiles` has no `path`"),
        (lambda kind: kind("l").path("a", COLUMNS), "only Kafka, Kinesis, Files and Webhook bring"),
    ],
)
def test_a_source_of_it_is_checked_as_any_other(line_files: Any, call: Any, message: str) -> None:
    with collecting() as errors:
        source(call(line_files.LineFiles), disorder="1h", cdc="debezium")(
            dataset(type("V", (), {"__annotations__": {"at": datetime}, "__module__": __name__}))
        )

    assert message in "\n".join(map(str, errors))


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("../keys.txt", PlaceForbidden),
        ("/etc/passwd", PlaceForbidden),
    ],
)
def test_no_policy_grants_it_a_path_outside_the_files_root(
    line_files: Any, path: str, error: type[Exception]
) -> None:
    made = reading(line_files.LineFiles("l").path(path, COLUMNS))

    assert [type(found) for found in check(made)] == [error]


def _error_types(made: Definitions, rules: str, branch: str = "main") -> list[type[Exception]]:
    policy = Policy.parse(rules)
    errors = policy_errors(made, None, policy=policy, branch=branch, places=("home",))
    return [type(error) for error in (*errors, *egress_errors(made, policy, branch=branch))]


def test_the_policy_decides_by_what_the_kind_declares(line_files: Any) -> None:
    shop = reading(line_files.LineFiles("l").path("shop/a.txt", COLUMNS))
    home = reading(line_files.LineFiles("l").path("home/secrets.json", COLUMNS))
    place = place_of(shop.datasets[0].sources[0].connector)

    assert _error_types(shop, ALL_FILES) == []
    assert _error_types(shop, ALL_FILES, branch="other") == [NotGranted]
    assert _error_types(home, "") == [PlaceForbidden]
    assert place is not None
    assert tags_of_place(place, Policy.parse(ALL_FILES)) == {"pii"}


def test_a_secret_that_the_kind_declares_for_no_server_needs_a_rule(line_files: Any) -> None:
    made = reading(line_files.LineFiles("l", Secret("word")).path("shop/a.txt", COLUMNS))
    rule = '[[secrets]]\nname = "word"\nbranches = ["main"]\nhosts = ["nowhere:1"]\n'

    assert _error_types(made, ALL_FILES) == [SecretNotGranted]
    assert _error_types(made, ALL_FILES + rule) == []


def test_it_compiles_into_a_job_that_polls(line_files: Any) -> None:
    made = reading(line_files.LineFiles("l").path("shop/a.txt", COLUMNS))

    specs = [asset.spec for asset in compile_blueprint(made).assets]
    (job,) = [spec for spec in specs if isinstance(spec, SourceJobSpec)]
    assert job.source_id == "lines:shop/a.txt"
    assert (job.trigger, job.reason) == (Trigger.STAGE, "files are read again and again")


@pytest.mark.usefixtures("line_files")
def test_it_is_on_the_page_of_connectors() -> None:
    page = render(kinds())

    assert "## Line files\n\nText files below the files root, with one row per line." in page
    assert "| declared by | `LineFiles(…).path(path, columns)` |" in page
    assert "| needs | `line-files[reader]` |" in page


def _run(code: str, *arguments: str, site: Path | None) -> subprocess.CompletedProcess[str]:
    path = [str(FOLDER.parents[1]), *([str(site), str(FOLDER)] if site else [])]
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path)},
        capture_output=True,
        text=True,
        check=False,
    )


READ = """
import json, sys
from narthex._base.records import from_plain
assert "line_files" not in sys.modules
print(from_plain(json.loads(sys.argv[1])))
"""


def test_a_process_that_reads_definitions_finds_the_kind_only_if_it_is_installed(
    line_files: Any, tmp_path: Path
) -> None:
    made = json.dumps(to_plain(line_files.LineFiles("l").path("shop/a.txt", COLUMNS)))

    with_it = _run(READ, made, site=tmp_path)
    without = _run(READ, made, site=None)

    assert "LineFilesPath(name='l', path='shop/a.txt'" in with_it.stdout, with_it.stderr
    assert without.returncode == 1
    assert "UnknownRecordError: `LineFilesPath` is not a record of this version" in without.stderr


WORK = """
import sys
from narthex._runtime.workers.serving import warm
warm()
print(sorted(name for name in sys.modules if name.startswith(("line_files", "narthex._conn"))))
"""


def test_a_confined_worker_imports_no_installed_kind(tmp_path: Path) -> None:
    with installed(tmp_path):
        found = _run(WORK, site=tmp_path)

    assert found.returncode == 0, found.stderr
    assert found.stdout == "[]\n"


INCOMPLETE = """
import attrs
from line_files import KIND, LineFilesPath
from narthex.connector_kinds import ConnectorKind, Input, PolicyFacts, SourceKind

REACHES_UNKNOWN = attrs.evolve(KIND, name="half", policy=None)
REACHES_NO_PLACE = attrs.evolve(
    KIND, name="half", policy=PolicyFacts(text="x", outlets=None, place=None)
)
NOTHING = attrs.evolve(KIND, name="half", source=None)
NO_READER = attrs.evolve(KIND, name="half", source=attrs.evolve(KIND.source, reader=""))
PUSHED = attrs.evolve(KIND, name="half", source=attrs.evolve(KIND.source, input=Input.INGEST))
NO_RECORD = attrs.evolve(KIND, name="half", record=int)
SAME_NAME = attrs.evolve(KIND, name="kafka")
NOT_A_KIND = 5
"""


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        ("REACHES_UNKNOWN", "it has no `policy`, the hosts, places and secrets that it reaches"),
        ("REACHES_NO_PLACE", "its policy has no function `outlets`; its policy has no function"),
        ("NOTHING", "it has neither `source` nor `sink`"),
        ("NO_READER", "its source has no `reader`"),
        ("PUSHED", "another `input` than `POLLED`"),
        ("NO_RECORD", "its `record` is not a class of `Connector`"),
        ("SAME_NAME", "is named `kafka`, as another kind of connector"),
        ("NOT_A_KIND", "is not a `ConnectorKind`, got `5`"),
        ("MISSING", "cannot be loaded"),
    ],
)
def test_an_incomplete_kind_is_refused_with_what_it_lacks(
    tmp_path: Path, attribute: str, message: str
) -> None:
    (tmp_path / "half_kinds.py").write_text(INCOMPLETE)

    with (
        installed(tmp_path, "half", {"half": f"half_kinds:{attribute}"}),
        pytest.raises(ConnectorKindError) as raised,
    ):
        kinds()

    told = str(raised.value)
    assert told.startswith(f"the connector `half` of the package `half` (`half_kinds:{attribute}`)")
    assert message in told


REACHING_NOTHING = """
import attrs
from line_files import KIND

NOWHERE = attrs.evolve(KIND, policy=attrs.evolve(KIND.policy, place=lambda _: None))
"""


def test_a_connector_without_a_place_and_a_server_is_refused_at_the_commit(tmp_path: Path) -> None:
    (tmp_path / "nowhere_kind.py").write_text(REACHING_NOTHING)

    with installed(tmp_path, "nowhere", {"line_files": "nowhere_kind:NOWHERE"}):
        import line_files  # noqa: PLC0415 (it is importable just above)

        made = reading(line_files.LineFiles("l").path("shop/a.txt", COLUMNS))
        (error,) = egress_errors(made, Policy(), branch="main")

    assert isinstance(error, ConnectorInvalid)
    assert "declares neither a place nor a server" in error.message
    assert isinstance(error.origin, Origin)


def test_a_package_cannot_replace_a_kind_of_the_platform(tmp_path: Path) -> None:
    (tmp_path / "shadow_kind.py").write_text(
        "import attrs\nfrom narthex._connectors.webhook import KIND as OWN\n"
        "from line_files import KIND as LINES\n"
        "KIND = attrs.evolve(LINES, name='shadow', record=OWN.record)\n"
    )
    with installed(tmp_path, "shadow", {"shadow": "shadow_kind:KIND"}):
        assert kind_of(Webhook("w").endpoint("e")).name == "webhook"


def test_two_packages_with_one_name_are_refused(tmp_path: Path) -> None:
    write_distribution(tmp_path, "again", {"line_files": "line_files:KIND"})

    with installed(tmp_path), pytest.raises(ConnectorKindError, match="uninstall one of the two"):
        kinds()
