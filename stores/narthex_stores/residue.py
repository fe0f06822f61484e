"""Search raw stores for what must not be in them: topics, files of any kind, Parquet files.

Nothing here knows how rows are removed. A value that is long enough is searched for wherever it
may be; a short one, which may be in a store by chance, only in columns of the same name.

A key may be part of another one, `user1` of `user10` or `user1-b`. So text is searched for whole
words, and a hit inside of another key that rows still have is that key. Bytes without a known
structure have no words: there, a hit inside of a longer word that rows still have is that word.
"""

import json
import mmap
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from narthex._base import Json
from narthex._formats import render_cell
from narthex._formats.avro import fact_codec
from narthex._ir import LogSpec
from narthex_stores.errors import TransientError
from narthex_stores.facts.tables import ArrowColumn
from narthex_stores.file_systems import file_system_of
from narthex_stores.kafka.brokers import Broker
from narthex_stores.kafka.copying import read_log
from narthex_stores.kafka.logs import LogReader

LONG_TEXT_BYTES: Final = 4
"""How many bytes a text must have to be searched for anywhere."""

LONG_DIGITS: Final = 6
"""How many digits a number must have to be searched for anywhere."""

_Array: TypeAlias = "pa.Array[pa.Scalar[pa.DataType]]"

_PARQUET: Final = b"PAR1"
_MARKS: Final = ("k_", "v_")
"""The prefixes of names of keys and values in tables of facts."""


@attrs.frozen(kw_only=True)
class Needle:
    """One key to search for.

    Attributes:
        cells: The values of its fields, as in JSON, by name.
        aliases: Further names of columns that a field is read from, by field.
        key: Its canonical bytes in logs and indexes, if all keys of the dataset are erase keys.
        others: Longer texts with a value of the key that remaining rows have: words, and keys.
    """

    cells: Mapping[str, Json]
    aliases: Mapping[str, frozenset[str]] = attrs.field(factory=dict)
    key: bytes = b""
    others: frozenset[str] = frozenset()

    @property
    def is_long(self) -> bool:
        """Whether it is searched for anywhere, and not only in columns of its name."""
        return all(_is_long(cell) for cell in self.cells.values())

    @property
    def texts(self) -> tuple[str, ...]:
        """The values as text, if they are long; otherwise none.

        Of a key of several fields, the longest one stands for all: the others may be shared.
        """
        if not self.is_long:
            return ()
        text = max((_text(cell) for cell in self.cells.values()), key=len)
        escaped = json.dumps(text)[1:-1]
        return tuple(dict.fromkeys((text, escaped)))

    def is_at(self, row: Mapping[str, Json]) -> bool:
        """Whether a row has the key in columns of its names."""
        named = {_own_name(name): value for name, value in row.items()}
        return all(
            any(
                name in named and _same(named[name], cell)
                for name in {field, *self.aliases.get(field, ())}
            )
            for field, cell in self.cells.items()
        )

    def is_in(self, value: Json) -> bool:
        """Whether JSON has the key: in an object, in columns of one length, or in a long text."""
        match value:
            case dict():
                return (
                    self.is_at(value)
                    or any(self.is_at(row) for row in _rows(value))
                    or any(self.is_word_of(name) or self.is_in(one) for name, one in value.items())
                )
            case list():
                return any(self.is_in(one) for one in value)
            case str() | int() if not isinstance(value, bool):
                return self.is_word_of(_text(value))
            case _:
                return False

    def is_word_of(self, value: str) -> bool:
        """Whether a text has a long value of the key as a word of its own, outside of others."""
        reach = max(map(len, self.others), default=0)
        return any(
            not _is_covered(value, hit.start(), len(text), self.others, reach)
            for text in self.texts
            if text in value
            for hit in _word(text).finditer(value)
        )

    def others_in(self, value: Json, name: str = "") -> Iterator[str]:
        """Return the longer words with a long value of the key, and the longer keys.

        Args:
            value: JSON, or a cell.
            name: The name of its column, if it has one.
        """
        match value:
            case dict():
                for key, one in value.items():
                    yield from self.others_in(key)
                    yield from self.others_in(one, _own_name(key))
            case list():
                for one in value:
                    yield from self.others_in(one, name)
            case str():
                for text in self.texts:
                    if text in value and text != value:
                        is_key = any(
                            name in {field, *self.aliases.get(field, ())} for field in self.cells
                        )
                        found = [value] if is_key else _longer(text).findall(value)
                        yield from (one for one in found if one != text)
            case _:
                return

    def is_in_bytes(self, raw: "bytes | mmap.mmap") -> bool:
        """Whether bytes have a long value of the key, except inside of words of other rows."""
        others = {one.encode() for one in self.others}
        reach = max(map(len, others), default=0)
        return any(
            not _is_covered(raw, at, len(text), others, reach)
            for text in (one.encode() for one in self.texts)
            for at in _hits(raw, text)
        )

    def is_in_index(self, raw: "bytes | mmap.mmap") -> bool:
        """Whether bytes of an index or a state have a long value of the key, or its own bytes."""
        is_long = self.is_long and len(self.key) > LONG_TEXT_BYTES
        return self.is_in_bytes(raw) or (is_long and raw.find(self.key) >= 0)


