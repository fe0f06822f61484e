"""Secrets that definitions name stand in files that one account may read."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from narthex.cli import make_app
from narthex.connections import AwsSecretRef, SecretRef
from narthex.errors import ArgumentsUnfit, SecretMissing
from narthex.secret_files import SecretFiles


def test_a_secret_is_kept_found_and_forgotten(tmp_path: Path) -> None:
    secrets = SecretFiles(tmp_path / "secrets")
    secrets.keep("bus/word", "first")
    secrets.keep("bus/word", "hunter2\n")
    secrets.keep("token", "t")

    assert secrets("bus/word") == "hunter2\n"
    assert secrets.reveal(SecretRef("token")) == "t"
    assert secrets.names() == ("bus/word", "token")
    assert (tmp_path / "secrets" / "token").stat().st_mode & 0o777 == 0o600
    secrets.forget("bus/word")
    assert secrets("bus/word") is None
    with pytest.raises(SecretMissing, match="no secret `bus/word`"):
        secrets.forget("bus/word")


@pytest.mark.parametrize("name", ["", "../token", "/etc/passwd", "a/b/c", ".hidden", "a\nb", "bus"])
def test_a_name_that_leads_elsewhere_finds_nothing(tmp_path: Path, name: str) -> None:
    secrets = SecretFiles(tmp_path / "secrets")
    secrets.keep("bus/word", "hunter2")
    (tmp_path / "token").write_text("not yours")

    assert secrets(name) is None
    if name != "bus":
        with pytest.raises(ArgumentsUnfit, match="no name of a secret"):
            secrets.keep(name, "x")


def test_a_secret_that_is_not_kept_here_is_named_without_its_value(tmp_path: Path) -> None:
    secrets = SecretFiles(tmp_path)

    with pytest.raises(SecretMissing, match="no secret `bus/word`"):
        secrets.reveal(SecretRef("bus/word"))
    with pytest.raises(SecretMissing, match="secrets of AWS are not read"):
        secrets.reveal(AwsSecretRef("arn:aws:s"))


def test_a_person_keeps_secrets_by_the_command_line_and_never_sees_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = dict.fromkeys(
        ("install_id", "ledger_dsn", "kafka", "server_url", "token", "index_dir", "history_dir"),
        "x",
    ) | dict.fromkeys(("checkpoint_dir", "files_root", "jars_dir"), "x")
    (tmp_path / "services.json").write_text(json.dumps(told))
    monkeypatch.setenv("NARTHEX_HOME", str(tmp_path))
    run, app = CliRunner().invoke, make_app()

    kept = run(app, ["secret", "set", "bus/word"], input="hunter2\n")
    listed = run(app, ["secret", "list", "--json"])
    gone = run(app, ["secret", "delete", "bus/word"])

    assert [result.exit_code for result in (kept, listed, gone)] == [0, 0, 0]
    assert json.loads(listed.stdout) == ["bus/word"]
    assert "hunter2" not in kept.output + listed.output + gone.output
    assert SecretFiles(tmp_path / "author_secrets").names() == ()
