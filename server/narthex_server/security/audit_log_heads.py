"""The hashes of the audit log's entries, stored outside the database.

An administrator of the database can truncate the log, or restore an older end; a file that
another account or machine stores still lists the missing entries then.
"""

import json
import os
from pathlib import Path

import attrs

from narthex_ledger import LogHead


@attrs.frozen
class LogHeads:
    """A file with one line of JSON for each entry of the audit log."""

    path: Path

    def append(self, head: LogHead) -> None:
        """Append one entry's hash and make it durable.

        Raises:
            OSError: The file cannot be written.
        """
        line: dict[str, object] = {
            "number": head.number,
            "sha256": head.sha256.hex(),
            "signature": head.signature.hex() if head.signature else None,
        }
        handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(handle, (json.dumps(line) + "\n").encode())
            os.fsync(handle)
        finally:
            os.close(handle)

    def read(self) -> dict[int, bytes]:
        """Return the listed hashes by number; empty if the file does not exist.

        Raises:
            ValueError: A line is not in the format of `append`.
        """
        if not self.path.is_file():
            return {}
        lines = [json.loads(line) for line in self.path.read_text().splitlines()]
        return {int(line["number"]): bytes.fromhex(line["sha256"]) for line in lines}
