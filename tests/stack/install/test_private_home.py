"""A home is its owner's alone; of a volume that belongs to a group, it is the group's too."""

import importlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from narthex.settings import (
    HomeOpenToOthersError,
    NotInstalledError,
    load_settings,
    make_home,
    make_places,
    project_places,
)
from narthex_stack.errors import BadConfigError, NotHereError
from narthex_stack.install.installation import load_installation
from narthex_stack.install.layout import HomeLayout
from narthex_stack.operator.backups import back_up, restore
from narthex_stack.operator.stack import Stack
from narthex_stack.servers import postgres

pytestmark = pytest.mark.slow

NOBODY: Final = 65534
WIDE: Final = (0o755, 0o711, 0o701, 0o704, 0o777, 0o775, 0o1777, 0o2775)
OF_GROUP: Final = (0o750, 0o770, 0o710, 0o2770)

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another account")


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


@pytest.fixture(autouse=True)
def _usual_umask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NARTHEX_HOME_GROUP", raising=False)


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A directory that every account may enter: pytest closes its own."""
    with tempfile.TemporaryDirectory() as name:
        made = Path(name)
        made.chmod(0o755)
        yield made


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def installed(home: Path, tmp_path: Path) -> None:
    load_installation(HomeLayout(home), environment={}, files_root=tmp_path)


def settings_of(home: Path) -> dict[str, str]:
    return {"NARTHEX_HOME": str(home)}


def test_a_new_home_and_its_directories_are_of_its_owner_alone(home: Path, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        installed(home, tmp_path)
        make_places(load_settings(settings_of(home)), {})
    finally:
        os.umask(before)

    assert mode(home) == 0o700
    for name in ("run", "logs", "index", "history", "checkpoints", "snapshots"):
        assert mode(home / name) == 0o700, name
    assert {mode(one) for one in home.glob("*.json")} == {0o600}


@pytest.mark.parametrize("wide", [*WIDE, *OF_GROUP], ids=oct)
def test_a_home_that_others_may_enter_is_refused_by_every_way_in(
    home: Path, tmp_path: Path, wide: int
) -> None:
    installed(home, tmp_path)
    stack = Stack(home)
    home.chmod(wide)
    remedy = re.escape(f"`{home}` has the mode {wide:04o}") + ".*" + re.escape(f"chmod 700 {home}`")

    for enter in (
        lambda: load_settings(settings_of(home)),
        lambda: project_places(settings_of(home)),
        lambda: make_home(home, {}),
        lambda: stack.settings,
    ):
        with pytest.raises(HomeOpenToOthersError, match=remedy):
            enter()
    for begin in (
        stack.launch,
        HomeLayout(home).make,
        lambda: restore(stack, tmp_path / "backup"),
    ):
        with pytest.raises((BadConfigError, NotHereError), match=remedy + "|holds no backup"):
            begin()
    assert mode(home) == wide

    home.chmod(0o700)
    assert load_settings(settings_of(home)).home == home


@pytest.mark.parametrize("narrow", OF_GROUP, ids=oct)
def test_a_setting_lets_the_group_of_a_volume_in(
    home: Path, tmp_path: Path, narrow: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(home, tmp_path)
    home.chmod(narrow)

    with pytest.raises(HomeOpenToOthersError, match="or set `NARTHEX_HOME_GROUP=on` if"):
        load_settings(settings_of(home))

    monkeypatch.setenv("NARTHEX_HOME_GROUP", "on")
    assert load_settings(settings_of(home) | {"NARTHEX_HOME_GROUP": "on"}).home == home
    assert Stack(home).settings.home == home
    HomeLayout(home).make()
    assert mode(home) == narrow


@pytest.mark.parametrize("wide", WIDE, ids=oct)
def test_no_setting_lets_all_accounts_in(home: Path, tmp_path: Path, wide: int) -> None:
    installed(home, tmp_path)
    home.chmod(wide)

    with pytest.raises(HomeOpenToOthersError, match=f"`chmod o-rwx {home}`"):
        load_settings(settings_of(home) | {"NARTHEX_HOME_GROUP": "on"})


def test_a_new_home_of_a_group_is_of_that_group(home: Path) -> None:
    home.parent.chmod(0o2700)

    make_home(home, {"NARTHEX_HOME_GROUP": "on"})

    assert mode(home) == 0o2770
    with pytest.raises(NotInstalledError, match="`NARTHEX_HOME_GROUP` is `yes`; leave it out"):
        make_home(home, {"NARTHEX_HOME_GROUP": "yes"})


def test_a_file_in_a_home_does_not_say_who_may_enter(home: Path, tmp_path: Path) -> None:
    installed(home, tmp_path)
    (home / "config.toml").write_text("")
    services = home / "services.json"
    services.write_text(services.read_text().replace("{", '{"home_group": "on",', 1))
    home.chmod(0o770)

    with pytest.raises(HomeOpenToOthersError):
        load_settings(settings_of(home))


def test_a_link_to_a_wide_directory_is_refused(home: Path, tmp_path: Path) -> None:
    installed(home, tmp_path)
    home.chmod(0o755)
    (tmp_path / "link").symlink_to(home)

    with pytest.raises(HomeOpenToOthersError, match="has the mode 0755"):
        load_settings(settings_of(tmp_path / "link"))


def test_a_task_of_airflow_names_the_home_that_is_too_wide(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(home, tmp_path)
    home.chmod(0o755)
    monkeypatch.setenv("NARTHEX_HOME", str(home))

    with pytest.raises(HomeOpenToOthersError, match="chmod 700"):
        importlib.import_module("narthex_plugins.platform_client").platform()  # imports Airflow


@pytest.mark.parametrize(
    "command",
    [
        ("-m", "narthex_server"),
        ("-m", "narthex_server.reads"),
        ("-m", "narthex.cli", "supervisor"),
        ("-m", "narthex.cli", "keys", "list"),
        ("-m", "narthex.cli", "up"),
        ("-m", "narthex.cli", "snapshots", "list"),
    ],
    ids=" ".join,
)
def test_every_process_refuses_a_home_that_others_may_enter(
    home: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    installed(home, tmp_path)
    home.chmod(0o755)
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "NARTHEX_HOME": str(home)}

    done = subprocess.run(
        (sys.executable, *command),
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    told = " ".join((done.stdout + done.stderr).split())
    assert done.returncode != 0, told
    assert f"chmod 700 {home}" in told
    assert "Traceback" not in told


@as_root
@pytest.mark.parametrize("umask", [0o022, 0o000])
def test_another_account_reads_no_history_through_a_home(
    home: Path, tmp_path: Path, umask: int
) -> None:
    before = os.umask(umask)
    try:
        installed(home, tmp_path)
        make_places(load_settings(settings_of(home)), {})
        rows = home / "history" / "orders" / "part-0.parquet"
        rows.parent.mkdir(parents=True)
        rows.write_text("rows")
    finally:
        os.umask(before)
    files = [rows, home / "services.json", home / "policy.toml", home / "history", home]

    def tried(path: Path) -> str:
        """Return what `nobody` gets of a path, which it knows."""
        done = subprocess.run(
            ("/bin/ls" if path.is_dir() else "/bin/cat", str(path)),
            user=NOBODY,
            group=NOBODY,
            extra_groups=(),
            cwd="/",
            env={"LC_ALL": "C"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.stderr.strip().rpartition(": ")[2] if done.returncode else "read"

    assert {tried(path) for path in files} == {"Permission denied"}
    (tmp_path / "open").write_text("a file that everybody may read")
    assert tried(tmp_path / "open") == "read"  # so it is the home that stops it


@as_root
def test_the_data_of_postgresql_are_where_its_account_reaches_them(
    home: Path, tmp_path: Path
) -> None:
    installed(home, tmp_path)
    made = postgres.cluster(home, install_id="tests000", port=0, password="")

    assert not made.data.is_relative_to(home)
    assert made.data.is_relative_to(postgres.ROOT_STATE)


@as_root
def test_data_that_postgresql_cannot_reach_any_more_are_named_with_the_remedy(
    home: Path, tmp_path: Path
) -> None:
    installed(home, tmp_path)
    (home / "postgres").mkdir()
    (home / "postgres" / "PG_VERSION").write_text("18")

    for enter in (Stack(home).launch, lambda: back_up(Stack(home), tmp_path / "backup")):
        with pytest.raises(NotHereError, match=f"mv {home / 'postgres'} {postgres.ROOT_STATE}"):
            enter()

    assert not (tmp_path / "backup").exists()
    assert not HomeLayout(home).operator.exists()
