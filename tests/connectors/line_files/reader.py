"""The reader of line files: each line is read once, and again only as the same fact."""

import json
import os
from collections.abc import Callable
from pathlib import Path

from typing_extensions import override

from line_files import LineFilesPath
from narthex._base import atomic_write
from narthex.settings import Settings
from narthex_spark_apps.sources.polling_source import PollingSource
from narthex_spark_apps.sources.row_appender import no_rows
from narthex_spark_apps.sources.row_rendering import Arrived, RawRowPosition
from narthex_spark_apps.sources.source_job import SourceJob
from narthex_spark_apps.storage.file_store import find_files, open_stream
from narthex_stores import LogProducer


class LineFilesSource(PollingSource):
    """The files of one source job, and how many lines of each were read."""

    default_every_us = 1_000_000

    def __init__(self, job: SourceJob, *, settings: Settings, memory: Path) -> None:
        """Keep the numbers of read lines in the file `memory`."""
        connector = job.spec.source.connector
        if not isinstance(connector, LineFilesPath):
            raise TypeError("only a source of line files has lines")
        super().__init__(job, memory=memory)
        self._files = connector
        self._root = settings.files_root

    @override
    def read(
        self, producer: LogProducer, *, stopped: Callable[[], bool] = lambda: False
    ) -> dict[str, int]:
        """Read each file from its first unread line to its end."""
        counts = no_rows()
        lines = json.loads(self._memory.read_text()) if self._memory.is_file() else {}
        for file in find_files(self._files.path, self._root):
            if stopped():
                break
            name = os.path.relpath(file, self._root)
            with open_stream(file, root=self._root) as opened:
                texts = opened.read().decode().splitlines()
            rows = [
                self._arrived(name, number, text)
                for number, text in enumerate(texts)
                if number >= lines.get(name, 0)
            ]
            self._appender.append(rows, producer, counts)
            lines[name] = len(texts)
            atomic_write(self._memory, json.dumps(lines))
        return counts

    def _arrived(self, file: str, number: int, text: str) -> Arrived:
        place = RawRowPosition(offset=number, rest=file.encode())
        cells = text.split(self._files.separator)
        if len(cells) != len(self._files.columns):
            return Arrived(place=place, row=text, now_us=0, unreadable="a line lacks cells")
        return Arrived(
            place=place, row=dict(zip(self._files.columns, cells, strict=True)), now_us=0
        )
