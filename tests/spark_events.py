"""Where the tasks of a Spark application ran, by the log of events that Spark itself writes."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from narthex_spark_apps.jobs.application import STANDING_TASKS

DRIVER_ID = "driver"
"""The id of the executor that is part of a driver; the ids of others are numbers."""
NO_TITLE = "without a title"
_DESCRIPTION = "spark.job.description"
_QUERIES = ("pipeline ", "source ")


def event_properties(directory: Path) -> dict[str, str]:
    """Return the properties with which drivers write their events to files in a directory."""
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": directory.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }


def where_tasks_ran(directory: Path) -> dict[str, Counter[str]]:
    """Count the tasks by the title of their job and the place of their executor.

    A title is `standing task NAME` or the name of a query without its epoch. A place is `driver`
    for the driver itself, and the number of its executor otherwise.

    Args:
        directory: The directory of the files, of which some may still be written.
    """
    places: dict[str, Counter[str]] = {}
    for path in sorted(directory.iterdir()):
        for title, place in tasks_of(path.read_text(encoding="utf-8").splitlines()):
            places.setdefault(title, Counter())[place] += 1
    return places


def tasks_of(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the title of the job and the place of each task of one application."""
    titles: dict[int, str] = {}
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            # The last line of a driver that was killed.
            continue
        match event:
            case {"Event": "SparkListenerJobStart", "Stage IDs": stages, "Properties": properties}:
                titles.update(dict.fromkeys(stages, _title(properties)))
            case {
                "Event": "SparkListenerTaskStart",
                "Stage ID": stage,
                "Task Info": {"Executor ID": place},
            }:
                yield titles.get(stage, NO_TITLE), str(place)


def _title(properties: Mapping[str, str]) -> str:
    first = properties.get(_DESCRIPTION, NO_TITLE).partition("\n")[0]
    return first.partition(":")[0].partition(", epoch ")[0]


def misplaced(places: Mapping[str, Counter[str]]) -> list[str]:
    """Return why the executors of a cluster did not carry everything; empty if they did.

    They must have run each standing task, at least one query, and nothing may have run in a driver.
    """
    standing = {f"standing task {name}" for name in STANDING_TASKS}
    in_drivers = sorted(title for title, where in places.items() if where[DRIVER_ID])
    queries = [title for title in places if title.startswith(_QUERIES)]
    return [
        *(f"{title} ran in a driver" for title in in_drivers),
        *(f"no executor ran {title}" for title in sorted(standing - places.keys())),
        *(() if queries else ("no executor ran a query",)),
    ]
