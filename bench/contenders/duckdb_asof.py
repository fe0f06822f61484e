"""DuckDB by hand: as-of joins of Parquet files, in the order of the questions.

It runs in an environment without Narthex, see `bench.peers`.

python -m bench.contenders.duckdb_asof DIRECTORY DATASETS QUESTIONS
"""

import json
import sys
from pathlib import Path

import duckdb

from bench.contenders.stopwatch import Stopwatch

VALUES = ("country", "balance", "score")


def command(directory: Path, datasets: int) -> str:
    """Return the statement that answers the questions."""
    files = json.loads((directory / "files.json").read_text())
    spine, output = directory / "spine.parquet", directory / "duckdb.parquet"
    columns = "".join(
        f', h{number}.v_{name} AS "Profile.{name}_{number}"'
        for number in range(datasets)
        for name in VALUES
    )
    joins = " ".join(
        f"ASOF LEFT JOIN read_parquet({files[number]!r}) h{number} "
        f'ON s."Profile.user" = h{number}.k_user AND s."at" >= h{number}.event_time'
        for number in range(datasets)
    )
    return (
        f'COPY (SELECT s."Profile.user"{columns} '  # noqa: S608 (our paths)
        f"FROM read_parquet('{spine}') s {joins} ORDER BY s.\"row\") "
        f"TO '{output}' (FORMAT parquet)"
    )


def main() -> None:
    """Answer twice, and measure the second time."""
    directory, datasets, questions = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    connection = duckdb.connect()
    connection.execute("SET threads TO 2")
    connection.execute(command(directory, datasets))
    watch = Stopwatch()
    connection.execute(command(directory, datasets))
    watch.print_figures(questions)


if __name__ == "__main__":
    main()
