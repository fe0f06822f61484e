"""Pipelines that must know earlier rows: a tree of steps over a state of the job's own."""

from narthex_spark_apps.stateful.bounded import work_off_stateful
from narthex_spark_apps.stateful.stage import StatefulStage

__all__ = ["StatefulStage", "work_off_stateful"]
