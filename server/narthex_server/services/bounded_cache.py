"""A cache whose entries have a bounded weight together."""

import threading
from collections import OrderedDict
from typing import Generic, TypeVar

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class BoundedCache(Generic[_Key, _Value]):
    """Values by key; the one that was not used for longest makes room for a new one.

    Any number of threads may use it.
    """

    def __init__(self, greatest_weight: int) -> None:
        """Create an empty cache.

        Args:
            greatest_weight: The greatest weight of all entries together; a single one may exceed
                it.
        """
        self._greatest_weight = greatest_weight
        self._entries: OrderedDict[_Key, tuple[_Value, int]] = OrderedDict()
        self._weight = 0
        self._lock = threading.Lock()

    def get(self, key: _Key) -> _Value | None:
        """Return a value that the cache has; None if it has not."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, key: _Key, value: _Value, *, weight: int) -> _Value:
        """Add a value; return it, or the one that another thread has added."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                return entry[0]
            self._add(key, value, weight)
            return value

    def replace(self, key: _Key, value: _Value, *, weight: int) -> None:
        """Add a value in place of the one that the cache has."""
        with self._lock:
            self._drop(key)
            self._add(key, value, weight)

    def remove(self, key: _Key) -> None:
        """Remove a value that the cache may have."""
        with self._lock:
            self._drop(key)

    def _add(self, key: _Key, value: _Value, weight: int) -> None:
        self._entries[key] = (value, weight)
        self._weight += weight
        while self._weight > self._greatest_weight and len(self._entries) > 1:
            self._drop(next(iter(self._entries)))

    def _drop(self, key: _Key) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._weight -= entry[1]

    def recent_keys(self) -> list[_Key]:
        """Return the keys, the one that was used last at the end."""
        with self._lock:
            return list(self._entries)
