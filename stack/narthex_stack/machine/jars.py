"""The jars of the Kafka broker and of Spark's connectors, each checked by its SHA-256.

They come from Maven Central, through the Ivy that Spark ships, into a cache that installations
share. The committed list `jars.sha256` decides: a jar that is not on it, or differs from it, is
never put on a class path.
"""

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import resources
from pathlib import Path

import attrs

from narthex._base import atomic_create
from narthex_stack.errors import JarRefusedError, JarsUnreachableError
from narthex_stack.machine.java import java_home

FETCH_TIMEOUT_S = 900.0

_SETTINGS = """<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true"/></resolvers>
</ivysettings>
"""


@attrs.frozen(kw_only=True)
class Coordinate:
    """One dependency on Maven Central."""

    organisation: str
    name: str
    revision: str


@attrs.frozen(kw_only=True)
class JarSet:
    """The jars of one class path.

    Attributes:
        name: The directory in the cache, and the prefix in the committed list.
        roots: The requested dependencies.
        conf: Ivy's mapping; the broker needs its transitive dependencies, a connector does not.
        is_transitive: Whether the dependencies of the roots are included.
    """

    name: str
    roots: tuple[Coordinate, ...]
    conf: str
    is_transitive: bool


def _of(text: str) -> Coordinate:
    organisation, name, revision = text.split(":")
    return Coordinate(organisation=organisation, name=name, revision=revision)


BROKER = JarSet(
    name="kafka",
    roots=(
        _of("org.apache.kafka:kafka_2.13:4.3.0"),
        _of("org.apache.kafka:kafka-tools:4.3.0"),
        _of("org.apache.logging.log4j:log4j-slf4j-impl:2.24.3"),
    ),
    conf="default(runtime)",
    is_transitive=True,
)

# Maven Central lacks some of Spark's newest connectors; this combination works on 4.3.0.
CONNECTORS = JarSet(
    name="spark",
    roots=(
        _of("org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"),
        _of("org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0"),
        _of("org.apache.kafka:kafka-clients:3.9.2"),
        _of("org.apache.commons:commons-pool2:2.13.1"),
        _of("org.apache.spark:spark-avro_2.13:4.1.1"),
    ),
    conf="default",
    is_transitive=False,
)


def cache_dir(environment: Mapping[str, str] | None = None) -> Path:
    """Return the cache that installations share: `NARTHEX_CACHE`, else `~/.cache/narthex`."""
    named = (os.environ if environment is None else environment).get("NARTHEX_CACHE")
    return Path(named) if named else Path.home() / ".cache" / "narthex"


def parse_list(text: str) -> dict[str, str]:
    """Parse lines `<sha256>  <set>/<jar>` into checksums by name."""
    pairs = (line.split() for line in text.splitlines() if line.strip())
    return {name: digest for digest, name in pairs}


def committed(jars: JarSet) -> dict[str, str]:
    """Return the checksums of the jars of a set, by file name."""
    text = resources.files("narthex_stack").joinpath("jars.sha256").read_text()
    prefix = f"{jars.name}/"
    return {
        name.removeprefix(prefix): digest
        for name, digest in parse_list(text).items()
        if name.startswith(prefix)
    }


def check(directory: Path, *, expected: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the jars that are missing from a directory.

    Raises:
        JarRefusedError: A jar differs from the list, or is not on it.
    """
    present = {path.name: path for path in sorted(directory.glob("*.jar"))}
    unknown = sorted(present.keys() - expected.keys())
    if unknown:
        raise JarRefusedError(f"`{directory / unknown[0]}` is not on the committed list of jars")
    for name, path in present.items():
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        if found != expected[name]:
            raise JarRefusedError(
                f"`{path}` has the SHA-256 {found}, expected {expected[name]}; "
                "delete it, and the next start downloads it again"
            )
    return tuple(sorted(expected.keys() - present.keys()))


def resolve(jars: JarSet, *, cache: Path | None = None) -> Path:
    """Return the directory with exactly the jars of a set; fetch them if needed.

    Several processes may call it at once: one fetches, the others wait.

    Raises:
        JarRefusedError: A jar, cached or fetched, differs from the list.
        JarsUnreachableError: The jars could not be fetched.
    """
    root = cache or cache_dir()
    directory = root / "jars" / jars.name
    expected = committed(jars)
    with one_at_a_time(root / "jars" / f".{jars.name}.lock"):
        if check(directory, expected=expected):
            _fetch(jars, directory=directory, cache=root, expected=expected)
    return directory


@contextmanager
def one_at_a_time(path: Path) -> Iterator[None]:
    """Admit one process at a time; the others wait. The lock file is not removed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(jars: JarSet, *, directory: Path, cache: Path, expected: Mapping[str, str]) -> None:
    """Fetch a set into a temporary directory, check it there, then move each jar in."""
    (cache / "ivy").mkdir(parents=True, exist_ok=True)
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache / "jars") as name:
        work = Path(name)
        atomic_create(work / "ivy.xml", ivy_module(jars))
        atomic_create(work / "settings.xml", _SETTINGS)
        done = subprocess.run(
            _ivy_command(work, jars=jars, cache=cache),
            capture_output=True,
            text=True,
            timeout=FETCH_TIMEOUT_S,
            check=False,
        )
        missing = check(work / "jars", expected=expected)
        if missing:
            output = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
            raise JarsUnreachableError(
                f"could not fetch {', '.join(missing[:3])} and {len(missing)} in all from Maven "
                f"Central:\n{output}"
            )
        for jar in (work / "jars").glob("*.jar"):
            shutil.move(jar, directory / jar.name)


def _ivy_command(work: Path, *, jars: JarSet, cache: Path) -> tuple[str, ...]:
    return (
        str(java_home(cache=cache) / "bin" / "java"),
        *proxy_options(os.environ),
        "-cp",
        str(_ivy_jar()),
        "org.apache.ivy.Main",
        *("-settings", str(work / "settings.xml")),
        # A cache of our own: another tool's may have a POM without its jar.
        *("-cache", str(cache / "ivy")),
        *("-ivy", str(work / "ivy.xml"), "-confs", jars.name),
        *("-retrieve", str(work / "jars" / "[artifact]-[revision](-[classifier]).[ext]")),
        *("-types", "jar", "bundle"),
    )


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    places = spec.submodule_search_locations if spec else None
    for place in places or ():
        for jar in Path(place, "jars").glob("ivy-*.jar"):
            return jar
    raise JarsUnreachableError("`pyspark` is not installed, and with it comes the Ivy we use")


def proxy_options(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Render the proxy of the environment as Java's own options; empty if none is set."""
    named = environment.get("https_proxy") or environment.get("HTTPS_PROXY") or ""
    address = named.partition("://")[2].rpartition("@")[2].rstrip("/")
    host, _, port = address.partition(":")
    if not host:
        return ()
    return tuple(
        f"-D{scheme}.proxy{part}={value}"
        for scheme in ("http", "https")
        for part, value in (("Host", host), ("Port", port or "80"))
    )


def ivy_module(jars: JarSet) -> str:
    """Render the Ivy module whose dependencies are the roots of a set."""
    dependencies = "\n".join(
        f'    <dependency org="{root.organisation}" name="{root.name}" rev="{root.revision}" '
        f'conf="{jars.name}->{jars.conf}" transitive="{str(jars.is_transitive).lower()}"/>'
        for root in jars.roots
    )
    return f"""<ivy-module version="2.0">
  <info organisation="narthex" module="{jars.name}"/>
  <configurations><conf name="{jars.name}"/></configurations>
  <dependencies>
{dependencies}
  </dependencies>
</ivy-module>
"""
