"""What spark-submit runs: the bounded run of a commit. `python run_job.py --help` says more."""

from narthex_spark_apps.jobs.bounded_run import main

if __name__ == "__main__":
    raise SystemExit(main())
