# mypy: disable-error-code="explicit-any"
"""The loop of a confined worker, which reads calls, runs author code, and answers.

The output that author code prints is dropped.
"""

import ast
import os
import resource
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Self

import numpy as np
import pandas as pd
import pyarrow as pa

from narthex import data_files, lookups, secrets
from narthex._runtime.workers import worker_columns
from narthex._runtime.workers.author_code import (
    describe_error,
    entry_of,
    outputs_of,
    shorten_errors,
)
from narthex._runtime.workers.frames import Frame, read_frame, render_frame
from narthex._runtime.workers.kept_files import provider_of

GREATEST_BODY_BYTES = 1 << 32


class Pipes:
    """The two pipes of a worker: calls come in, answers go out."""

    def __init__(self, source: int, sink: int) -> None:
        """Create the pipes from two descriptors."""
        self._source = os.fdopen(source, "rb")
        self._sink = sink
        self._call: object = None

    @classmethod
    def alone(cls, held: int) -> Self:
        """Take the pipes from standard input and output; close all other descriptors except one."""
        source, sink = os.dup(0), os.dup(1)
        os.dup2(2, 0)
        os.dup2(2, 1)
        sys.stdin = sys.stdout = sys.stderr = None
        last, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        for before, after in pairwise(sorted({2, source, sink, held, last})):
            os.closerange(before + 1, after)
        return cls(source, sink)

    def _read(self, count: int) -> bytes:
        """Return exactly that many bytes; exit silently when the input ends."""
        found = self._source.read(count)
        if len(found) < count:
            os._exit(0)
        return found

    def receive(self) -> Frame:
        """Wait for a frame."""
        frame = read_frame(self._read, greatest_body_bytes=GREATEST_BODY_BYTES)
        self._call = frame.header.get("call")
        return frame

    def send(self, header: dict[str, object], body: bytes = b"") -> None:
        """Send a frame with the number of the call that was received last."""
        rest = memoryview(render_frame(Frame({**header, "call": self._call}, body)))
        while rest:
            rest = rest[os.write(self._sink, rest) :]


def warm() -> None:
    """Trigger the lazy imports of pandas, while modules can still be loaded."""
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    frame = worker_columns.frame(pa.table({"a": pa.array([1, None]), "b": pa.array(["x", None])}))
    result = (frame["a"] + 1).rename("a")
    worker_columns.table(result, [["a", None]], index=frame.index)
    pd.to_datetime(pd.Series(["2024-01-01"]), utc=True).dt.tz_convert("UTC").dt.floor("D")
    np.random.default_rng(0).random()
    ast.parse("a = 1")


def serve(pipes: Pipes, granted: dict[str, str]) -> None:
    """Serve calls until the input ends."""
    pipes.send({"kind": "ready", "sandbox": granted})
    while True:
        frame = pipes.receive()
        try:
            _answer(pipes, frame)
        except (Exception, SystemExit) as error:  # noqa: BLE001 (an author's code may raise all)
            pipes.send(describe_error(error))


def _answer(pipes: Pipes, frame: Frame) -> None:
    """Run one call and send its result."""
    given = worker_columns.frame(worker_columns.read(frame.body))
    files = provider_of(frame.header, _file_fetcher(pipes))
    with (
        lookups.finding_with(_finder(pipes)),
        secrets.found_by(_secret_provider(pipes)),
        data_files.provided_by(files),
    ):
        if frame.header.get("alone"):
            _answer_one_by_one(pipes, frame.header, given)
        else:
            made = _run(frame.header, given)
            pipes.send({"kind": "result"}, worker_columns.render(made))


def _run(header: Mapping[str, object], given: pd.DataFrame) -> pa.Table:
    result = worker_columns.called(entry_of(header), str(header["kind"]), given)
    return worker_columns.table(result, outputs_of(header), index=given.index)


def _answer_one_by_one(pipes: Pipes, header: Mapping[str, object], given: pd.DataFrame) -> None:
    """Run the code on each row alone; send the results, and the errors of the rows that failed."""
    tables: list[pa.Table] = []
    errors: list[tuple[int, dict[str, object]]] = []
    for at in range(len(given)):
        try:
            tables.append(_run(header, given.iloc[[at]].reset_index(drop=True)))
        except (Exception, SystemExit) as error:  # noqa: BLE001 (an author's code may raise all)
            errors.append((at, describe_error(error)))
    made = worker_columns.joined(tables, outputs_of(header))
    pipes.send({"kind": "result", "failed": shorten_errors(errors)}, worker_columns.render(made))


def _finder(pipes: Pipes) -> lookups.Finder:
    """Answer lookups of an extractor by asking the calling process."""

    def find(
        dataset: str, instants: object, keys: Mapping[str, object], fields: Sequence[str]
    ) -> tuple[object, object]:
        asked = worker_columns.asked(instants, keys)
        pipes.send({"kind": "lookup", "dataset": dataset}, worker_columns.render(asked))
        answer = pipes.receive()
        if answer.header["kind"] != "found":
            raise LookupError(str(answer.header["message"]))
        return worker_columns.found(worker_columns.read(answer.body), fields)

    return find


def _secret_provider(pipes: Pipes) -> secrets.Provider:
    """Find secrets by asking the calling process; the worker stores none."""

    def provide(name: str) -> str | None:
        pipes.send({"kind": "secret", "name": name})
        answer = pipes.receive()
        return answer.body.decode() if answer.header["kind"] == "found" else None

    return provide


def _file_fetcher(pipes: Pipes) -> Callable[[str], bytes | None]:
    """Get the data files of the running code by asking the calling process."""

    def fetch(name: str) -> bytes | None:
        pipes.send({"kind": "file", "name": name})
        answer = pipes.receive()
        return answer.body if answer.header["kind"] == "found" else None

    return fetch
