"""Paths of files: refusals that no policy can lift, and coverage of paths by patterns."""

import fnmatch
import glob
import itertools
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from narthex._base.file_paths import covers, meets, path_mistake
from tests.cases import every

LEAVING = [
    "/etc/passwd",
    "../a",
    "a/../../b",
    "a/..",
    "..",
    "./a",
    "a//b",
    "",
    "~/a",
    "~root/a",
    "file:///etc/passwd",
    "file:/etc/passwd",
    "FILE:/etc/passwd",
    "gs://bucket/a",
    "S3://bucket/a",
    "a\x00b",
    "a\nb",
    "a\\..\\b",
    "%2e%2e/a",
    "a%2fb",
    "s3://",
    "s3:///a",
    "s3://bucket/../other/a",
    "s3://bucket//a",
    "s3://bucket/a#b",
    "s3://file:///etc",
    "[.][.]/a]",
    "a[",
    "[]h]istory",
    "[a/b]c",
    "/".join("a" * 65),
    "**/**/**/**/**/a",
]


@every("path", LEAVING)
def test_a_path_that_may_lead_elsewhere_is_refused(path: str) -> None:
    assert path_mistake(path)


@pytest.mark.parametrize(
    "path", ["a", "a/b.csv", "a/**", "a/*.csv", "a/%Y-%m/[0-9]?.csv", "s3://b/a/**", "a/", "a..b"]
)
def test_an_ordinary_path_is_not(path: str) -> None:
    assert path_mistake(path) == ""


@pytest.mark.parametrize(
    ("rule", "path"),
    [
        ("a/**", "a/b.csv"),
        ("a/**", "a/b/c/**"),
        ("a/**", "a"),
        ("a/**", "a/%Y/*.csv"),
        ("a/*", "a/*.csv"),
        ("a/*", "a/%Y"),
        ("a/*.csv", "a/[ab].csv"),
        ("a/[ab]", "a/[ab]"),
        ("a/b?.csv", "a/b1.csv"),
        ("**", "a/b"),
        ("**/c", "a/b/c"),
        ("s3://b/**", "s3://b/c/d"),
        ("s3://*/x", "s3://b/x"),
    ],
)
def test_a_rule_covers_what_is_below_it(rule: str, path: str) -> None:
    assert covers(rule, path)


@pytest.mark.parametrize(
    ("rule", "path"),
    [
        ("a/**", "ab/c"),
        ("a/**", "**"),
        ("a/**", "*/c"),
        ("a/*", "a/b/c"),
        ("a/*", "a/**"),
        ("a/*", "a"),
        ("a/b?.csv", "a/b*.csv"),
        ("a/[!x]", "a/*"),
        ("a/*b*", "a/[ab]"),
        ("**", "s3://b/c"),
        ("s3://b/**", "s3://bc/d"),
        ("s3://b/**", "b/d"),
    ],
)
def test_a_rule_does_not_cover_what_may_be_elsewhere(rule: str, path: str) -> None:
    assert not covers(rule, path)


PARTS = st.lists(st.sampled_from(["a", "b", "ab", "*", "a*", "?", "[ab]", "**", "*b"]), min_size=1)
PATTERNS = PARTS.map(lambda parts: "/".join(parts[:3]))
NAMES = [
    "/".join(parts)
    for size in (1, 2, 3)
    for parts in itertools.product(("a", "b", "ab"), repeat=size)
]


@given(rule=PATTERNS, path=PATTERNS)
@example(rule="a/*b*", path="a/[ab]")
def test_a_covered_name_matches_nothing_outside_the_rule(rule: str, path: str) -> None:
    if covers(rule, path):
        assert {name for name in NAMES if _names(path, name)} <= {
            name for name in NAMES if covers(rule, name)
        }


@given(path=PATTERNS)
def test_a_place_that_a_path_can_name_is_found(path: str) -> None:
    for name in NAMES:
        if _names(path, name):
            assert meets(name, path)
            assert meets(path, name)


@given(one=PATTERNS, other=PATTERNS)
@example(one="[ab]", other="b*")
def test_two_paths_that_name_a_common_file_meet(one: str, other: str) -> None:
    if any(_names(one, name) and _names(other, name) for name in NAMES):
        assert meets(one, other)


def _names(pattern: str, name: str) -> bool:
    """Whether a glob names a file, by the rules of `glob.glob` without a file system."""

    def match(parts: list[str], names: list[str]) -> bool:
        if not parts:
            return not names
        if parts[0] == "**":
            return any(match(parts[1:], names[at:]) for at in range(len(names) + 1))
        return (
            bool(names) and fnmatch.fnmatchcase(names[0], parts[0]) and match(parts[1:], names[1:])
        )

    return match(pattern.split("/"), name.split("/"))


def test_the_rules_of_this_test_are_those_of_a_file_system(tmp_path: Path) -> None:
    for name in ("x/a", "x/y/ab", "b"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()

    found = glob.glob("**/a*", root_dir=tmp_path, recursive=True)  # noqa: PTH207 (as jobs do)

    assert sorted(found) == [name for name in ("x/a", "x/y/ab") if _names("**/a*", name)]


@pytest.mark.parametrize(
    ("place", "path"),
    [
        ("s3://lake/platform", "s3://lake/platform/t"),
        ("s3://lake/platform", "s3://lake/**"),
        ("s3://lake/platform", "s3://lake/*/t"),
        ("s3://lake/platform", "s3://lake"),
        ("s3://lake/platform", "s3://lake/plat[f]orm"),
        ("s3://lake", "s3://lake/a"),
        ("s3://lake/platform", "s3://*/platform/%Y"),
    ],
)
def test_a_path_at_below_or_above_a_place_meets_it(place: str, path: str) -> None:
    assert meets(place, path)


@pytest.mark.parametrize("path", ["s3://lake/platforms/a", "s3://lakes/platform", "s3://lake/a/**"])
def test_a_path_beside_a_place_does_not(path: str) -> None:
    assert not meets("s3://lake/platform", path)
