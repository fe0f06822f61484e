"""A plugin of pytest that lets the tests run as of the day on which the peer released them.

One of them contains the ages of five people on that day. Only `datetime.now` changes. Python does
not allow changes of this class, so the plugin changes the interpreter's own dict of its names.
"""

import ctypes
import gc
from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from typing import Final

RELEASED: Final = datetime(2025, 2, 25, 12, tzinfo=UTC)


def pytest_load_initial_conftests() -> None:
    """Set the clock back, before anything reads it."""
    move(RELEASED - datetime.now(UTC))


def move(by: object) -> Callable[[], None]:
    """Let `datetime.now` be that much later; return what undoes it."""
    (names,) = gc.get_referents(datetime.__dict__)
    real = names["now"]

    def now(cls: type[datetime], tz: tzinfo | None = None) -> datetime:
        moved: datetime = real.__get__(None, cls)(tz) + by
        return moved

    def put(found: object) -> None:
        names["now"] = found
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(datetime))

    put(classmethod(now))
    return lambda: put(real)
