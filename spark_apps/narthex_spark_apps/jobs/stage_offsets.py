"""The read positions of a live stage, in its checkpoint: only its newest owner may write them."""

import fcntl
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import attrs

from narthex._base import atomic_write
from narthex_stores import IndexFenced


@attrs.frozen
class Positions:
    """A file with the next offset of each partition, and a file with the epoch of its owner.

    An owner with an older epoch is refused: it would reset the positions of the newer one.
    """

    path: Path
    epoch: int = attrs.field(kw_only=True)

    def claim(self) -> None:
        """Refuse owners with earlier epochs from now on.

        Raises:
            IndexFenced: An owner with a later epoch has claimed the positions.
        """
        with self._owned():
            atomic_write(self._epoch_path, str(self.epoch))

    def load(self, otherwise: Sequence[tuple[str, int, int]]) -> dict[tuple[str, int], int]:
        """Return the next offset of each partition; at a first start, those of `otherwise`."""
        if not self.path.is_file():
            return {(topic, partition): offset for topic, partition, offset in otherwise}
        stored: Mapping[str, Mapping[str, int]] = json.loads(self.path.read_text())
        return {(t, int(p)): o for t, partitions in stored.items() for p, o in partitions.items()}

    def keep(self, positions: Mapping[tuple[str, int], int]) -> None:
        """Write the positions atomically: a reader sees the old ones or the new ones.

        Raises:
            IndexFenced: An owner with a later epoch has claimed them; nothing was written.
        """
        by_topic: dict[str, dict[str, int]] = {}
        for (topic, partition), offset in sorted(positions.items()):
            by_topic.setdefault(topic, {})[str(partition)] = offset
        with self._owned():
            atomic_write(self.path, json.dumps(by_topic))

    @property
    def _epoch_path(self) -> Path:
        return self.path.with_suffix(".epoch")

    @contextmanager
    def _owned(self) -> Iterator[None]:
        """Lock out every other owner, after checking that none of them has a later epoch."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.with_suffix(".lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            known = int(self._epoch_path.read_text()) if self._epoch_path.is_file() else -1
            if self.epoch < known:
                raise IndexFenced(f"epoch {known} has taken over; epoch {self.epoch} must stop")
            yield
