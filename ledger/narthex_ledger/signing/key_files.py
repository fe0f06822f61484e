"""Keys of an installation: each is generated once, in a file that one account can read."""

import secrets
from pathlib import Path

from narthex._base import atomic_create

KEY_BYTES = 32


def load_key(path: Path) -> bytes:
    """Read a key, or create it; only its owner can read the file.

    Two processes may call it at once: one creates the key, both read it.
    """
    if not path.exists():
        atomic_create(path, secrets.token_bytes(KEY_BYTES))
    return path.read_bytes()