@attrs.frozen(kw_only=True)
class Searched:
    """The result of a search.

    Attributes:
        items: How many records, rows or files were read.
        size: How many bytes of them.
        found: The places where something was found, at most a few, without values.
        others: Longer words with a value of a key that were read, for `Needle.others`.
    """

    items: int = 0
    size: int = 0
    found: tuple[str, ...] = ()
    others: frozenset[str] = frozenset()

    def plus(self, other: "Searched") -> "Searched":
        """Return both results as one."""
        return Searched(
            items=self.items + other.items,
            size=self.size + other.size,
            found=(self.found + other.found)[:MOST_FOUND],
            others=self.others | other.others,
        )


MOST_FOUND: Final = 20

MOST_LISTINGS: Final = 20
"""How often files are listed until none that was listed is gone when it is read."""


def search_topic(
    broker: Broker | str, topic: str, needles: Sequence[Needle], *, log: LogSpec | None = None
) -> Searched:
    """Read every record of a topic, and search its key, value and headers.

    Args:
        broker: The cluster.
        topic: The topic; one that does not exist has nothing.
        needles: The keys.
        log: The columns of its records, if it is the log of a dataset.

    Raises:
        StoreError: The cluster did not answer in time.
    """
    items, size, found = 0, 0, []
    others: set[str] = set()
    with LogReader(broker) as reader:
        firsts, ends = reader.first_offsets([topic]), reader.end_offsets([topic])
        for (name, partition), end in sorted(ends.items()):
            start = firsts.get((name, partition), 0)
            for record in read_log(reader, topic, start, end, partition=partition):
                items += 1
                parts = [record.key or b"", record.value or b""]
                parts += [one for _, one in record.headers]
                size += sum(map(len, parts))
                row = {} if log is None or not record.value else _cells(log, record.value)
                for needle in needles:
                    others.update(_others_of(needle, parts, row))
                if any(_in_record(needle, parts) or needle.is_at(row) for needle in needles):
                    found.append(f"{topic}/{partition}/{record.offset}")
    return Searched(
        items=items, size=size, found=tuple(found[:MOST_FOUND]), others=frozenset(others)
    )


def search_files(root: str | Path, needles: Sequence[Needle]) -> Searched:
    """Read a file, or every file below a directory or an `s3://` URL, and search it.

    A missing directory has nothing. Files may be written, renamed and deleted meanwhile, as jobs
    that run do: after one that was listed is gone, the files that are there then are searched too.

    Raises:
        TransientError: Files change faster than they are read.
    """
    system, path = file_system_of(str(root))
    result = Searched()
    known: set[tuple[str, int, int]] = set()
    for _ in range(MOST_LISTINGS):
        is_complete = True
        for info in _files_below(system, path):
            version = (str(info.path), int(info.mtime_ns or 0), int(info.size or 0))
            if version in known:
                continue
            try:
                is_found, others = _in_file(system, info.path, needles)
            except FileNotFoundError:
                is_complete = False
                continue
            known.add(version)
            result = result.plus(
                Searched(
                    items=1,
                    size=int(info.size or 0),
                    found=(info.path,) if is_found else (),
                    others=others,
                )
            )
        if is_complete:
            return result
    raise TransientError(f"files below {root} change while they are read")


