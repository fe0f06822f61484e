"""Start a driver: its JVM first, which loads its classes while this process imports the rest.

The supervisor runs it as `python -m narthex_spark_apps.jobs.driver_start`.
"""

import contextlib
import importlib
import threading

from pyspark.errors import PySparkRuntimeError

from narthex.settings import Settings, load_settings
from narthex_spark_apps.platform.jvm import MissingConnectorError
from narthex_spark_apps.platform.session import start_jvm
from narthex_spark_apps.platform.spark_properties import SparkConfigurationError

DRIVER = "narthex_spark_apps.jobs.driver"
"""Its imports take as long as the start of the JVM."""

_REPORTED = (MissingConnectorError, SparkConfigurationError, PySparkRuntimeError, OSError)


def main() -> None:
    """Start both, and run until the supervisor is gone."""
    threading.Thread(target=_start, args=(load_settings(),), name="jvm", daemon=True).start()
    importlib.import_module(DRIVER).main()


def _start(settings: Settings) -> None:
    # The driver then starts the JVM itself, and reports the error.
    with contextlib.suppress(*_REPORTED):
        start_jvm(settings)


if __name__ == "__main__":
    main()
