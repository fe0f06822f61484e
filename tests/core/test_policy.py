"""The policy file: what it grants, and every mistake in it at once."""

import json
import os
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from narthex._analysis.policy.policy import (
    Egress,
    EndpointRule,
    FileRule,
    Policy,
    SecretRule,
    TopicRule,
    egress_mistake,
    granted,
    host_mistake,
    load_policy,
    tags_of_rules,
)
from narthex.cli import make_app
from narthex.errors import PolicyInvalid
from narthex.settings import load_settings
from tests.cases import every

WHOLE = """
[egress]
allow = ["127.0.0.1:5432", "10.0.0.0/8", "db.internal:5432", "[::1]:9092", "fd00::/8"]
[[files]]
path = "flights/**"
branches = ["*"]
tags = ["seats"]
[[files]]
path = "s3://lake/out/**"
branches = ["main"]
write = true
[[endpoints]]
name = "flights/*"
branches = ["main"]
tags = ["pii"]
[[topics]]
servers = "*:9092"
name = "orders*"
branches = ["*"]
write = true
[[secrets]]
name = "pg/*"
branches = ["main"]
hosts = ["db.example.com:5432", "*.example.org"]
code = true
"""


def test_a_policy_has_what_its_file_has() -> None:
    policy = Policy.parse(WHOLE)

    assert policy == Policy(
        files=(
            FileRule(path="flights/**", branches=("*",), tags=("seats",)),
            FileRule(path="s3://lake/out/**", branches=("main",), write=True),
        ),
        endpoints=(EndpointRule(name="flights/*", branches=("main",), tags=("pii",)),),
        topics=(TopicRule(servers="*:9092", name="orders*", branches=("*",), write=True),),
        secrets=(
            SecretRule(
                name="pg/*",
                branches=("main",),
                hosts=("db.example.com:5432", "*.example.org"),
                code=True,
            ),
        ),
        egress=Egress(
            allow=("127.0.0.1:5432", "10.0.0.0/8", "db.internal:5432", "[::1]:9092", "fd00::/8")
        ),
    )


def test_rules_are_found_by_what_a_definition_writes() -> None:
    policy = Policy.parse(WHOLE)

    assert policy.file_rules("flights/2024/a.csv") == policy.files[:1]
    assert policy.file_rules("s3://lake/out") == policy.files[1:]
    assert policy.file_rules("trains/a.csv") == ()
    assert policy.endpoint_rules("flights", "landed") == policy.endpoints
    assert policy.endpoint_rules("trains", "landed") == ()
    assert policy.topic_rules("kafka.example.com:9092", "orders.v2") == policy.topics
    assert policy.topic_rules("kafka.example.com:9093", "orders.v2") == ()
    assert policy.secret_rules("pg/orders") == policy.secrets
    assert policy.secret_rules("mysql/orders") == ()
    assert granted(policy.endpoints, "main")
    assert not granted(policy.endpoints, "dev")
    assert tags_of_rules((*policy.files, *policy.endpoints)) == {"seats", "pii"}


@every(
    ("text", "said"),
    [
        ("[[file]]\npath = 'a'", "unknown table `file`"),
        ("[files]\npath = 'a'", "`files` is a list of tables"),
        ("egress = 1", "`egress` is one table"),
        ("[egress]\nallowed = []", "`[egress]` has the unknown key `allowed`; the keys are allow"),
        ("[[files]]\npath = 'a'", "line 1: `[[files]]` lacks `branches`"),
        ("[[files]]\nbranches = ['*']", "line 1: `[[files]]` lacks `path`"),
        ("[[files]]\npath = 'a'\nbranches = []", "`branches` is empty, so the rule grants nothing"),
        ("[[files]]\npath = 'a'\nbranches = '*'", "`branches` is not a list of texts"),
        ("[[files]]\npath = 'a'\nbranches = [1]", "`branches` is not a list of texts"),
        ("[[files]]\npath = 1\nbranches = ['*']", "`path` is not a text"),
        ("[[files]]\npath = 'a'\nbranches = ['*']\nwrite = 1", "`write` is not true or false"),
        ("[[files]]\npath = '/a'\nbranches = ['*']", "`path` has `/a`: it is absolute"),
        ("[[files]]\npath = 'a/../b'\nbranches = ['*']", "`path` has `a/../b`"),
        ("[[topics]]\nname = ''\nbranches = ['*']", "`name` has ``: it is empty"),
        ("[[secrets]]\nname = 'a'\nbranches = ['*']\nhosts = ['http://a']", "has `http://a`"),
        ("[egress]\nallow = ['10.0.0.0/33']", "`allow` has `10.0.0.0/33`: it is not a network"),
        ("[egress]\nallow = ['10.0.0.1/8']", "`allow` has `10.0.0.1/8`: it is not a network"),
        ("[egress", "this is not TOML"),
    ],
)
def test_a_mistake_is_named(text: str, said: str) -> None:
    with pytest.raises(PolicyInvalid) as failed:
        Policy.parse(text, file="here.toml")

    assert said in failed.value.message
    assert failed.value.origin.file == "here.toml"


