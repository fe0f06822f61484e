"""Narthex's offline query by columns: from the histories and the spine to the file of answers.

python -m bench.contenders.narthex_asof DIRECTORY DATASETS QUESTIONS
"""

import sys
from pathlib import Path
from typing import NoReturn

from bench.contenders.stopwatch import Stopwatch
from bench.profiles import query
from narthex._runtime.workers import WorkerPool
from narthex_spark_apps.offline.queries import answer_query


def _no_session() -> NoReturn:
    raise SystemExit("the query was not answered in the driver")


def main() -> None:
    """Answer twice, and measure the second time."""
    directory, datasets, questions = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    asked = query(directory, datasets, "narthex")
    with WorkerPool(size=1) as workers:
        answer_query(_no_session, asked, workers=workers, progress=lambda _: None)
        watch = Stopwatch()
        answer_query(_no_session, asked, workers=workers, progress=lambda _: None)
        watch.print_figures(questions)


if __name__ == "__main__":
    main()
