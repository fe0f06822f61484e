"""Running one project that failed: what the programs call that `make fuzz-spark` writes."""

import sys

from narthex_reference.generate import Project
from tests.differential.platform import platform
from tests.differential.searching import Searcher

COPIES = 8
"""The same project so many times: chance cuts each of them otherwise."""


def compared(project: Project, *, judge: str, engine: str) -> int:
    """Run a project in one way, several times; print the differences, and return an exit code."""
    with platform() as (session, settings):
        searcher = Searcher(session=session, settings=settings, seed=0)
        failed = searcher.judged([(project, (engine,))] * COPIES)
    for one in failed[:1]:
        sys.stdout.write(f"{len(failed)} of {COPIES} differ from `{judge}`\n{one.wrong}\n")
    if not failed:
        sys.stdout.write("they agree\n")
    return 1 if failed else 0