def test_all_mistakes_are_named_at_once_with_their_lines() -> None:
    text = "[[files]]\npath = '/a'\nbranches = ['*']\n[[files]]\npath = 'b'\n[x]\n"

    with pytest.raises(PolicyInvalid) as failed:
        Policy.parse(text)

    assert [one.split(":")[0] for one in failed.value.mistakes] == [
        "unknown table `x`; the tables are files, endpoints, topics, secrets, egress",
        "line 1",
        "line 4",
    ]


@pytest.mark.parametrize(
    "text", ["a.b", "a.b:1", "1.2.3.4", "1.2.3.4:65535", "::1", "[::1]:9", "*.b"]
)
def test_hosts_are_read(text: str) -> None:
    assert host_mistake(text) == ""
    assert egress_mistake(text) == ""


@pytest.mark.parametrize(
    "text", ["", ":1", "a:0", "a:65536", "a:b", "a b", "u@a", "[::1", "[a]:1", "1:2:3", "a/b"]
)
def test_an_invalid_host_is_refused(text: str) -> None:
    assert host_mistake(text)
    assert egress_mistake(text)


def test_without_a_file_a_policy_has_no_rules(tmp_path: Path) -> None:
    assert load_policy(tmp_path / "policy.toml") == Policy()


def test_a_file_that_cannot_be_read_is_not_an_empty_policy(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "broken").write_text("[[files]]\npath = 'a'\n")

    for name in ("link", "binary", "broken", "."):
        with pytest.raises(PolicyInvalid) as failed:
            load_policy(tmp_path / name)
        assert failed.value.origin.file == str(tmp_path / name)


def test_the_file_is_in_the_home_unless_a_setting_names_another(tmp_path: Path) -> None:
    described = {
        "NARTHEX_HOME": str(tmp_path),
        **{
            f"NARTHEX_{name}": "x"
            for name in ("INSTALL_ID", "LEDGER_DSN", "KAFKA", "SERVER_URL", "TOKEN", "INDEX_DIR")
        },
        **{
            f"NARTHEX_{name}": "x"
            for name in ("HISTORY_DIR", "CHECKPOINT_DIR", "FILES_ROOT", "JARS_DIR")
        },
    }

    assert load_settings(described).policy_file == tmp_path / "policy.toml"
    named = described | {"NARTHEX_POLICY_FILE": "/etc/narthex.toml"}
    assert load_settings(named).policy_file == Path("/etc/narthex.toml")


def test_every_example_of_the_guide_is_a_policy() -> None:
    guide = Path(__file__).resolve().parents[2] / "docs" / "guide" / "policy.md"
    examples = re.findall(r"```toml\n(.*?)```", guide.read_text(encoding="utf-8"), re.DOTALL)

    assert len(examples) == 3
    assert all(Policy.parse(one) != Policy() for one in examples)


def test_the_commands_check_and_show_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NARTHEX_HOME", str(tmp_path))
    (tmp_path / "policy.toml").write_text(WHOLE)
    other = tmp_path / "other.toml"
    other.write_text("[[files]]\npath = '/a'\n")

    checked = CliRunner().invoke(make_app(), ["policy", "check"])
    shown = CliRunner().invoke(make_app(), ["policy", "show"])
    as_json = CliRunner().invoke(make_app(), ["policy", "show", "--json"])
    wrong = CliRunner().invoke(make_app(), ["policy", "check", str(other), "--json"])
    failed = CliRunner().invoke(make_app(), ["policy", "check", str(other)])

    assert "5 rules, no mistake" in checked.output
    assert "files      flights/**        *         tags: seats" in shown.output.splitlines()
    assert json.loads(as_json.output)["files"][0]["path"] == "flights/**"
    assert (wrong.exit_code, len(json.loads(wrong.output)["mistakes"])) == (1, 2)
    assert isinstance(failed.exception, PolicyInvalid)
    assert len(failed.exception.mistakes) == 2


@pytest.mark.parametrize("command", ["check", "show"])
def test_a_named_file_must_exist(tmp_path: Path, command: str) -> None:
    done = CliRunner().invoke(make_app(), ["policy", command, str(tmp_path / "polcy.toml")])

    assert done.exit_code == 2
    assert "polcy.toml' does not exist" in " ".join(done.output.split())


def test_a_policy_is_parsed_once_until_its_file_is_edited(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text('[[topics]]\nname = "a"\nbranches = ["*"]\n')
    written = path.stat()
    first = load_policy(path)
    assert load_policy(path) is first

    # The same inode, size and time: an edit within a tick of the file system's clock.
    path.write_text('[[topics]]\nname = "b"\nbranches = ["*"]\n')
    os.utime(path, ns=(written.st_atime_ns, written.st_mtime_ns))
    assert [rule.name for rule in load_policy(path).topics] == ["b"]

    path.write_text("[[topics]]\n")
    for _ in range(2):
        with pytest.raises(PolicyInvalid):
            load_policy(path)
    path.unlink()
    assert load_policy(path) == Policy()
