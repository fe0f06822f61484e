"""The garbage collector of a process that takes in rows by the ten thousand."""

import gc
from typing import Final

YOUNG: Final = 200_000
"""So many objects more than were let go begin a look; Python's own is 700."""


def tune_gc() -> None:
    """Look for garbage seldom, and never among what was imported.

    A batch makes hundreds of thousands of objects that all go when it is applied, none of them in
    a ring: looking for rings among them took a seventh of the time. Call it when the imports are
    done.
    """
    gc.freeze()
    gc.set_threshold(YOUNG, 20, 50)
