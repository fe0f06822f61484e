"""Files of a source, below a directory and in a bucket, are found and read alike."""

import io
import json
import os
import re
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

import attrs
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import fs

from narthex._ir.connections import SecretRef
from narthex._ir.entities import Csv, Files, JsonLines, Parquet
from narthex.errors import SecretMissing, SecretWithheld
from narthex_spark_apps.platform.author_secrets import AuthorSecrets
from narthex_spark_apps.sources.files.rows import read_rows
from narthex_spark_apps.sources.files.source import NoFilesError, identity_of, list_files, name_of
from narthex_spark_apps.storage.file_store import (
    UnknownStoreError,
    environment_of,
    find_files,
    is_glob,
    open_store,
    pattern_of,
)
from tests.mounted_secrets import grant, mount

_ROWS: list[dict[str, str | int | None]] = [
    {"carrier": "UA", "delay": 3},
    {"carrier": None, "delay": 5},
]


@pytest.fixture
def bucket(aws: str, monkeypatch: pytest.MonkeyPatch) -> fs.FileSystem:
    """Point the environment at the server, and give its store with a bucket `air`."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", aws)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "reader")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of files")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    store = fs.S3FileSystem(
        access_key="reader",
        secret_key="of files",
        region="eu-west-1",
        scheme="http",
        endpoint_override=aws.removeprefix("http://"),
        allow_bucket_creation=True,
    )
    store.create_dir("air")
    return store


def _bytes_of(kind: str) -> bytes:
    if kind == "parquet":
        target = io.BytesIO()
        pl.DataFrame(_ROWS).write_parquet(target)
        return target.getvalue()
    if kind == "csv":
        lines = ["carrier,delay", *(f"{row['carrier'] or 'NA'},{row['delay']}" for row in _ROWS)]
        return "\n".join(lines).encode()
    return "".join(json.dumps(row) + "\n" for row in _ROWS).encode()


@pytest.mark.parametrize(
    ("kind", "format_of"),
    [("csv", Csv(null="NA")), ("jsonl", JsonLines()), ("parquet", Parquet())],
)
def test_rows_in_a_bucket_are_those_of_the_same_file_on_disk(
    kind: str, format_of: Csv | JsonLines | Parquet, bucket: fs.FileSystem, tmp_path: Path
) -> None:
    content = _bytes_of(kind)
    (tmp_path / f"rows.{kind}").write_bytes(content)
    with bucket.open_output_stream(f"air/{kind}/rows.{kind}") as target:
        target.write(content)
    connector = Files(name="air", path=f"s3://air/{kind}/*.{kind}", format=format_of)

    (found,) = list_files(connector, tmp_path)

    assert found == f"s3://air/{kind}/rows.{kind}"
    there = list(read_rows(connector, found, root=tmp_path))
    assert there == list(read_rows(connector, str(tmp_path / f"rows.{kind}"), root=tmp_path))
    assert [row["carrier"] for row in there if isinstance(row, dict)] == ["UA", None]


def test_a_pattern_finds_files_below_a_prefix_in_order(bucket: fs.FileSystem) -> None:
    for name in ("days/b/2.csv", "days/a/1.csv", "days/a/1.txt", "days/3.csv"):
        with bucket.open_output_stream(f"air/{name}") as target:
            target.write(b"x\n")

    everywhere = find_files("s3://air/days/**/*.csv", Path("elsewhere"))

    below = "s3://air/days"
    assert everywhere == (f"{below}/3.csv", f"{below}/a/1.csv", f"{below}/b/2.csv")
    assert find_files(f"{below}/*/1.csv", Path()) == (f"{below}/a/1.csv",)
    assert len(find_files(f"{below}/**", Path())) == 4
    assert find_files("s3://air/nothing/**", Path()) == ()
    connector = Files(name="air", path=f"{below}/4.csv", format=Csv())
    with pytest.raises(NoFilesError, match=r"4\.csv"):
        list_files(connector, Path())


def test_a_missing_bucket_is_reported(bucket: fs.FileSystem) -> None:
    del bucket

    with pytest.raises(OSError, match="nowhere"):
        list(read_rows(Files(name="a", path="", format=Csv()), "s3://nowhere/x.csv", root=Path()))


def test_a_file_in_a_bucket_is_named_by_its_address() -> None:
    one = Files(name="air", path="s3://air/*.csv", format=Csv())

    assert name_of("s3://air/1.csv", Path("root")) == "s3://air/1.csv"
    assert identity_of("files:air", one, "s3://air/1.csv", Path("root")).endswith("#s3://air/1.csv")
    assert name_of("root/days/1.csv", Path("root")) == "days/1.csv"


def test_a_store_that_is_not_built_in_is_named() -> None:
    with pytest.raises(UnknownStoreError, match="gs"):
        open_store("gs://air/1.csv")


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("b/*.csv", "b/1.csv", True),
        ("b/*.csv", "b/a/1.csv", False),
        ("b/**/1.csv", "b/1.csv", True),
        ("b/**/1.csv", "b/x/y/1.csv", True),
        ("b/**", "b/x/y", True),
        ("b/?.csv", "b/12.csv", False),
        ("b/[12].csv", "b/2.csv", True),
        ("b/[!12].csv", "b/2.csv", False),
        ("b/1.csv", "b/1xcsv", False),
        ("b/[.csv", "b/[.csv", True),
    ],
)
def test_a_pattern_reads_as_that_of_a_shell(pattern: str, path: str, *, fits: bool) -> None:
    assert (re.fullmatch(pattern_of(pattern), path) is not None) is fits


_PART = st.text("ab.*?", min_size=1, max_size=4).filter(lambda part: "**" not in part)


@given(st.lists(_PART, min_size=1, max_size=3), st.lists(st.text("ab.", min_size=1), min_size=1))
def test_without_a_double_star_a_pattern_is_that_of_the_standard_library(
    parts: list[str], names: list[str]
) -> None:
    pattern, path = "/".join(parts), "/".join(names)
    # `PurePath` takes a part `.` away.
    if "." in parts or "." in names:
        return

    is_match = len(parts) == len(names) and PurePosixPath(path).match(pattern)

    assert (re.fullmatch(pattern_of(pattern), path) is not None) is is_match


def test_date_parts_of_a_path_match_dates_only(tmp_path: Path) -> None:
    for name in ("2024-05-01/a.csv", "2024-05-02/b.csv", "latest/c.csv", "2024-13-01/d.csv"):
        file = tmp_path / "day" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")

    found = find_files("day/%Y-%m-%d/*.csv", tmp_path)

    assert [PurePosixPath(one).name for one in found] == ["a.csv", "b.csv"]
    assert is_glob("day/%Y-%m-%d/a.csv")
    assert find_files("day/**/%Y-%m-%d/*", tmp_path) == found


def test_parts_of_dates_are_found_in_a_bucket(bucket: fs.FileSystem, tmp_path: Path) -> None:
    for name in ("dated/2024/05/a.csv", "dated/2024/xx/b.csv"):
        with bucket.open_output_stream(f"air/{name}") as stream:
            stream.write(b"a\n")

    assert find_files("s3://air/dated/%Y/%m/*.csv", tmp_path) == ("s3://air/dated/2024/05/a.csv",)


def test_a_source_with_keys_of_its_own_opens_the_store_with_them(
    bucket: fs.FileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with bucket.open_output_stream("air/own/a.jsonl") as stream:
        stream.write(b'{"carrier": "UA"}\n')
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of the platform")
    mount(tmp_path, {"key": "reader", "word": "of files"})
    files = Files(
        name="own",
        path="s3://air/own/*",
        format=JsonLines(),
        access_key=SecretRef("key"),
        secret_key=SecretRef("word"),
    )

    secrets = AuthorSecrets(
        home=tmp_path, mounted=str(tmp_path), policy_file=tmp_path / "policy.toml"
    )
    with pytest.raises(SecretWithheld):
        environment_of(files, secrets)
    store = urlsplit(os.environ["AWS_ENDPOINT_URL"]).netloc
    grant(secrets.policy_file, store, secrets=["key", "word"])

    environment = environment_of(files, secrets)
    (found,) = find_files(files.path, tmp_path, environment)

    assert list(read_rows(files, found, environment, root=tmp_path)) == [{"carrier": "UA"}]
    assert environment["AWS_ACCESS_KEY_ID"] == "reader"
    assert "AWS_SESSION_TOKEN" not in environment
    with pytest.raises(SecretMissing):
        environment_of(files, attrs.evolve(secrets, mounted=str(tmp_path / "elsewhere")))
