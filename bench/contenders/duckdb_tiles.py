"""The floor: DuckDB groups rows of a Parquet file, and stores nothing.

It runs in an environment without Narthex, see `bench.peers`.

python -m bench.contenders.duckdb_tiles DIRECTORY LENGTHS ROWS
"""

import json
import resource
import sys
import time
from pathlib import Path

import duckdb


def main() -> None:
    """Group the rows by each length, comma-separated microseconds."""
    path = Path(sys.argv[1]) / "rows.parquet"
    lengths, rows = [int(one) for one in sys.argv[2].split(",")], int(sys.argv[3])
    connection = duckdb.connect()
    connection.execute("SET threads TO 2")
    connection.execute("CREATE TABLE rows AS SELECT * FROM read_parquet(?)", [str(path)])
    before = resource.getrusage(resource.RUSAGE_SELF)
    began = time.monotonic()
    counted = 0
    for length in lengths:
        connection.execute(
            'CREATE OR REPLACE TABLE tiles AS SELECT "user", "at" // ? AS number, '
            "count(*) AS count, sum(amount) AS sum, sum(price) AS price, max(amount) AS most "
            "FROM rows GROUP BY ALL",
            [length],
        )
        counted += connection.execute("SELECT sum(count) FROM tiles").fetchone()[0]
    wall_s = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_SELF)
    print(
        json.dumps(
            {
                "rows": rows,
                "cpu_s": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
                "wall_s": wall_s,
                "peak_mb": after.ru_maxrss / 1000,
                "correct": int(counted) == rows * len(lengths),
            }
        )
    )


if __name__ == "__main__":
    main()
