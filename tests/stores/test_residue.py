"""A search finds keys wherever they are: in files of any kind, columns, and records of topics."""

import mmap
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from narthex._base import Json
from narthex_stores import Needle, TransientError, names_below, search_files
from narthex_stores.residue import Searched

NAME = "hedwig-7031"
LONG = Needle(cells={"person": NAME})
SHORT = Needle(cells={"uid": 7}, aliases={"uid": frozenset({"user"})})
PAIR = Needle(cells={"person": NAME, "device": 7})


def written(path: Path, table: pa.Table) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, compression="zstd")
    return path


def test_long_values_are_searched_for_anywhere_and_short_ones_by_name() -> None:
    assert LONG.is_long
    assert Needle(cells={"uid": 703_112}).is_long
    assert not SHORT.is_long
    assert not PAIR.is_long, "one short value makes a key short"
    assert LONG.texts == (NAME,)
    assert Needle(cells={"person": "Jürgen"}).texts == ("Jürgen", "J\\u00fcrgen")
    assert SHORT.texts == ()


@pytest.mark.parametrize(
    "value",
    [
        {"rows": [{"person": NAME, "club": "chess"}]},
        {"inputs": {"Member.person": ["bea", NAME]}},
        {"outputs": {"Club.names": [["bea", NAME]]}},
        {NAME: 1},
        [[{"note": f"about {NAME}!"}]],
    ],
)
def test_a_long_value_is_found_in_json(value: Json) -> None:
    assert LONG.is_in(value)
    assert not Needle(cells={"person": "konrad-2290"}).is_in(value)


@pytest.mark.parametrize(
    ("value", "is_found"),
    [
        ({"uid": 7, "count": 1}, True),
        ({"uid": "7"}, True),
        ({"user": 7}, True),
        ({"inputs": {"Request.uid": [1, 7]}}, True),
        ({"k_uid": 7}, True),
        ({"count": 7}, False),
        ({"uid": 70}, False),
        ([7], False),
    ],
)
def test_a_short_value_is_found_in_columns_of_its_name(value: Json, is_found: bool) -> None:
    assert SHORT.is_in(value) is is_found


@pytest.mark.parametrize(
    ("value", "is_found"),
    [
        ({"note": "user1"}, True),
        ({"note": "by user1, at noon"}, True),
        ({"user1": 3}, True),
        ({"note": "mail:user1@example.com"}, True),
        ({"person": "user10"}, False),
        ({"person": "xuser1"}, False),
        ({"note": "user1_old, user12"}, False),
        ({"note": "userélan user1é"}, False),
    ],
)
def test_a_value_is_found_as_a_word_and_not_inside_of_another_one(
    value: Json, is_found: bool
) -> None:
    assert Needle(cells={"person": "user1"}).is_in(value) is is_found


@pytest.mark.parametrize("cell", [123456, "123456"])
def test_digits_are_not_found_in_fractions_of_seconds(cell: Json) -> None:
    needle = Needle(cells={"uid": cell})

    assert not needle.is_in(
        {"at": "2026-05-01T08:00:00.123456+00:00", "n": 71234567, "x": 0.123456}
    )
    assert needle.is_in({"note": "of 123456"})
    assert needle.is_in({"other": 123456})


def test_keys_of_other_rows_explain_what_is_found_in_bytes_and_texts(tmp_path: Path) -> None:
    needle = Needle(cells={"person": "user-1"})
    rows = {"person": ["user-12", "user-1-b", "bea"]}
    place = written(tmp_path / "history" / "rows.parquet", pa.table(rows))
    data = tmp_path / "index" / "data.mdb"
    data.parent.mkdir()
    data.write_bytes(b"\x0e" + b"user-12" + b"\x10" + b"user-1-b" + b"\0" * 64)

    first = search_files(tmp_path, [needle])
    known = attrs.evolve(needle, others=first.others)
    again = search_files(tmp_path, [known])
    data.write_bytes(data.read_bytes() + b"\x0cuser-1\x02")
    left = search_files(tmp_path, [known])
    written(place, pa.table({"person": [*rows["person"], "user-1"]}))
    both = search_files(tmp_path, [attrs.evolve(needle, others=first.others)])

    assert first.others == {"user-12", "user-1-b"}
    assert set(first.found) == {str(place), str(data)}
    assert again.found == ()
    assert left.found == (str(data),)
    assert set(both.found) == {str(place), str(data)}


def test_all_fields_of_a_key_are_in_one_row() -> None:
    assert PAIR.is_in({"person": NAME, "device": 7})
    assert not PAIR.is_in({"person": NAME, "device": 8})
    assert not PAIR.is_in([{"person": NAME}, {"device": 7}])


