import os
from pathlib import Path

import attrs
import pytest

from narthex._base import atomic_create, atomic_write


@attrs.define
class Disk:
    """Forces files to disk, and notes what each call could save: a name and what `target` held."""

    target: Path
    synced: list[tuple[str, str]] = attrs.field(factory=list)

    def sync(self, descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        os.fsync(descriptor)
        saved = path.read_text() if path.is_file() else path.name
        self.synced.append((saved, self.target.read_text() if self.target.exists() else ""))


@attrs.frozen
class FullDisk:
    def sync(self, descriptor: int) -> None:
        raise OSError(f"no space left for {descriptor}")


def test_the_content_is_on_disk_before_the_name_and_the_name_before_the_return(
    tmp_path: Path,
) -> None:
    path = tmp_path / "state"
    path.write_text("old")
    disk = Disk(path)

    atomic_write(path, "new", sync=disk.sync)

    assert disk.synced == [("new", "old"), (tmp_path.name, "new")]


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.write_text("old")

    with pytest.raises(OSError, match="no space left"):
        atomic_write(path, "new", sync=FullDisk().sync)

    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {"state": "old"}


def test_a_link_is_replaced_and_its_target_is_not_written(tmp_path: Path) -> None:
    outside, path = tmp_path / "outside", tmp_path / "state"
    outside.write_text("theirs")
    path.symlink_to(outside)

    atomic_write(path, b"ours")

    assert (outside.read_text(), path.read_text(), path.is_symlink()) == ("theirs", "ours", False)


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755])
def test_a_file_has_its_mode_under_any_umask(tmp_path: Path, mode: int) -> None:
    former = os.umask(0o077)
    try:
        atomic_write(tmp_path / "deep" / "state", "new", mode=mode)
    finally:
        os.umask(former)

    assert (tmp_path / "deep" / "state").stat().st_mode & 0o777 == mode


def test_a_file_is_created_once(tmp_path: Path) -> None:
    path = tmp_path / "key"
    disk = Disk(path)

    made = [atomic_create(path, content, sync=disk.sync) for content in ("first", "second")]

    assert made == [True, False]
    assert [file.name for file in tmp_path.iterdir()] == ["key"]
    assert path.read_text() == "first"
    assert disk.synced[:2] == [("first", ""), (tmp_path.name, "first")]
