"""The operator's properties of Spark, and the secret that a cluster's processes share."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from narthex.settings import Settings

_LINE = re.compile(r"([^\s=:]+)(?:\s*[=:]\s*|\s+)(.+)")

_OURS: Final = {
    "spark.master": "set `NARTHEX_SPARK_MASTER` instead",
    "spark.authenticate.secret": "store it in the file that `NARTHEX_SPARK_SECRET_FILE` names",
    "spark.ui.enabled": "set `NARTHEX_SPARK_UI_PORT` instead",
    "spark.ui.port": "set `NARTHEX_SPARK_UI_PORT` instead",
    "spark.python.daemon.module": "the platform has its own daemon of Python workers",
    "spark.sql.session.timeZone": "results depend on it",
    "spark.sql.ansi.enabled": "results depend on it",
    "spark.sql.json.enableExactStringParsing": "results depend on it",
}
"""The properties that a file may not set, and why or what to do."""

_JOINED: Final = {
    "spark.driver.extraJavaOptions": " ",
    "spark.executor.extraJavaOptions": " ",
    "spark.driver.extraClassPath": ":",
    "spark.executor.extraClassPath": ":",
    "spark.jars": ",",
}
"""The properties that are lists: a file adds to ours, after this separator."""


class SparkConfigurationError(RuntimeError):
    """The configuration of Spark is missing or wrong; the message has the remedy."""


def read_properties(path: str) -> dict[str, str]:
    """Read a file in the format of `spark-defaults.conf`; an empty path is an empty file.

    Raises:
        SparkConfigurationError: The file cannot be read, has a line without a value, or sets a
            property that is the platform's own.
    """
    if not path:
        return {}
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise SparkConfigurationError(f"`NARTHEX_SPARK_CONF`: {error}") from error
    properties: dict[str, str] = {}
    for number, line in enumerate(map(str.strip, lines), start=1):
        if not line or line.startswith(("#", "!")):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise SparkConfigurationError(
                f"`{path}`, line {number}: `{line}` has no value; write `name value`"
            )
        name, value = match.groups()
        if name in _OURS:
            raise SparkConfigurationError(
                f"`{path}`, line {number}: `{name}` may not be set; {_OURS[name]}"
            )
        properties[name] = value
    return properties


def operator_properties(
    settings: Settings, submitted: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the operator's properties: those that `spark-submit` was given, and those of the file.

    Raises:
        SparkConfigurationError: The file has a fault.
    """
    given = {
        name: value
        for name, value in (submitted or {}).items()
        if name not in _OURS and name not in _JOINED
    }
    return given | read_properties(settings.spark_conf)


def with_properties(ours: Mapping[str, str], theirs: Mapping[str, str]) -> dict[str, str]:
    """Return our properties with those of the operator, which win; lists are joined."""
    joined = {
        name: f"{ours[name]}{_JOINED[name]}{value}"
        for name, value in theirs.items()
        if name in _JOINED and ours.get(name)
    }
    return {**ours, **theirs, **joined}


def cluster_secret(settings: Settings, submitted: Mapping[str, str] | None = None) -> str:
    """Return the secret that the processes of a standalone cluster share; elsewhere empty.

    YARN and Kubernetes give each application a secret by themselves.

    Raises:
        SparkConfigurationError: The secret is missing, or readable by others.
    """
    if not settings.spark_master.startswith("spark://"):
        return ""
    if operator_properties(settings, submitted).get("spark.authenticate") == "false":
        return ""
    if not settings.spark_secret_file:
        raise SparkConfigurationError(
            f"`{settings.spark_master}` needs the secret of its master and workers; store it in a "
            "file and set `NARTHEX_SPARK_SECRET_FILE` to its path"
        )
    path = Path(settings.spark_secret_file)
    try:
        mode, secret = path.stat().st_mode, path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise SparkConfigurationError(f"`NARTHEX_SPARK_SECRET_FILE`: {error}") from error
    if mode & 0o077:
        raise SparkConfigurationError(f"`{path}` is readable by others; run `chmod 600 {path}`")
    if not secret:
        raise SparkConfigurationError(f"`{path}` is empty; store the secret of the cluster in it")
    return secret


def require_configured(settings: Settings, submitted: Mapping[str, str] | None = None) -> None:
    """Check everything that the start of Spark needs, without starting it.

    Args:
        settings: The settings, with the master.
        submitted: The properties that `spark-submit` was given.

    Raises:
        SparkConfigurationError: Something is missing or wrong.
    """
    properties = operator_properties(settings, submitted)
    cluster_secret(settings, submitted)
    if not settings.has_local_spark and not properties.get("spark.driver.host"):
        raise SparkConfigurationError(
            f"`{settings.spark_master}` is a cluster, whose executors connect to the driver; name "
            "the driver's host by `spark.driver.host` in the file of `NARTHEX_SPARK_CONF`"
        )
