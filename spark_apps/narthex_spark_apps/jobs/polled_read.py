"""Read a polled source (a table, a stream of a cloud) up to its current end, in a task of Spark."""

import contextlib
import json
from collections.abc import Iterable, Iterator

import attrs
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from narthex._base import from_plain, to_plain
from narthex._ir import ResolvedAsset
from narthex.settings import Settings, environment_of, load_settings
from narthex_spark_apps.jobs.start import polling_source
from narthex_spark_apps.platform.python_workers import cause_of, with_environment
from narthex_stores import LogProducer, platform_broker


class PolledReadError(RuntimeError):
    """A polled source could not be read; the message is the cause."""


@attrs.frozen
class PolledRead:
    """The function of the task; the worker's environment has the settings.

    Attributes:
        asset: The resolved asset of the job, as plain JSON text.
    """

    asset: str

    def __call__(self, _rows: Iterable[int]) -> Iterator[int]:
        """Read; yield the number of rows."""
        settings = load_settings()
        asset = from_plain(json.loads(self.asset))
        source = polling_source(asset, settings) if isinstance(asset, ResolvedAsset) else None
        if source is None:
            raise TypeError("not the job of a polled source")
        with contextlib.closing(source), LogProducer(platform_broker(settings)) as producer:
            yield source.read(producer)["rows"]


def read_polled(context: SparkContext, asset: ResolvedAsset, settings: Settings) -> int:
    """Append the rows that a source holds now; return their number.

    Raises:
        PolledReadError: The source could not be read; a repeated read goes on where it ended.
    """
    context = with_environment(context, environment_of(settings))
    task = PolledRead(json.dumps(to_plain(asset)))
    try:
        return int(context.parallelize([0], 1).mapPartitions(task).sum())
    except (Py4JError, PySparkException) as error:
        raise PolledReadError(cause_of(error)) from error
