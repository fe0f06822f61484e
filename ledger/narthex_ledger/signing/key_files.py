"""Keys of an installation: each is generated once, in a file that one account can read."""

import os
import secrets
from pathlib import Path

KEY_BYTES = 32


def load_key(path: Path) -> bytes:
    """Read a key, or create it; only its owner can read the file.

    Two processes may call it at once: one creates the key, both read it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    if not path.exists():
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
        try:
            os.link(fresh, path)
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
    return path.read_bytes()