def _files_below(system: fs.FileSystem, path: str) -> list[fs.FileInfo]:
    """Return a file, or all files below a directory that are there now."""
    own = system.get_file_info(path)
    if own.type is fs.FileType.File:
        return [own]
    selector = fs.FileSelector(path, allow_not_found=True, recursive=True)
    infos = [one for one in system.get_file_info(selector) if one.type is fs.FileType.File]
    return sorted(infos, key=lambda one: str(one.path))


def names_below(root: str | Path) -> frozenset[str]:
    """Return all names of files and directories below a directory or URL, at any depth."""
    system, directory = file_system_of(str(root))
    selector = fs.FileSelector(directory, allow_not_found=True, recursive=True)
    return frozenset(
        part
        for info in system.get_file_info(selector)
        for part in str(info.path).removeprefix(directory).split("/")
    )


def _cells(log: LogSpec, value: bytes) -> dict[str, Json]:
    fact = fact_codec(log).decode(value)
    columns = (*log.keys, *log.values)
    cells = (*fact.key, *fact.values)
    return {
        column.name: render_cell(cell, column.type)
        for column, cell in zip(columns, cells, strict=True)
        if cell is not None
    }


def _in_record(needle: Needle, parts: Sequence[bytes]) -> bool:
    if needle.key and parts[0] == needle.key:
        return True
    return any(_in_part(needle, part) for part in parts)


def _in_part(needle: Needle, part: bytes) -> bool:
    value = _json_of(part)
    return needle.is_in_bytes(part) if value is None else needle.is_in(value)


def _json_of(part: bytes) -> Json:
    """Return the object or list in a part of a record; None if the part is something else."""
    if part[:1] not in {b"{", b"["}:
        return None
    try:
        value: Json = json.loads(part)
    except ValueError:
        return None
    return value


def _others_of(needle: Needle, parts: Sequence[bytes], row: Json) -> Iterator[str]:
    """Return the longer words with a value of a key in what of a record has a structure."""
    for value in (row, *map(_json_of, parts)):
        yield from needle.others_in(value)


def _word(text: str) -> re.Pattern[str]:
    """Return what a text is as a word; digits after a point are a fraction, as of a second."""
    before = r"(?<![\w.])" if text.isdigit() else r"(?<!\w)"
    return re.compile(f"{before}{re.escape(text)}(?!\\w)")


def _longer(text: str) -> re.Pattern[str]:
    return re.compile(rf"\w*{re.escape(text)}\w*")


def _hits(raw: "bytes | mmap.mmap", text: bytes) -> Iterator[int]:
    at = raw.find(text)
    while at >= 0:
        yield at
        at = raw.find(text, at + 1)


def _is_covered(
    whole: "str | bytes | mmap.mmap",
    at: int,
    size: int,
    others: Collection[str] | Collection[bytes],
    reach: int,
) -> bool:
    """Whether the text at a position is inside of one of the others; `reach` is their length."""
    return any(
        whole[start:end] in others
        for start in range(max(0, at + size - reach), at + 1)
        for end in range(max(at + size, start + size + 1), start + reach + 1)
    )


def _in_file(
    system: fs.FileSystem, path: str, needles: Sequence[Needle]
) -> tuple[bool, frozenset[str]]:
    """Return whether a file has a key, and the longer words with a value of a key in it."""
    with system.open_input_file(path) as file:
        if file.size() >= len(_PARQUET) and file.read(len(_PARQUET)) == _PARQUET:
            file.seek(0)
            is_found, others = False, set[str]()
            for batch in pq.ParquetFile(file).iter_batches():
                table = pa.Table.from_batches([batch])
                for needle in needles:
                    is_found = is_found or _in_table(needle, table)
                    others.update(_others_in_table(needle, table))
            return is_found, frozenset(others)
    raw = _raw(system, path)
    return any(needle.is_in_index(raw) for needle in needles), frozenset()


