"""Every command of guides and tutorials that can run here does: against a served installation."""

import itertools
import json
import re
import shlex
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import attrs
import pytest
from typer.testing import CliRunner

from narthex._ir.assets import AssetKind
from narthex.cli import make_app as make_cli
from narthex_ledger import LedgerError
from narthex_server.app import make_app
from narthex_stack.machine.ports import free_ports
from narthex_stores import Adapter
from tests.mounted_secrets import grant
from tests.server.conftest import NOBODY, TOKEN, House, house_at, settings_at
from tests.server.driving import report_caught_up
from tests.server.listening import listening

pytestmark = [
    pytest.mark.postgres,
    # A command's connections end with its process, which here is the test's.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = DOCS / "guide" / "deploying.md"
WITH_OUTPUT = (DOCS / "tutorials" / "backfill.md", DOCS / "guide" / "quickstart.md")
"""The pages that show what their commands print."""

_BLOCK = re.compile(r"^``` *([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CHANGING = re.compile(r"\b[0-9a-f]{8,}(-[0-9a-f]{4,12})*\b|\b\d+(\.\d+)? m?s\b|127\.0\.0\.1:\d+")
"""Ids, durations and ports, which differ each time."""


def blocks(mark: str) -> list[str]:
    found = re.findall(rf"^``` *{mark}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return [str(block) for block in found]


def commands() -> list[str]:
    return [line for block in blocks("sh run") for line in block.splitlines() if line]


@pytest.fixture
def served(tmp_path: Path, ledger_dsn: str, adapters: dict[AssetKind, Adapter]) -> Iterator[House]:
    """Serve over HTTP, recovery loop and all; a supervisor reports that its jobs have caught up."""
    (port,) = free_ports(1)
    settings = attrs.evolve(
        settings_at(tmp_path, dsn=ledger_dsn, kafka=NOBODY),
        server_url=f"http://127.0.0.1:{port}",
        run_job=str(tmp_path / "run_job.py"),
    )
    # Its supervisor fills what has to be filled, as a run of Spark would.
    (tmp_path / "run_job.py").write_text("")
    with house_at(settings, adapters=adapters) as house:
        stop = threading.Event()
        supervising = threading.Thread(target=supervise, args=(house, stop))
        with listening(make_app(house.services), port):
            supervising.start()
            yield house
            stop.set()
            supervising.join()


def supervise(house: House, stop: threading.Event, pause_s: float = 0.5) -> None:
    """Fill and report, as supervisors do; what is refused, or came too late, comes again."""
    while not stop.wait(pause_s):
        with suppress(LedgerError):
            _fill(house)
            report_caught_up(house)


def _fill(house: House) -> None:
    head = house.ledger.branches.get(house.services.tenant, "main").head_commit_id
    for job in house.ledger.jobs.all():
        if head is not None and job.needs_backfill and job.backfilled_at is None:
            epoch = house.ledger.backfills.claim(head, job.asset.asset_id)
            if epoch is not None:
                house.ledger.backfills.finish(job.asset.asset_id, epoch, offsets={})


def test_the_commands_of_the_guide_work(
    served: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (features,) = blocks("python")
    (tmp_path / "features.py").write_text(features)
    changed = features.replace('"7d"', '"1d"').replace(
        "@dataset(index=True)\nclass OrderCount",
        "@dataset(index=True, version=2)\nclass OrderCount",
    )
    (tmp_path / "features_v2.py").write_text(changed)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NARTHEX_URL", served.services.settings.server_url)
    monkeypatch.setenv("NARTHEX_TOKEN", TOKEN)
    said: dict[str, str] = {}

    for command in commands():
        result = CliRunner().invoke(make_cli(), shlex.split(command)[1:])
        assert result.exit_code == 0, f"{command}: {result.output} {result.exception!r}"
        said[command] = result.output

    assert len(said) >= 12
    assert "+ create" in said["narthex plan features.py"]
    assert '"plan_sha256"' in said["narthex plan features.py --json"]
    assert "with main" in said["narthex plan features.py --branch dev"]
    main = served.ledger.branches.get(served.services.tenant, "main")
    assert (main.head_seq, main.serving_seq) == (3, 3)
    kinds = [view.kind for view in served.ledger.commits.newest(branch=main.branch_id)]
    assert kinds == ["rollback", "deploy", "deploy"]


def sessions(page: Path) -> list[tuple[list[str], str]]:
    """Return the lines of each block of commands, and the output that the page shows for it."""
    found = [(block[1].strip(), block[2]) for block in _BLOCK.finditer(page.read_text())]
    return [
        (before.splitlines(), text)
        for (mark, before), (after, text) in itertools.pairwise(found)
        if (mark, after) == ("sh run", "text output")
    ]


def steady(text: str) -> list[str]:
    """Return lines without what differs each time."""
    return [_CHANGING.sub("…", line.rstrip()) for line in text.splitlines()]


@pytest.mark.parametrize("page", WITH_OUTPUT, ids=lambda page: page.stem)
def test_commands_print_what_the_page_shows(
    page: Path, served: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    definitions = [block[2] for block in _BLOCK.finditer(page.read_text()) if block[1] == "py"]
    (tmp_path / "features.py").write_text(next(iter(definitions), ""))
    for file in re.finditer(
        r"^```csv (\S+)\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL
    ):
        served.services.settings.files_root.mkdir(exist_ok=True)
        (served.services.settings.files_root / file[1]).write_text(file[2])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NARTHEX_URL", served.services.settings.server_url)
    monkeypatch.setenv("NARTHEX_TOKEN", TOKEN)
    monkeypatch.setenv("COLUMNS", "100")

    for commands, shown in sessions(page):
        printed = ""
        for command in commands:
            program, *arguments = shlex.split(command)
            if program == "cd":
                monkeypatch.chdir(arguments[0])
                continue
            result = CliRunner().invoke(make_cli(), arguments)
            assert result.exit_code == 0, f"{command}: {result.output} {result.exception!r}"
            printed += result.output
        assert steady(printed) == steady(shown), printed

    assert sessions(page)


def test_a_person_keeps_secrets_by_commands_and_never_sees_one(
    served: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NARTHEX_URL", served.services.settings.server_url)
    monkeypatch.setenv("NARTHEX_TOKEN", TOKEN)
    run, cli = CliRunner().invoke, make_cli()

    kept = run(cli, ["secret", "set", "bus/word"], input="first\n")
    grant(served.services.settings.policy_file, "bus:9092", secrets=["bus/*"])
    changed = run(cli, ["secret", "set", "bus/word"], input="hunter2\n")
    listed = run(cli, ["secret", "list", "--json"])
    value = served.services.secrets.read("bus/word")
    gone = run(cli, ["secret", "delete", "bus/word"])

    assert [one.exit_code for one in (kept, changed, listed, gone)] == [0, 0, 0, 0]
    assert (json.loads(listed.stdout), value) == (["bus/word"], "hunter2")
    assert '[[secrets]]\nname = "bus/word"' in kept.output
    assert "[[secrets]]" not in changed.output
    assert "hunter2" not in kept.output + changed.output + listed.output + gone.output
    assert served.ledger.secrets.names(served.services.tenant) == ()


def test_a_person_keeps_connections_by_commands(
    served: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NARTHEX_URL", served.services.settings.server_url)
    monkeypatch.setenv("NARTHEX_TOKEN", TOKEN)
    run, cli = CliRunner().invoke, make_cli()
    database = ["host=db.example", "db_name=shop", "port=5433"]
    login = ["--secret", "username=shop/user", "--secret", "password=shop/password"]

    kept = run(cli, ["connection", "set", "shop", "Postgres", *database, *login, "--for", "dev-*"])
    listed = run(cli, ["connection", "list"])
    as_json = run(cli, ["connection", "list", "--json"])
    tested = run(cli, ["connection", "test", "shop", "--branch", "dev-1", "--json"])
    gone = run(cli, ["connection", "delete", "shop"])
    wrong = [
        run(cli, ["connection", "set", "shop", "Oracle"]),
        run(cli, ["connection", "set", "shop", "Postgres", "db.example"]),
        run(cli, ["connection", "set", "shop", "Postgres", *database]),
        run(cli, ["connection", "test", "shop"]),
    ]

    assert [one.exit_code for one in (kept, listed, as_json, gone)] == [0, 0, 0, 0], kept.output
    assert "code names it `Postgres.get('shop')`" in kept.output
    headings, line = listed.stdout.splitlines()
    assert headings.split() == ["name", "kind", "parameters", "branches"]
    assert line == (
        "shop  Postgres  host=db.example, db_name=shop, port=5433, username=secret shop/user, "
        "password=secret shop/password  dev-*"
    )
    (found,) = json.loads(as_json.stdout)
    assert found["arguments"] == {"host": "db.example", "db_name": "shop", "port": 5433}
    assert tested.exit_code == 1
    assert "[[secrets]]" in str(json.loads(tested.stdout)["faults"])
    assert all(one.exit_code != 0 for one in wrong)
    messages = [str(one.exception) for one in wrong]
    assert "`Oracle` is not a kind of connection; expected one of Kafka," in messages[0]
    assert "`db.example` is not a parameter; write `name=value`" in messages[1]
    assert "`username` is missing; `password` is missing" in messages[2]
    assert "there is no connection `shop`" in messages[3]
