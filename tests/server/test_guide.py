"""Every command of guides and tutorials that can run here does: against a served installation."""

import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import attrs
import pytest
from typer.testing import CliRunner

from narthex._ir.assets import AssetKind
from narthex.cli import make_app as make_cli
from narthex.settings import environment_of
from narthex_ledger import LedgerError
from narthex_server.app import make_app
from narthex_stack.machine.ports import free_ports
from narthex_stores import Adapter, index_store
from tests.guides.pages import DOCS, Block, blocks, commands, pages_with, place
from tests.guides.shell import Shell, environment
from tests.guides.terminal import Terminal, terminal_of
from tests.mounted_secrets import grant
from tests.server.alerts.local_receivers import http_receiver
from tests.server.conftest import NOBODY, TOKEN, House, house_at, settings_at
from tests.server.driving import report_caught_up, serve
from tests.server.listening import listening
from tests.server.shop import shop_definitions

pytestmark = [
    pytest.mark.postgres,
    # A command's connections end with its process, which here is the test's.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.slow,
]

GUIDE = DOCS / "guide"


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
    indexes = {AssetKind.INDEX: index_store(settings).adapter()}
    with house_at(settings, adapters={**adapters, **indexes}) as house:
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


@pytest.fixture
def terminal(served: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal in an empty directory, whose commands call the installation."""
    url = served.services.settings.server_url
    return terminal_of(url, TOKEN, directory=tmp_path / "reader", monkeypatch=monkeypatch)


def test_the_commands_on_deploying_work(served: House, terminal: Terminal) -> None:
    (features,) = (block.text for block in blocks(GUIDE / "deploying.md", "python"))
    Path("features.py").write_text(features)
    changed = features.replace('"7d"', '"1d"').replace(
        "@dataset(index=True)\nclass OrderCount",
        "@dataset(index=True, version=2)\nclass OrderCount",
    )
    Path("features_v2.py").write_text(changed)
    Path("docker/monitoring").mkdir(parents=True)
    for name in ("NARTHEX_URL", "NARTHEX_TOKEN"):
        terminal.monkeypatch.delenv(name)
    terminal.placeholders = {
        "https://features.example.com": lambda _: served.services.settings.server_url,
        "nx_…": lambda _: TOKEN,
    }

    terminal.follows(GUIDE / "deploying.md", "sh run")

    said = terminal.said
    assert len(said) >= 13
    assert "+ create" in said["narthex plan features.py"]
    assert '"plan_sha256"' in said["narthex plan features.py --json"]
    assert "with main" in said["narthex plan features.py --branch dev"]
    assert Path("docker/monitoring/token").read_text().startswith("nx_tests000_")
    main = served.ledger.branches.get(served.services.tenant, "main")
    assert (main.head_seq, main.serving_seq) == (3, 3)
    kinds = [view.kind for view in served.ledger.commits.newest(branch=main.branch_id)]
    assert kinds == ["rollback", "deploy", "deploy"]


@pytest.mark.parametrize(
    ("page", "outputs"), [("tutorials/backfill.md", 2), ("guide/quickstart.md", 3)]
)
def test_commands_print_what_a_tutorial_shows(
    served: House, terminal: Terminal, page: str, outputs: int
) -> None:
    for block in blocks(DOCS / page):
        kind, _, name = block.mark.partition(" ")
        if kind == "csv":
            served.services.settings.files_root.mkdir(exist_ok=True)
            (served.services.settings.files_root / name).write_text(block.text)
    for block in blocks(DOCS / page, "py")[:1]:
        Path("features.py").write_text(block.text)

    assert terminal.follows(DOCS / page, "sh run") == outputs


def test_the_commands_on_projects_work(served: House, terminal: Terminal) -> None:
    first, second, shell = blocks(GUIDE / "projects.md", "sh run")
    banner, typed, *answer = _text_after(shell).splitlines()
    project = blocks(GUIDE / "projects.md", "toml")[0].text
    url, program = "https://features.example.org", "keyring get narthex production"
    assert project.count(url) == project.count(program) == 1

    terminal.types(first)
    Path("narthex.toml").write_text(
        project.replace(url, served.services.settings.server_url).replace(program, f"echo {TOKEN}")
    )
    for name in ("NARTHEX_URL", "NARTHEX_TOKEN"):
        terminal.monkeypatch.delenv(name)
    terminal.types(second)
    url = served.services.settings.server_url
    for name, value in (("NARTHEX_URL", url), ("NARTHEX_TOKEN", TOKEN)):
        terminal.monkeypatch.setenv(name, value)
    (begun,) = (command.text for command in commands(shell.text))
    query = typed.removeprefix(">>> ")
    cloned = 'client.clone_branch("dev", from_branch="main")'
    terminal.typed = {begun: f"{query}\n{cloned}\n{query}\n"}
    told = terminal.types(shell)

    dev = next(text for command, text in terminal.said.items() if command.startswith("narthex dev"))
    assert [word for word in ("check", "tests", "plan") if f"-- {word}: done" in dev] == [
        "check",
        "tests",
        "plan",
    ]
    main = served.ledger.branches.get(served.services.tenant, "main")
    assert (main.head_seq, main.serving_seq) == (1, 1)
    assert f"{banner}\n" in told
    assert told.count("there is no branch `dev`") == 1
    assert "\n".join(answer) in told


def _text_after(block: Block) -> str:
    """Return the block of text after another one."""
    every = blocks(block.page)
    after = every[every.index(block) + 1]
    assert after.mark == "text"
    return after.text


def test_the_commands_on_alerts_work(served: House, terminal: Terminal) -> None:
    terminal.placeholders = {"ID": lambda printed: printed.strip()}

    with http_receiver() as receiver:
        served.services.settings.alerts_file.write_text(
            f'[[receivers]]\nname = "team"\nkind = "webhook"\nurl = "{receiver.url}"\n'
        )
        terminal.follows(GUIDE / "alerts.md", "sh run")

    silence = terminal.said[
        'narthex alerts silence --for 2h --reason "the broker is replaced" --rule lag --branch main'
    ]
    ended = terminal.said["narthex alerts unsilence ID"]
    assert ended == f"silence {silence.strip()} has ended\n"
    assert len(receiver.calls) == 1
    assert served.client.get("/api/v1/alerts").json()["silences"] == []


def test_the_commands_on_keys_work(served: House, terminal: Terminal) -> None:
    for name, value in environment_of(served.services.settings).items():
        terminal.monkeypatch.setenv(name, value)
    terminal.placeholders = {
        "5f0c…": lambda printed: printed.partition("keys retire ")[2].partition("`")[0]
    }
    terminal.refused = {"narthex keys retire 5f0c…": "less than 60 s ago"}

    terminal.follows(GUIDE / "keys.md", "sh run")

    assert "signing  " in terminal.said["narthex keys list"]
    (rotated,) = (text for said, text in terminal.said.items() if "keys rotate" in said)
    assert "is current, and signs bundles" in rotated


def test_the_commands_on_connections_work(served: House, terminal: Terminal) -> None:
    (rule,) = (block.text for block in blocks(GUIDE / "sources.md", "toml"))
    served.services.settings.policy_file.write_text(
        rule + rule.replace("shop-password", "shop-user")
    )
    # Nobody has this server: names below `example` are reserved.
    terminal.refused = {"narthex connection test shop": "db.shop.example:5432"}

    terminal.follows(GUIDE / "sources.md", "sh run")

    assert "secret shop-user" in terminal.said["narthex connection list"]


def test_the_commands_on_running_work(served: House, terminal: Terminal) -> None:
    serve(served, shop_definitions())

    terminal.follows(GUIDE / "running.md", "sh run")

    said = terminal.said["narthex unread --days 90"].splitlines()
    assert any(line.split()[:4] == ["too", "recent", "dataset", "Spend"] for line in said)


NEWSLETTER = """

from narthex.connectors import Kafka, sink
from narthex.datasets import pipeline
from narthex.expr import col
from narthex.lib import inputs


@sink(Kafka("bus", "broker:9092").topic("newsletter"), cdc="debezium")
@dataset
class Readers:
    person: str = field(key=True)
    club: str
    since: datetime = field(timestamp=True)

    @pipeline
    @inputs(Members)
    def all(cls, members):
        return members.filter(col("club") != "")
"""
"""Definitions beside those of the page on erasure: a sink to the target that it names."""


def test_a_target_that_is_not_erased_is_named_by_the_command_of_the_page(
    served: House, tmp_path: Path
) -> None:
    page, settings = GUIDE / "erasure.md", served.services.settings
    (members,) = (block.text for block in blocks(page, "python"))
    (erasing,) = blocks(page, "sh run")
    target = "kafka:broker:9092/newsletter"
    unnamed = erasing.text.strip().removesuffix(f" --leave-sink {target}")
    assert unnamed == "narthex erase Members --key person=hedwig"
    settings.policy_file.write_text(
        '[[topics]]\nname = "newsletter"\nbranches = ["main"]\nwrite = true\n'
    )
    grant(settings.policy_file, "broker:9092")
    (tmp_path / "features.py").write_text(members + NEWSLETTER)
    variables = environment(
        tmp_path, NARTHEX_URL=settings.server_url, NARTHEX_TOKEN=TOKEN, NO_COLOR="1"
    )
    shell = Shell(directory=tmp_path, variables=variables)
    shell.types("narthex commit features.py")

    refused = shell.types(f"! {unnamed}", answer="y\n")
    shown = shell.types(erasing.text, answer="y\n")

    assert "NX901" in refused
    assert f"`{target}` has rows of `Readers`" in refused
    (erasure,) = served.ledger.erasures.newest(served.services.tenant)
    assert shown.startswith("erase the rows of 1 key of Members? ")
    assert f"{erasure.erasure_id}\n" in shown
    assert erasure.leave_sinks == (target,)


def test_the_commands_on_tokens_work(served: House, terminal: Terminal) -> None:
    """Each of these pages has one command about a token."""
    terminal.follows(GUIDE / "airflow.md", "sh run")
    terminal.follows(GUIDE / "console.md", "sh run")
    held = {one.name: one for one in served.ledger.tokens.all()}
    terminal.placeholders = {"ID": lambda _: held["ada"].token_id}
    terminal.follows(GUIDE / "sso.md", "sh run")

    assert held["airflow"].scopes == ("dags",)
    assert held["ada"].scopes == ("reader",)
    left = served.client.get("/api/v1/tokens").json()["tokens"]
    assert {one["name"] for one in left if one["revoked_at"] is None} == held.keys() - {"ada"}


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


RUN_BY = {
    "docs/guide/airflow.md": test_the_commands_on_tokens_work,
    "docs/guide/alerts.md": test_the_commands_on_alerts_work,
    "docs/guide/console.md": test_the_commands_on_tokens_work,
    "docs/guide/deploying.md": test_the_commands_on_deploying_work,
    "docs/guide/erasure.md": test_a_target_that_is_not_erased_is_named_by_the_command_of_the_page,
    "docs/guide/keys.md": test_the_commands_on_keys_work,
    "docs/guide/projects.md": test_the_commands_on_projects_work,
    "docs/guide/running.md": test_the_commands_on_running_work,
    "docs/guide/quickstart.md": test_commands_print_what_a_tutorial_shows,
    "docs/guide/sources.md": test_the_commands_on_connections_work,
    "docs/guide/sso.md": test_the_commands_on_tokens_work,
    "docs/tutorials/backfill.md": test_commands_print_what_a_tutorial_shows,
}


def test_every_page_with_such_commands_is_run() -> None:
    assert {place(page) for page in pages_with("sh run")} == RUN_BY.keys()
