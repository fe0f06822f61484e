"""Files are read below their root alone: no name and no link leads out of it."""

import os
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from narthex._ir.connections import Csv, Files, JsonLines, KafkaTopic, Parquet, TableFormat
from narthex.settings import Settings
from narthex_spark_apps.platform.author_brokers import broker_of
from narthex_spark_apps.platform.author_places import ForbiddenPlaceError, require_path
from narthex_spark_apps.sources.files.delta_changes import arrived_rows, versions_of
from narthex_spark_apps.sources.files.rows import read_rows
from narthex_spark_apps.sources.files.source import list_files
from narthex_stores import OutsideError, find_beneath, open_beneath

SECRET = "the owner's token"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with a file of its own, beside a secret that links in it lead to."""
    root = tmp_path / "files"
    (root / "days" / "a").mkdir(parents=True)
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "services.csv").write_text(f"token\n{SECRET}\n")
    (root / "days" / "a" / "1.csv").write_text("token\nmine\n")
    (root / "link.csv").symlink_to(tmp_path / "state" / "services.csv")
    (root / "days" / "out").symlink_to(tmp_path / "state")
    return root


def connector(path: str, **more: Any) -> Files:
    return Files(**{"name": "f", "path": path, "format": Csv()} | more)


def rows_of(files: Files, root: Path) -> list[object]:
    return [row for one in list_files(files, root) for row in read_rows(files, one, root=root)]


def test_a_file_below_the_root_is_read(root: Path) -> None:
    assert rows_of(connector("days/a/1.csv"), root) == [{"token": "mine"}]
    assert rows_of(connector("days/a/*.csv"), root) == [{"token": "mine"}]


@pytest.mark.parametrize(
    "path",
    ["link.csv", "days/out/services.csv", "days/out/*.csv", "*.csv", "days/*/services.csv", "**"],
)
def test_links_are_not_followed(root: Path, path: str) -> None:
    with pytest.raises(OutsideError, match="symbolic link"):
        rows_of(connector(path), root)


@pytest.mark.parametrize(
    "path",
    ["{}/state/services.csv", "../state/services.csv", "days/../../state/*.csv", "/etc/host*"],
)
def test_a_name_does_not_leave_the_root(root: Path, tmp_path: Path, path: str) -> None:
    with pytest.raises(OutsideError):
        rows_of(connector(path.format(tmp_path)), root)


@pytest.mark.parametrize("format_of", [Csv(), Parquet(), JsonLines()])
def test_a_worker_opens_no_outside_file_on_request(
    root: Path, tmp_path: Path, format_of: object
) -> None:
    files = connector("x", format=format_of)

    for path in (root / "link.csv", root / "../state/services.csv", Path("/proc/self/environ")):
        with pytest.raises(OutsideError):
            list(read_rows(files, str(path), root=root))
    assert (tmp_path / "state" / "services.csv").is_file()


def test_devices_and_pipes_are_not_files(root: Path) -> None:
    os.mkfifo(root / "pipe")

    with pytest.raises(OutsideError, match="not a plain file"):
        open_beneath(root, "pipe")
    with pytest.raises(OutsideError, match="not a plain file"):
        open_beneath(root, "days")


def test_the_root_itself_may_be_a_link(root: Path, tmp_path: Path) -> None:
    (tmp_path / "named").symlink_to(root)

    assert find_beneath(tmp_path / "named", "days/a/*") == ("days/a/1.csv",)
    with open_beneath(tmp_path / "named", "days/a/1.csv") as file:
        assert file.read() == b"token\nmine\n"


def test_a_directory_that_is_swapped_for_a_link_while_it_is_read_opens_nothing(
    root: Path, tmp_path: Path
) -> None:
    """A thread swaps a directory for a link again and again, while files in it are opened."""
    (root / "swap").mkdir()
    (root / "swap" / "services.csv").write_text("mine")
    (root / "evil").symlink_to(tmp_path / "state")
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            for one, other in (
                ("swap", "kept"),
                ("evil", "swap"),
                ("swap", "evil"),
                ("kept", "swap"),
            ):
                (root / one).rename(root / other)

    thread = threading.Thread(target=swap)
    thread.start()
    read = set()
    try:
        for _ in range(3000):
            try:
                with open_beneath(root, "swap/services.csv") as file:
                    read.add(file.read())
            except OSError:
                continue
    finally:
        done.set()
        thread.join()

    assert read <= {b"mine"}


def table_at(path: Path) -> str:
    write_deltalake(
        str(path),
        pa.table({"a": [1]}),
        configuration={"delta.enableChangeDataFeed": "true"},
    )
    return str(path)


def test_a_table_that_is_a_link_or_has_one_is_not_read(root: Path, tmp_path: Path) -> None:
    inside = table_at(root / "inside")
    table_at(tmp_path / "state" / "table")
    (root / "table").symlink_to(tmp_path / "state" / "table")
    assert len(arrived_rows(versions_of(inside, {}, root=root)[0], {}, root=root)) == 1
    (root / "inside" / "part.parquet").symlink_to(tmp_path / "state" / "services.csv")

    for one in ("table", "inside", "days/out/table"):
        with pytest.raises(OutsideError, match="symbolic link"):
            versions_of(str(root / one), {}, root=root)
        with pytest.raises(OutsideError, match="symbolic link"):
            arrived_rows(f"{root / one}@0", {}, root=root)


@pytest.mark.parametrize(
    "named", ["{}/secret.parquet", "../secret.parquet", "file://{}/secret.parquet"]
)
def test_a_tables_log_names_nothing_outside_of_the_table(root: Path, named: str) -> None:
    path = table_at(root / "t")
    pa.parquet.write_table(pa.table({"a": ["a-secret"]}), root / "secret.parquet")
    size = (root / "secret.parquet").stat().st_size
    added = (
        f'{{"add":{{"path":"{named.format(root)}","partitionValues":{{}},"size":{size},'
        '"modificationTime":1,"dataChange":true}}\n'
    )
    (root / "t" / "_delta_log" / f"{1:020}.json").write_text(added)

    with pytest.raises((OSError, ValueError)) as failed:
        arrived_rows(f"{path}@1", {}, root=root)

    assert "a-secret" not in str(failed.value)


@pytest.fixture
def settings(tmp_path: Path, root: Path) -> Settings:
    return Settings(
        home=root / "home",
        install_id="tests000",
        ledger_dsn="",
        kafka="b:9092",
        server_url="",
        token="",
        index_dir=root / "home" / "index",
        history_dir="s3://lake/history",
        checkpoint_dir=tmp_path / "checkpoints",
        files_root=root,
        jars_dir=tmp_path / "jars",
    )


@pytest.mark.parametrize(
    "path",
    ["home/services.json", "**", "s3://lake/history/x", "s3://lake/**", "/etc/passwd", "../x"],
)
def test_a_job_refuses_a_path_that_was_deployed_before_the_rules(
    settings: Settings, path: str
) -> None:
    with pytest.raises(ForbiddenPlaceError):
        require_path(connector(path, format=TableFormat(kind="delta")), settings)


@pytest.mark.parametrize("servers", ["", "localhost:9092"])
@pytest.mark.parametrize("topic", ["nx_tests000_kt_x_i1", "__consumer_offsets", "^.*", "a,b"])
def test_a_job_refuses_a_topic_that_was_deployed_before_the_rules(
    settings: Settings, topic: str, servers: str
) -> None:
    with pytest.raises(ForbiddenPlaceError):
        broker_of(KafkaTopic(name="k", bootstrap_servers=servers, topic=topic), settings)
