"""The places of the platform itself, which authors may neither read nor write.

They have the form in which an author names them: relative to the files root, or as `s3://…`.
"""

import os
import re
from pathlib import Path
from typing import Final

from narthex._base.file_paths import S3
from narthex.settings import Settings

EVERYWHERE: Final = "**"
"""The place that covers all files, if the files root itself is one of the platform's places."""

_SPECIAL = re.compile(r"[\[\]*?%]")
"""The characters that would turn the name of a directory into a pattern."""


def own_places(settings: Settings) -> tuple[str, ...]:
    """Return the places of an installation that a path of an author could name.

    A files root below the home is the operator's choice, such as `<home>/files`. If the files root
    is the home itself, or below a directory of the platform's state, authors may not read any of
    it.
    """
    root = settings.files_root.resolve()
    states = (settings.history_dir, settings.snapshot_dir, *_state_directories(settings))
    found = [_below(root, Path(state)) for state in states if state and not state.startswith(S3)]
    home = settings.home.resolve()
    if root == home or not root.is_relative_to(home):
        found.append(_below(root, home))
    buckets = [state for state in states if state.startswith(S3)]
    return tuple(dict.fromkeys([*(one for one in found if one), *buckets]))


def _state_directories(settings: Settings) -> tuple[str, ...]:
    named = (
        settings.index_dir,
        settings.checkpoint_dir,
        settings.policy_file,
        settings.jars_dir,
        settings.secrets_key,
        settings.signing_key,
        settings.next_signing_key,
        settings.home / "services.json",
        settings.home / "secrets.json",
        settings.home / "offline",
        settings.home / "run",
        settings.home / "logs",
    )
    others = (settings.secrets_dir, settings.ca_file)
    return (*map(str, named), *(one for one in others if one))


def _below(root: Path, place: Path) -> str:
    """Return a place relative to the root, `EVERYWHERE` if it covers the root, otherwise empty."""
    resolved = place.resolve()
    if root.is_relative_to(resolved):
        return EVERYWHERE
    if resolved.is_relative_to(root):
        return _SPECIAL.sub("?", os.path.relpath(resolved, root))
    return ""
