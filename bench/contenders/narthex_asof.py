"""Narthex's offline query by columns: from the history and the spine to the file of answers.

python -m bench.contenders.narthex_asof DIRECTORY QUESTIONS
"""

import sys
from pathlib import Path
from typing import NoReturn

from bench.contenders.tiles import Stopwatch
from bench.profiles import query
from narthex._runtime.workers import WorkerPool
from narthex_spark_apps.offline.queries import answer_query


def _no_session() -> NoReturn:
    raise SystemExit("the query was not answered by columns")


def main() -> None:
    """Answer twice, and measure the second time."""
    directory, questions = Path(sys.argv[1]), int(sys.argv[2])
    asked = query(directory)
    with WorkerPool(size=1) as workers:
        answer_query(_no_session, asked, workers=workers, progress=lambda _: None)
        watch = Stopwatch()
        answer_query(_no_session, asked, workers=workers, progress=lambda _: None)
        watch.print_figures(questions)


if __name__ == "__main__":
    main()