def _raw(system: fs.FileSystem, path: str) -> "bytes | mmap.mmap":
    if isinstance(system, fs.LocalFileSystem):
        with Path(path).open("rb") as file:
            if Path(path).stat().st_size == 0:
                return b""
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    with system.open_input_stream(path) as stream:
        content: bytes = stream.read()
        return content


def _in_table(needle: Needle, table: pa.Table) -> bool:
    """Whether a table has the key in columns of its names, or a long value of it anywhere."""
    if any(_has_text(leaf, needle) for _, leaf in _leaves_of(table)):
        return True
    by_name: dict[str, list[str]] = {}
    for name in table.column_names:
        by_name.setdefault(_own_name(name), []).append(name)
    names = {
        name
        for field in needle.cells
        for alias in (field, *needle.aliases.get(field, ()))
        for name in by_name.get(alias, ())
    }
    if not names:
        return False
    rows = table.select(sorted(names)).to_pylist()
    return any(needle.is_at({name: _plain(cell) for name, cell in row.items()}) for row in rows)


def _others_in_table(needle: Needle, table: pa.Table) -> Iterator[str]:
    for name, leaf in _leaves_of(table):
        for cell in _texts_of(leaf):
            yield from needle.others_in(cell, _own_name(name))


def _leaves_of(table: pa.Table) -> Iterator[tuple[str, _Array]]:
    """Return the parts of all columns that are not nested, with the name of the column."""
    columns: Iterable[ArrowColumn] = table.columns
    for name, column in zip(table.column_names, columns, strict=True):
        for chunk in column.chunks:
            yield from ((name, leaf) for leaf in _leaves(chunk))


def _has_text(leaf: _Array, needle: Needle) -> bool:
    if not needle.texts:
        return False
    kind = leaf.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        cells = leaf.cast(pa.binary()).to_pylist()
        return any(cell is not None and needle.is_in_bytes(cell) for cell in cells)
    return any(needle.is_word_of(cell) for cell in _texts_of(leaf))


def _texts_of(leaf: _Array) -> Iterator[str]:
    kind = leaf.type
    if pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind):
        yield from (cell for cell in leaf.cast(pa.string()).to_pylist() if cell is not None)


def _leaves(
    array: _Array,
) -> Iterator[_Array]:
    if isinstance(array, pa.DictionaryArray):
        yield from _leaves(array.dictionary)
    elif isinstance(array, pa.StructArray):
        for part in array.flatten():
            yield from _leaves(part)
    elif isinstance(array, pa.MapArray):
        yield from _leaves(array.keys)
        yield from _leaves(array.items)
    elif isinstance(array, pa.ListArray | pa.LargeListArray | pa.FixedSizeListArray):
        yield from _leaves(array.flatten())
    else:
        yield array


def _rows(columns: Mapping[str, Json]) -> Iterator[dict[str, Json]]:
    """Read an object of columns as rows; nothing if its values are not lists of one length."""
    lists = {name: one for name, one in columns.items() if isinstance(one, list)}
    if not lists or len({len(one) for one in lists.values()}) != 1:
        return
    for cells in zip(*lists.values(), strict=True):
        yield dict(zip(lists, cells, strict=True))


def _own_name(name: str) -> str:
    """Return the last part of the name of a column: of a feature, or of a table of facts."""
    last = name.rsplit(".", 1)[-1]
    return next((last.removeprefix(mark) for mark in _MARKS if last.startswith(mark)), last)


def _plain(cell: object) -> Json:
    return cell if isinstance(cell, str | int | float | bool | None) else str(cell)


def _same(found: Json, cell: Json) -> bool:
    return found is not None and _text(found) == _text(cell)


def _text(cell: Json) -> str:
    return cell if isinstance(cell, str) else json.dumps(cell)


def _is_long(cell: Json) -> bool:
    if isinstance(cell, bool) or not isinstance(cell, str | int):
        return False
    if isinstance(cell, int):
        return len(str(abs(cell))) >= LONG_DIGITS
    return len(cell.encode()) >= LONG_TEXT_BYTES
