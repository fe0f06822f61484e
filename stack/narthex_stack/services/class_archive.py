"""The archive of classes by which drivers come up in half the time, written once for a machine."""

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
    """Write the archive if there is none; several processes may ask at once.

    It needs the installation's Kafka for half a minute. A driver without an archive is slower, and
    right: so a failure is told in the log, and tried again at the next start.

    Args:
        settings: Of an installation whose connectors are there.
        environment: What its drivers get.
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
