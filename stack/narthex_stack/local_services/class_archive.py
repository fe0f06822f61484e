"""The class archive, which halves the start time of drivers; written once per machine."""

import subprocess
import sys
from collections.abc import Mapping

import structlog

from narthex.settings import Settings
from narthex_spark_apps import archive_of
from narthex_stack.machine.jars import one_at_a_time

log = structlog.get_logger()

WITHIN_S = 240.0


def ensure_class_archive(settings: Settings, environment: Mapping[str, str]) -> None:
    """Write the archive if it is missing; several processes may call this at once.

    It needs the installation's Kafka for half a minute. A driver without the archive works, but
    starts slower, so a failure is only logged, and the next start tries again.

    Args:
        settings: The settings of an installation that has its connectors.
        environment: The environment of its drivers.
    """
    archive = archive_of(settings, environment)
    with one_at_a_time(archive.with_suffix(".lock")):
        if archive.exists():
            return
        command = (sys.executable, "-m", "narthex_spark_apps.platform.class_archive")
        try:
            done = subprocess.run(
                command,
                env=dict(environment),
                capture_output=True,
                text=True,
                timeout=WITHIN_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            log.warning("classes_not_archived", reason=f"it took longer than {WITHIN_S:.0f} s")
            return
    if done.returncode != 0:
        log.warning("classes_not_archived", reason=done.stderr[-1500:])
