"""Secrets that definitions name are found where a manager mounts them, and nowhere else."""

from pathlib import Path

import pytest

from narthex._ir.connections import AwsSecretRef, SecretRef
from narthex._runtime.credentials import SECRET_NAME, SecretFiles, reveal
from narthex.errors import SecretMissing
from tests.mounted_secrets import mount


def test_a_mounted_secret_is_found_as_it_is_now(tmp_path: Path) -> None:
    secrets = SecretFiles(tmp_path)
    mount(tmp_path, {"bus/word": "first", "token": "t"})
    mount(tmp_path, {"bus/word": "hunter2\n"})

    assert secrets("bus/word") == "hunter2\n"
    assert reveal(SecretRef("token"), secrets) == "t"


@pytest.mark.parametrize(
    "name", ["", "../token", "/etc/passwd", "a/b/c", ".hidden", "a\nb", "bus", "n" * 201]
)
def test_a_name_that_leads_elsewhere_finds_nothing(tmp_path: Path, name: str) -> None:
    mount(tmp_path / "secrets", {"bus/word": "hunter2"})
    (tmp_path / "token").write_text("not yours")

    assert SecretFiles(tmp_path / "secrets")(name) is None
    assert (SECRET_NAME.fullmatch(name) is not None) == (name == "bus")


def test_a_missing_secret_is_reported_by_name(tmp_path: Path) -> None:
    secrets = SecretFiles(tmp_path)

    with pytest.raises(SecretMissing, match="no secret `bus/word`"):
        reveal(SecretRef("bus/word"), secrets)
    with pytest.raises(SecretMissing, match="secrets of AWS are not read"):
        reveal(AwsSecretRef("arn:aws:s"), secrets)
