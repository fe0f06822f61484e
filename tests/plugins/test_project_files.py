"""A project's folder is copied without anything that leads out of it."""

import os
from pathlib import Path, PurePosixPath

import pytest

from narthex_plugins.projects.project_files import MOST_FILES, ProjectRefused, copy_folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    found = tmp_path / "definitions"
    (found / "shop" / "parts").mkdir(parents=True)
    (found / "shop" / "features.py").write_text("import parts")
    (found / "shop" / "parts" / "items.csv").write_text("a,b")
    (tmp_path / "secret.txt").write_text("a secret")
    return found


def copied(root: Path, folder: str) -> tuple[dict[str, str], list[str]]:
    target = root.parent / "copy"
    found = copy_folder(root, PurePosixPath(folder), target)
    texts = {
        str(path.relative_to(target)): path.read_text()
        for path in sorted(target.rglob("*"))
        if path.is_file()
    }
    assert found.files == len(texts)
    assert found.size_bytes == sum(map(len, texts.values()))
    return texts, found.left_out


def test_regular_files_are_copied_for_every_account(root: Path) -> None:
    texts, left_out = copied(root, "shop")

    assert texts == {"shop/features.py": "import parts", "shop/parts/items.csv": "a,b"}
    assert left_out == []
    modes = {oct(path.stat().st_mode & 0o777) for path in (root.parent / "copy").rglob("*")}
    assert modes == {"0o755", "0o644"}


def test_links_pipes_and_hidden_files_are_left_out(root: Path) -> None:
    shop = root / "shop"
    (shop / "link.py").symlink_to(root.parent / "secret.txt")
    (shop / "all").symlink_to(root.parent, target_is_directory=True)
    os.mkfifo(shop / "pipe")
    (shop / ".git").mkdir()
    (shop / ".git" / "config").write_text("a secret")

    texts, left_out = copied(root, "shop")

    assert texts.keys() == {"shop/features.py", "shop/parts/items.csv"}
    assert sorted(left_out) == ["shop/all", "shop/link.py", "shop/pipe"]


def test_the_root_itself_may_be_a_project(root: Path) -> None:
    texts, _ = copied(root, ".")

    assert texts.keys() == {"shop/features.py", "shop/parts/items.csv"}


@pytest.mark.parametrize("folder", ["out", "out/definitions", "shop/back", "shop/features.py"])
def test_a_folder_behind_a_link_is_refused(root: Path, folder: str) -> None:
    (root / "out").symlink_to(root.parent, target_is_directory=True)
    (root / "shop" / "back").symlink_to(root, target_is_directory=True)

    with pytest.raises(ProjectRefused, match="name the folder itself"):
        copied(root, folder)


def test_a_missing_folder_and_a_missing_root_are_named(root: Path) -> None:
    with pytest.raises(ProjectRefused, match="name a folder that exists"):
        copied(root, "nowhere")
    with pytest.raises(ProjectRefused, match="create it"):
        copied(root / "missing", "shop")


def test_a_folder_that_is_too_large_is_refused(root: Path) -> None:
    for number in range(MOST_FILES):
        (root / "shop" / f"{number}.py").touch()

    with pytest.raises(ProjectRefused, match="has the definitions only"):
        copied(root, "shop")


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.mark.parametrize("folder", ["{root}/shop", "{root}", "..", "shop/../../other", "a\0b"])
def test_a_folder_that_is_not_below_the_root_is_refused_and_no_file_changes(
    root: Path, folder: str
) -> None:
    before = contents(root.parent)

    with pytest.raises(ProjectRefused, match="write a relative path without"):
        copied(root, folder.format(root=root))

    assert contents(root.parent) == before


@pytest.mark.parametrize("target", ["definitions", "definitions/shop", "other", "file", "link"])
def test_a_target_that_exists_is_refused_and_no_file_changes(root: Path, target: str) -> None:
    (root.parent / "other" / "shop").mkdir(parents=True)
    (root.parent / "other" / "shop" / "features.py").write_text("another project")
    (root.parent / "file").write_text("a file")
    (root.parent / "link").symlink_to(root, target_is_directory=True)
    before = contents(root.parent)

    with pytest.raises(ProjectRefused, match="name a"):
        copy_folder(root, PurePosixPath("shop"), root.parent / target)

    assert contents(root.parent) == before


def test_a_target_inside_of_the_folder_is_refused_also_behind_a_link(root: Path) -> None:
    (root.parent / "link").symlink_to(root / "shop", target_is_directory=True)
    before = contents(root.parent)

    for target in (root / "shop" / "copy", root.parent / "link" / "copy"):
        with pytest.raises(ProjectRefused, match="name a directory outside of it"):
            copy_folder(root, PurePosixPath("shop"), target)

    assert contents(root.parent) == before
