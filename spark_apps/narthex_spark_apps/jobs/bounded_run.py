"""The command behind `run_job.py`: backfill the new assets of a commit, then exit."""

import argparse
import functools
import json
import sys
import time
from collections.abc import Sequence
from uuid import UUID

import attrs

from narthex.settings import load_settings
from narthex_ledger import Ledger, Verifier
from narthex_spark_apps.jobs.backfill import Backfill, say
from narthex_spark_apps.platform.session import open_session, submitted_settings
from narthex_stores import open_log


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the backfills of a commit; the result goes to stdout as JSON, progress to stderr."""
    parser = argparse.ArgumentParser(
        prog="run_job.py", description="Fill a commit's new assets with history."
    )
    parser.add_argument("--commit", required=True, type=UUID, help="the id of the commit")
    given = parser.parse_args(arguments)
    # The master is that of `spark-submit`, which has it from the connection of Airflow.
    settings = submitted_settings(load_settings())
    open_log(settings, sys.stderr)
    began = time.monotonic()
    session = functools.cache(
        functools.partial(open_session, settings, name=f"backfill {given.commit}")
    )
    ledger = Ledger(settings.ledger_dsn, verifier=Verifier.load(settings.verifying_key))
    run = Backfill(given.commit, ledger=ledger, settings=settings, session=session)
    done = run.run(progress=say)
    result = {
        "commit": str(given.commit),
        "seconds": round(time.monotonic() - began, 1),
        "jobs": [attrs.asdict(filled) for filled in done],
    }
    sys.stdout.write(json.dumps(result) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
