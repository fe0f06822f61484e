"""The program for spark-submit: the bounded run of a commit; see `run_job.py --help`."""

from narthex_spark_apps.jobs.bounded_run import main

if __name__ == "__main__":
    raise SystemExit(main())
