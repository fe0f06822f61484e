"""The bytes that a directory occupies."""

from pathlib import Path

from narthex_stores import disk_bytes


def test_a_directory_occupies_the_blocks_of_its_files(tmp_path: Path) -> None:
    assert disk_bytes(str(tmp_path)) == 0
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "rows").write_bytes(b"x" * 100_000)
    found = disk_bytes(str(tmp_path))
    assert found is not None
    assert 100_000 <= found < 200_000

    with (tmp_path / "sparse").open("wb") as sparse:
        sparse.truncate(1 << 30)
    (tmp_path / "gone").symlink_to(tmp_path / "nothing")
    after = disk_bytes(str(tmp_path))
    assert after is not None
    assert found <= after < found + 100_000


def test_the_size_of_another_store_or_of_nothing_is_unknown(tmp_path: Path) -> None:
    assert disk_bytes(str(tmp_path / "nothing")) is None
    assert disk_bytes("s3://bucket/history/nx_h") is None
