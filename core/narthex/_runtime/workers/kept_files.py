"""The data files that a worker has received, so that each is sent to it once."""

import hashlib
from collections.abc import Callable, Mapping
from typing import Final

from narthex import data_files

KEPT_BYTES: Final = 32 << 20
"""The most bytes of files that a worker keeps; beyond that, it forgets all others."""

_KEPT: dict[str, bytes] = {}


def provider_of(
    header: Mapping[str, object], fetch: Callable[[str], bytes | None]
) -> data_files.ContentProvider:
    """Find the data files of a call: those that are kept, or what `fetch` returns for their names.

    Files are kept by their hash, so one that has changed is another file.
    """
    listed = header.get("files")
    hashes = listed if isinstance(listed, dict) else {}

    def provide(name: str) -> bytes | None:
        wanted = str(hashes.get(name, ""))
        if wanted in _KEPT:
            return _KEPT[wanted]
        found = fetch(name) if wanted else None
        if found is None or hashlib.sha256(found).hexdigest() != wanted:
            return None
        if sum(map(len, _KEPT.values())) + len(found) > KEPT_BYTES:
            _KEPT.clear()
        _KEPT[wanted] = found
        return found

    return provide
