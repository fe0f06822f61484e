"""`narthex.toml` and its profiles: which server, branch and token a command uses."""

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import attrs
import pytest

from narthex import cli
from narthex.cli.projects.project_file import NAME, find_project, read_project
from narthex.errors import ArgumentsUnfit
from tests.core.cli.test_client_commands import SOUND


@attrs.frozen
class Call:
    """A call that a server got."""

    path: str
    token: str
    branch: str


@contextmanager
def recording_server() -> Iterator[tuple[str, list[Call]]]:
    """Run a server that answers each call with no commits."""
    calls: list[Call] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            authorization = self.headers.get("Authorization", "").removeprefix("Bearer ")
            calls.append(Call(self.path, authorization, self.headers.get("X-Narthex-Branch", "")))
            body = json.dumps({"commits": []}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}", calls
        server.shutdown()
        thread.join()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that commands run in, with an environment that names no server."""
    for name in ("NARTHEX_URL", "NARTHEX_TOKEN", "NARTHEX_BRANCH", "NARTHEX_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NARTHEX_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["narthex", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return int(ended.value.code or 0)


def test_the_file_of_the_project_is_checked_from_each_directory_below_it(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / NAME).write_text('file = "orders.py"\n')
    (project / "orders.py").write_text(SOUND)
    below = project / "tests" / "unit"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)

    assert run(monkeypatch, "check") == 0
    assert capsys.readouterr().err == "1 dataset, 0 featuresets: sound\n"


def test_without_a_project_a_file_must_be_given(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert find_project(project) is None
    assert run(monkeypatch, "check") == 1
    told = capsys.readouterr().err
    assert "no file is given" in told
    assert 'hint: name FILE, or write `file = "features.py"` into `narthex.toml`' in told


@pytest.mark.parametrize(
    ("source", "token"),
    [
        ('token_env = "SHOP_TOKEN"', "nx_of_the_variable"),
        ('token_command = "echo nx_printed"', "nx_printed"),
        ('token_command = ["echo", "nx of two"]', None),
        ('token_command = ["false"]', None),
        ('token_command = "no-such-program-here"', None),
        ('token_env = "NOT_SET_ANYWHERE"', None),
    ],
)
def test_a_profile_takes_its_token_from_a_variable_or_a_program(
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    source: str,
    token: str | None,
) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "nx_of_the_variable")
    with recording_server() as (url, calls):
        (project / NAME).write_text(
            f'profile = "shop"\n[profiles.shop]\nurl = "{url}"\nbranch = "candidate"\n{source}\n'
        )

        code = run(monkeypatch, "commits")

    told = capsys.readouterr().err
    if token is None:
        assert (code, calls) == (1, [])
        assert "the profile `shop`" in told
        assert "hint: " in told
    else:
        assert code == 0, told
        assert {(call.token, call.branch) for call in calls} == {(token, "candidate")}


def test_a_profile_that_is_named_replaces_the_environment(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "nx_shop")
    with recording_server() as (named, at_named), recording_server() as (other, at_other):
        (project / NAME).write_text(
            'profile = "shop"\n'
            f'[profiles.shop]\nurl = "{named}"\ntoken_env = "SHOP_TOKEN"\n'
            f'[profiles.open]\nurl = "{named}"\n'
        )
        monkeypatch.setenv("NARTHEX_URL", other)
        monkeypatch.setenv("NARTHEX_TOKEN", "nx_environment")

        assert run(monkeypatch, "commits") == 0
        assert [call.token for call in at_other] == ["nx_environment"]
        assert at_named == []

        assert run(monkeypatch, "--profile", "shop", "commits") == 0
        assert run(monkeypatch, "--profile", "open", "commits") == 0
        assert [call.token for call in at_named] == ["nx_shop", ""]
        assert len(at_other) == 1


def test_only_a_profile_that_is_named_replaces_the_branch_of_the_environment(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with recording_server() as (url, calls):
        (project / NAME).write_text(
            f'profile = "shop"\n[profiles.shop]\nurl = "{url}"\nbranch = "candidate"\n'
            f'[profiles.open]\nurl = "{url}"\n'
        )
        monkeypatch.setenv("NARTHEX_BRANCH", "experiment")

        assert run(monkeypatch, "commits") == 0
        assert run(monkeypatch, "--profile", "shop", "commits") == 0
        assert run(monkeypatch, "--profile", "open", "commits") == 0
        assert run(monkeypatch, "--profile", "shop", "commits", "--branch", "mine") == 0

    assert [call.branch for call in calls] == ["experiment", "candidate", "experiment", "mine"]


def test_a_profile_gives_its_token_to_no_other_server(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "nx_shop")
    with recording_server() as (named, at_named), recording_server() as (other, at_other):
        (project / NAME).write_text(
            f'profile = "shop"\n[profiles.shop]\nurl = "{named}"\ntoken_env = "SHOP_TOKEN"\n'
        )

        assert run(monkeypatch, "commits", "--url", other) == 0

    assert at_named == []
    assert [call.token for call in at_other] == [""]


def test_an_unknown_profile_is_answered_with_the_known_ones(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--profile", "shop", "commits") == 1
    assert "there is no `narthex.toml` here" in capsys.readouterr().err

    (project / NAME).write_text("[profiles.local]\n[profiles.shop]\n")
    assert run(monkeypatch, "--profile", "sohp", "commits") == 1
    told = capsys.readouterr().err
    assert "has no profile `sohp`" in told
    assert "its profiles: `local`, `shop`" in told


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("file = ", "cannot be read"),
        ("files = 'a.py'\n", "`files` is not known"),
        ("file = 3\n", "`file` has a value of the wrong type"),
        ("[profiles]\nlocal = 'x'\n", "`profiles.local` is not a table"),
        ("profiles = 3\n", "`profiles` is not a table"),
        ("[profiles.local]\ntoken = 'nx_secret'\n", "`profiles.local.token` is not known"),
        ("[profiles.local]\ntoken_command = []\n", "`profiles.local.token_command` has a value"),
        ("profile = 'shop'\n", "has no profile `shop`"),
    ],
)
def test_mistakes_of_the_file_are_named(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / NAME).write_text(text)

    with pytest.raises(ArgumentsUnfit) as refused:
        read_project(tmp_path / NAME)

    assert reason in str(refused.value)
    assert str(tmp_path / NAME) in str(refused.value)
    assert "nx_secret" not in str(refused.value)


def test_a_profile_without_a_server_uses_the_platform_of_this_machine_and_its_token(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / NAME).write_text('profile = "local"\n[profiles.local]\nbranch = "dev"\n')
    home = project / "home"
    home.mkdir(mode=0o700)
    with recording_server() as (url, calls):
        named = ("install_id", "ledger_dsn", "kafka", "history_dir")
        places = ("index_dir", "checkpoint_dir", "files_root", "jars_dir")
        described = dict.fromkeys((*named, *places), "none")
        described |= {"server_url": url, "token": "nx_of_this_machine"}
        (home / "services.json").write_text(json.dumps(described))

        assert run(monkeypatch, "commits") == 0

    assert {(call.token, call.branch) for call in calls} == {("nx_of_this_machine", "dev")}