@pytest.mark.parametrize(
    "column",
    [
        pa.array([NAME]),
        pa.array([f"about {NAME}"], pa.large_string()),
        pa.array([NAME.encode()]),
        pa.array([["bea", NAME]]),
        pa.array([{"deep": [{"person": NAME}]}]),
        pa.array([[("bea", NAME)]], pa.map_(pa.string(), pa.string())),
        pa.array([NAME]).dictionary_encode(),
    ],
)
def test_a_long_value_is_found_in_any_column_of_a_compressed_file(
    tmp_path: Path, column: pa.Array
) -> None:
    place = written(tmp_path / "history" / "part.parquet", pa.table({"other": column}))
    assert search_files(tmp_path, [LONG]).found == (str(place),)
    assert search_files(tmp_path, [Needle(cells={"person": "konrad-2290"})]).found == ()


@attrs.frozen
class Meanwhile(Needle):
    """A key; after the first file that is searched for it, something happens to the others."""

    happens: Callable[[], object] = attrs.field(kw_only=True)

    def is_in_index(self, raw: "bytes | mmap.mmap") -> bool:
        self.happens()
        return super().is_in_index(raw)


def in_turn(actions: Iterator[Callable[[], object]]) -> Callable[[], object]:
    """Return a function that takes the next action at each call, and then none."""

    def take() -> None:
        for action in actions:
            action()
            return

    return take


def test_a_file_that_gets_its_name_during_a_search_is_searched_too(tmp_path: Path) -> None:
    """Checkpoints are written by jobs that run: a file is complete once it has been renamed."""
    (tmp_path / "a").write_text("nothing")
    (tmp_path / "z.tmp").write_text(NAME)
    moves: Iterator[Callable[[], object]] = iter(
        [lambda: (tmp_path / "z.tmp").rename(tmp_path / "b")]
    )
    needle = Meanwhile(cells=LONG.cells, happens=in_turn(moves))

    assert search_files(tmp_path, [needle]).found == (str(tmp_path / "b"),)


def test_a_file_that_takes_the_place_of_another_during_a_search_is_searched(
    tmp_path: Path,
) -> None:
    (tmp_path / "a").write_text("nothing")
    (tmp_path / "z.tmp").write_text(NAME)
    moves: Iterator[Callable[[], object]] = iter(
        [lambda: None, lambda: (tmp_path / "z.tmp").replace(tmp_path / "a")]
    )
    (tmp_path / "b").write_text("nothing")
    needle = Meanwhile(cells=LONG.cells, happens=in_turn(moves))

    assert search_files(tmp_path, [needle]).found == (str(tmp_path / "a"),)


def test_a_deleted_file_has_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("nothing")
    (tmp_path / "b").write_text(NAME)
    deletes: Iterator[Callable[[], object]] = iter([(tmp_path / "b").unlink])
    needle = Meanwhile(cells=LONG.cells, happens=in_turn(deletes))

    assert search_files(tmp_path, [needle]).found == ()


def test_files_that_are_replaced_faster_than_they_are_read_are_searched_later(
    tmp_path: Path,
) -> None:
    (tmp_path / "a").write_text("nothing")
    names = iter(range(1_000_000))
    (tmp_path / "z0").write_text("nothing")

    def replace() -> None:
        (tmp_path / "a").write_text(f"nothing {next(names)}")
        (*_, last) = sorted(tmp_path.glob("z*"))
        last.rename(tmp_path / f"z{next(names)}")

    with pytest.raises(TransientError, match="change while they are read"):
        search_files(tmp_path, [Meanwhile(cells=LONG.cells, happens=replace)])


def test_a_short_value_is_found_in_a_file_by_the_name_of_its_column(tmp_path: Path) -> None:
    place = written(tmp_path / "a.parquet", pa.table({"k_uid": [1, 7], "v_count": [3, 4]}))
    written(tmp_path / "b.parquet", pa.table({"k_uid": [1, 8], "v_count": [7, 7]}))

    assert search_files(tmp_path, [SHORT]).found == (str(place),)


def test_one_file_is_searched_by_its_path(tmp_path: Path) -> None:
    path = written(tmp_path / "set.parquet", pa.table({"person": ["bea", NAME]}))
    other = written(tmp_path / "other.parquet", pa.table({"person": ["bea"]}))

    assert search_files(path, [LONG]).found == (str(path),)
    assert search_files(other, [LONG]) == Searched(items=1, size=other.stat().st_size)


def test_bytes_are_searched_in_files_of_any_kind(tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    data = tmp_path / "index" / "data.mdb"
    data.write_bytes(b"\0" * 4095 + NAME.encode() + b"\0" * 4096)
    (tmp_path / "index" / "lock.mdb").write_bytes(b"")

    assert search_files(tmp_path, [LONG]) == Searched(
        items=2, size=data.stat().st_size, found=(str(data),)
    )
    by_key = Needle(cells={"uid": 703_112}, key=b"\0\0\0\x08" + (703_112).to_bytes(8, "big"))
    assert search_files(tmp_path, [by_key]).found == ()
    data.write_bytes(b"x" + by_key.key)
    assert search_files(tmp_path, [by_key]).found == (str(data),)


def test_a_missing_directory_has_nothing_and_names_are_found_at_any_depth(tmp_path: Path) -> None:
    assert search_files(tmp_path / "nowhere", [LONG]) == Searched()
    (tmp_path / ".trash" / "nx_abc").mkdir(parents=True)
    assert "nx_abc" in names_below(tmp_path)
