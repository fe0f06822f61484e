# mypy: disable-error-code="explicit-any"
"""The program of a worker, in which code of an author is executed.

It is started by path, by `narthex.workers.process`, with nothing in its environment. It reads
frames from the standard input, and writes one answer for each; what authors' code prints is
dropped.
"""

import ast
import json
import os
import sys
from collections.abc import Mapping, Sequence

ARGUMENTS = json.loads(sys.argv[1])
sys.path[:] = [*ARGUMENTS["stdlib"], *ARGUMENTS["path"]]

import numpy as np  # noqa: E402 (the path is set just above)
import pandas as pd  # noqa: E402
import pyarrow as pa  # noqa: E402

from narthex import lookups, secrets  # noqa: E402
from narthex.workers import worker_columns  # noqa: E402
from narthex.workers.author_code import Codes, outputs_of, told  # noqa: E402
from narthex.workers.frames import Frame, read_frame, render_frame  # noqa: E402
from narthex.workers.sandbox import die_with, enter  # noqa: E402

GREATEST_BODY_BYTES = 1 << 32


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


def finder(pipes: Pipes) -> lookups.Finder:
    """Answer look-ups of an extractor by asking who called us."""

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


def secret_provider(pipes: Pipes) -> secrets.Provider:
    """Find secrets by asking who called us; none is kept here."""

    def provide(name: str) -> str | None:
        pipes.send({"kind": "secret", "name": name})
        answer = pipes.receive()
        return answer.body.decode() if answer.header["kind"] == "found" else None

    return provide


def answer(pipes: Pipes, codes: Codes, frame: Frame) -> None:
    """Run one call and send what it gives."""
    header = frame.header
    entry = codes.entry(header)
    given = worker_columns.frame(worker_columns.read(frame.body))
    with lookups.finding_with(finder(pipes)), secrets.found_by(secret_provider(pipes)):
        result = worker_columns.called(entry, str(header["kind"]), given)
    table = worker_columns.table(result, outputs_of(header), index=given.index)
    pipes.send({"kind": "result"}, worker_columns.render(table))


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
