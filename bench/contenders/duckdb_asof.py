"""DuckDB by hand: an as-of join of Parquet files, in the order of the questions.

It runs in an environment without Narthex, see `bench.peers`.

python -m bench.contenders.duckdb_asof DIRECTORY QUESTIONS
"""

import json
import sys
from pathlib import Path

import duckdb

from bench.contenders.tiles import Stopwatch


def main() -> None:
    """Answer twice, and measure the second time."""
    directory, questions = Path(sys.argv[1]), int(sys.argv[2])
    files = json.loads((directory / "files.json").read_text())
    connection = duckdb.connect()
    connection.execute("SET threads TO 2")
    spine, output = directory / "spine.parquet", directory / "duckdb.parquet"
    command = (
        'COPY (SELECT s."Profile.user", v_country AS "Profile.country", '  # noqa: S608 (our paths)
        'v_balance AS "Profile.balance", v_score AS "Profile.score" '
        f"FROM read_parquet('{spine}') s ASOF LEFT JOIN read_parquet({files!r}) h "
        'ON s."Profile.user" = h.k_user AND s."at" >= h.event_time ORDER BY s."row") '
        f"TO '{output}' (FORMAT parquet)"
    )
    connection.execute(command)
    watch = Stopwatch()
    connection.execute(command)
    watch.print_figures(questions)


if __name__ == "__main__":
    main()
