"""The identity of a training set: the request whose answers it keeps."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Final

SET_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,99}"
"""The pattern of names of training sets."""


def content_sha256(
    columns: Mapping[str, Sequence[object]],
    *,
    inputs: Sequence[str],
    features: Sequence[str],
    timestamp_column: str,
    at: Mapping[str, object] | None,
) -> bytes:
    """Return the hash of a request for a training set; the order of its columns does not count.

    Args:
        columns: The columns of the spine, as plain values.
        inputs: The given features.
        features: The features, or featuresets, to compute.
        timestamp_column: The column with the instants.
        at: The log offsets to answer at; None for the newest.
    """
    request = {
        "columns": {name: [*values] for name, values in columns.items()},
        "inputs": sorted(inputs),
        "features": [*features],
        "timestamp_column": timestamp_column,
        "at": at,
    }
    text = json.dumps(request, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).digest()
