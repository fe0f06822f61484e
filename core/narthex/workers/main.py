# mypy: disable-error-code="explicit-any"
"""The program of a worker: the one place where code of an author is executed.

It is started by path, by `narthex.workers.process`, with nothing in its environment. It reads
frames from the standard input, and writes one answer for each; what authors' code prints is
dropped.
"""

import ast
import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

ARGUMENTS = json.loads(sys.argv[1])
sys.path[:] = [*ARGUMENTS["stdlib"], *ARGUMENTS["path"]]

import numpy as np  # noqa: E402 (the path is set just above)
import pandas as pd  # noqa: E402
import pyarrow as pa  # noqa: E402

from narthex import lookups  # noqa: E402
from narthex.workers import worker_columns  # noqa: E402
from narthex.workers.frames import Frame, read_frame, render_frame  # noqa: E402
from narthex.workers.sandbox import die_with, enter  # noqa: E402

GREATEST_BODY_BYTES = 1 << 32
FILE = "<author>"


Entry: TypeAlias = Callable[..., object]
"""A function of an author."""


class Pipes:
    """The two ends by which we hear and speak."""

    def __init__(self) -> None:
        self.source = os.fdopen(os.dup(0), "rb")
        self.sink = os.dup(1)

    def read(self, count: int) -> bytes:
        """Give exactly that many bytes; end quietly when nobody speaks any more."""
        found = self.source.read(count)
        if len(found) < count:
            os._exit(0)
        return found

    def receive(self) -> Frame:
        return read_frame(self.read, greatest_body_bytes=GREATEST_BODY_BYTES)

    def send(self, header: dict[str, object], body: bytes = b"") -> None:
        rest = memoryview(render_frame(Frame(header, body)))
        while rest:
            rest = rest[os.write(self.sink, rest) :]


class Codes:
    """Authors' modules, each executed once."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.sources: dict[str, str] = {}

    def entry(self, header: dict[str, object]) -> Entry:
        """Give the function of a call; its source comes with the first one."""
        key = str(header["tree"])
        if key not in self.entries:
            source, name = str(header["source"]), str(header["entry"])
            namespace: dict[str, object] = {"__name__": "author", "__builtins__": __builtins__}
            exec(compile(source, FILE, "exec", dont_inherit=True), namespace)  # noqa: S102
            self.entries[key] = callable_in(namespace, name)
        self.sources[key] = str(header["source"])
        return self.entries[key]


def callable_in(namespace: dict[str, object], name: str) -> Entry:
    """Give the function of that name that a module defines."""
    entry = namespace[name]
    if not callable(entry):
        message = f"`{name}` is no function"
        raise TypeError(message)
    return entry


def finder(pipes: Pipes) -> lookups.Finder:
    """Answer look-ups of an extractor by asking who called us."""

    def find(
        dataset: str, instants: object, keys: Mapping[str, object], fields: Sequence[str]
    ) -> tuple[object, object]:
        arrays = {"": pa.array(pd.Series(instants), pa.timestamp("us", tz="UTC"))}
        arrays |= {name: pa.array(pd.Series(one), from_pandas=True) for name, one in keys.items()}
        pipes.send({"kind": "lookup", "dataset": dataset}, worker_columns.render(pa.table(arrays)))
        answer = pipes.receive()
        if answer.header["kind"] != "found":
            raise LookupError(str(answer.header["message"]))
        frame = worker_columns.frame(worker_columns.read(answer.body))
        found = frame.pop("")
        return (frame[list(fields)] if fields else frame), found

    return find


def answer(pipes: Pipes, codes: Codes, frame: Frame) -> None:
    """Run one call and send what it gives."""
    header = frame.header
    entry = codes.entry(header)
    given = worker_columns.frame(worker_columns.read(frame.body))
    with lookups.finding_with(finder(pipes)):
        match header["kind"]:
            case "extract":
                result = entry(None, *[given[name] for name in given.columns])
            case _:
                result = entry(given)
    table = worker_columns.table(result, outputs_of(header), index=given.index)
    pipes.send({"kind": "result"}, worker_columns.render(table))


def outputs_of(header: dict[str, object]) -> list[list[object]]:
    """Give the declared columns of a call: pairs of a name and an Arrow type as text."""
    declared = header["outputs"]
    return declared if isinstance(declared, list) else []


def told(error: BaseException, codes: Codes, header: dict[str, object]) -> dict[str, object]:
    """Describe an error of an author's code by its line in the text that travelled."""
    if isinstance(error, SyntaxError) and error.filename == FILE:
        line = error.lineno or 0
    else:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [one.lineno or 0 for one in frames if one.filename == FILE]
        line = lines[-1] if lines else 0
    return {
        "kind": "error",
        "error": type(error).__name__,
        "message": str(error)[:2000],
        "line": line,
        "text": _text(codes, header, line),
    }


def _text(codes: Codes, header: dict[str, object], line: int) -> str:
    source = codes.sources.get(str(header["tree"]), str(header.get("source", "")))
    lines = source.splitlines()
    return lines[line - 1].strip()[:200] if 0 < line <= len(lines) else ""


def warm() -> None:
    """Do once what pandas does lazily, before there is no way to load it."""
    frame = worker_columns.frame(pa.table({"a": pa.array([1, None]), "b": pa.array(["x", None])}))
    result = (frame["a"] + 1).rename("a")
    worker_columns.table(result, [["a", None]], index=frame.index)
    pd.to_datetime(pd.Series(["2024-01-01"]), utc=True).dt.tz_convert("UTC").dt.floor("D")
    np.random.default_rng(0).random()
    ast.parse("a = 1")


def main() -> None:
    """Serve calls until the input ends."""
    die_with(ARGUMENTS["parent"])
    pipes = Pipes()
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)
    sys.stdout = sys.stderr = None
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    warm()
    granted = enter(ARGUMENTS["readable"], ARGUMENTS["memory_bytes"])
    pipes.send({"kind": "ready", "sandbox": granted})
    codes = Codes()
    while True:
        frame = pipes.receive()
        try:
            answer(pipes, codes, frame)
        except (Exception, SystemExit) as error:  # noqa: BLE001 (an author's code may raise all)
            pipes.send(told(error, codes, frame.header))


if __name__ == "__main__":
    main()
