"""Environments of locks: built once and whole, and imported by the workers of their lock alone."""

import base64
import os
import re
import sysconfig
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import attrs
import markupsafe
import numpy as np
import pyarrow as pa
import pytest

from narthex._ir.code import LockedPackage, UserCode
from narthex._ir.schema import Column
from narthex._ir.types import Str
from narthex._runtime.environments import (
    BuildFailedError,
    PackageSource,
    build,
    environments_directory,
    is_built,
    note_use,
    packages_directory,
    remove,
    remove_leftovers,
    unused,
)
from narthex._runtime.environments.building import MOST_ENVIRONMENTS
from narthex._runtime.workers import Compartments, Limits, WorkerPool
from narthex.errors import SandboxUnavailable, UserCodeError
from tests.core.tiny_wheels import TinyWheel, tiny_wheel

NATIVE = Path(markupsafe.__file__).parent / f"_speedups{sysconfig.get_config_var('EXT_SUFFIX')}"
GIVEN = pa.table({"x": ["a"]})
GIVES = (Column("y", Str()),)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PackageSource]:
    home = tmp_path_factory.mktemp("home")
    (home / "secrets.key").write_text("secret", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NARTHEX_HOME", str(home))
        yield PackageSource(home=home, index=str(home.parent / f"{home.name}-wheels"))


@pytest.fixture(scope="module")
def prices(source: PackageSource) -> TinyWheel:
    """Return a package that is built, with a module of Python, a native one and a `.pth` file."""
    files = {
        "tiny_prices/__init__.py": "from tiny_prices._speedups import _escape_inner\nRATE = 7\n",
        f"tiny_prices/{NATIVE.name}": NATIVE.read_bytes(),
        "tiny_prices.pth": "import os; os._exit(3)\n",
        "sitecustomize.py": "import os\nos._exit(3)\n",
    }
    found = tiny_wheel(Path(source.index), "tiny-prices", "1.0", files)
    build((found.locked,), source)
    return found


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    with WorkerPool(1, Limits(call_timeout_s=20)) as found:
        yield found


def code(body: str, *locked: LockedPackage) -> UserCode:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    text = f"def f(df):\n{lines}    return df.assign(y=str(found))\n"
    return UserCode(entry="f", source=text, python="3.11", locked=locked)


def told(pool: WorkerPool, body: str, *locked: LockedPackage) -> str:
    made = pool.call(code(body, *locked), "transform", GIVEN, GIVES, title="`f`")
    return str(made.column(0).to_pylist()[0])


def test_workers_import_the_packages_of_the_lock_of_their_code(
    pool: WorkerPool, prices: TinyWheel
) -> None:
    body = "import tiny_prices\nfound = tiny_prices._escape_inner('<') + str(tiny_prices.RATE)"

    assert told(pool, body, prices.locked) == "&lt;7"
    with pytest.raises(UserCodeError, match="No module named 'tiny_prices'"):
        told(pool, body)


@contextmanager
def package_index(directory: Path, account: str) -> Iterator[int]:
    """Serve a directory over HTTP to one account; yield the port."""
    wanted = f"Basic {base64.b64encode(account.encode()).decode()}"

    class Handler(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.headers["Authorization"] == wanted:
                super().do_GET()
            else:
                self.send_response(HTTPStatus.UNAUTHORIZED)
                self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    serve = partial(Handler, directory=str(directory))
    with ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def test_an_index_over_http_serves_an_account(pool: WorkerPool, source: PackageSource) -> None:
    served = source.home.parent / f"{source.home.name}-served"
    wheel = tiny_wheel(served / "files", "tiny-served", "1.0", {"tiny_served.py": "RATE = 3\n"})
    page = served / "simple" / "tiny-served" / "index.html"
    page.parent.mkdir(parents=True)
    page.write_text(f'<a href="/files/{wheel.path.name}">{wheel.path.name}</a>')

    with package_index(served, "reader:open") as port:
        index = f"http://reader:{{}}@127.0.0.1:{port}/simple"
        with pytest.raises(BuildFailedError, match="tiny-served") as refused:
            build((wheel.locked,), attrs.evolve(source, index=index.format("shut")))
        build((wheel.locked,), attrs.evolve(source, index=index.format("open")))

    assert "shut" not in str(refused.value)
    assert told(pool, "import tiny_served\nfound = tiny_served.RATE", wheel.locked) == "3"


def test_workers_of_other_packages_are_other_processes(pool: WorkerPool, prices: TinyWheel) -> None:
    body = "import os\nfound = os.urandom(8).hex() if not hasattr(os, 'told') else os.told\n"
    body += "os.told = found"

    with_packages = [told(pool, body, prices.locked) for _ in range(2)]
    without = [told(pool, body) for _ in range(2)]

    assert with_packages[0] == with_packages[1]
    assert without[0] == without[1]
    assert with_packages[0] != without[0]


def test_compartments_share_no_worker_of_a_lock(prices: TinyWheel) -> None:
    body = "import os\nfound = hasattr(os, 'told')\nos.told = 1"
    with Compartments(3, Limits(call_timeout_s=20)) as found:
        heard = [
            found.compartment(branch)
            .call(code(body, *locked), "transform", GIVEN, GIVES, title="`f`")
            .column(0)
            .to_pylist()
            for branch, locked in [
                ("main", [prices.locked]),
                ("dev", [prices.locked]),
                ("main", []),
                ("main", [prices.locked]),
            ]
        ]
    assert heard == [["False"], ["False"], ["False"], ["True"]]


def test_the_libraries_of_the_platform_come_first(pool: WorkerPool, prices: TinyWheel) -> None:
    packages = told(pool, "import sys\nfound = sys.path[-1]", prices.locked)
    numpy = told(pool, "import numpy\nfound = numpy.__file__", prices.locked)

    assert packages == packages_directory(Path(packages).parent.name)
    assert numpy == np.__file__


def test_the_packages_are_all_that_the_sandbox_adds(
    source: PackageSource, pool: WorkerPool, prices: TinyWheel
) -> None:
    worker = code("import sys\nfound = 1", prices.locked)
    pool.call(worker, "transform", GIVEN, GIVES, title="`f`")
    place = Path(told(pool, "import sys\nfound = sys.path[-1]", prices.locked))
    body = (
        "import os\n"
        "found = []\n"
        "for path in {paths!r}:\n"
        "    try:\n"
        "        found.append(sorted(os.listdir(path)))\n"
        "    except OSError as error:\n"
        "        found.append(type(error).__name__)\n"
    )
    paths = [str(source.home), str(environments_directory(source.home)), source.index]
    seen = told(pool, body.format(paths=paths), prices.locked)
    assert "secret" not in seen
    assert ".whl" not in seen
    for path in (place / "tiny_prices" / "__init__.py", place / "new.py"):
        wrote = f"open({str(path)!r}, 'w')\nfound = 1"
        with pytest.raises(UserCodeError, match=r"Read-only|not permitted|denied"):
            told(pool, wrote, prices.locked)
    with pytest.raises(UserCodeError):
        told(pool, f"found = open({str(source.home / 'secrets.key')!r}).read()", prices.locked)
    assert (place / "tiny_prices" / "__init__.py").read_text("utf-8").endswith("RATE = 7\n")


@pytest.mark.usefixtures("source")
def test_code_whose_packages_are_not_there_does_not_run(pool: WorkerPool) -> None:
    absent = LockedPackage(distribution="absent", version="1.0", hashes=(b"x" * 32,))

    with pytest.raises(SandboxUnavailable, match="packages of its lock are not on this machine"):
        told(pool, "found = 1", absent)


@pytest.mark.usefixtures("prices")
def test_two_builds_at_once_leave_one_environment(source: PackageSource) -> None:
    twin = tiny_wheel(Path(source.index), "tiny-twin", "1.0", {"tiny_twin.py": "A = 1\n"}).locked
    before = {one.name for one in environments_directory(source.home).iterdir()}
    errors: list[Exception] = []

    def work() -> None:
        try:
            build((twin,), source)
        except Exception as error:  # noqa: BLE001 (shown below)
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    assert is_built((twin,), source.home)
    after = {one.name for one in environments_directory(source.home).iterdir()}
    assert len(after - before) == 1


def test_a_package_that_the_platform_supplies_is_not_installed(source: PackageSource) -> None:
    numpy = LockedPackage(distribution="numpy", version=np.__version__, hashes=(b"x" * 32,))
    build((numpy,), source)

    assert is_built((numpy,), source.home)


@pytest.mark.parametrize(
    ("locked", "why"),
    [
        (
            LockedPackage(distribution="tiny-prices", version="1.0", hashes=(b"x" * 32,)),
            "DO NOT MATCH|hash",
        ),
        (LockedPackage(distribution="tiny-source", version="1.0", hashes=(b"x" * 32,)), "tiny"),
    ],
)
@pytest.mark.usefixtures("prices")
def test_a_failed_build_leaves_nothing_and_reports_the_last_lines(
    source: PackageSource, locked: LockedPackage, why: str
) -> None:
    (Path(source.index) / "tiny_source-1.0.tar.gz").write_bytes(b"setup.py")
    before = sorted(environments_directory(source.home).iterdir())

    with pytest.raises(BuildFailedError) as caught:
        build((locked,), source)

    assert re.search(why, str(caught.value))
    assert not is_built((locked,), source.home)
    assert sorted(environments_directory(source.home).iterdir()) == before


def test_the_number_of_environments_is_bounded(tmp_path: Path) -> None:
    source = PackageSource(home=tmp_path, index=str(tmp_path))
    for number in range(MOST_ENVIRONMENTS):
        (environments_directory(tmp_path) / f"{number:064}").mkdir(parents=True)
    one = LockedPackage(distribution="one", version="1.0", hashes=(b"x" * 32,))

    with pytest.raises(BuildFailedError, match=f"there are {MOST_ENVIRONMENTS} environments"):
        build((one,), source)


def test_only_an_environment_that_was_not_used_for_long_is_removed(tmp_path: Path) -> None:
    old, used, kept = (f"{number:064}" for number in range(3))
    for name in (old, used, kept):
        aged(tmp_path, name)
    assert unused(tmp_path, since_s=500.0) == {old, used, kept}

    note_use(used, tmp_path)

    assert unused(tmp_path, since_s=500.0) == {old, kept}
    assert not remove(used, tmp_path, since_s=500.0)
    assert remove(old, tmp_path, since_s=500.0)
    assert not remove(old, tmp_path, since_s=500.0)
    assert {one.name for one in environments_directory(tmp_path).iterdir()} == {used, kept}


def test_an_environment_that_is_found_after_its_use_was_noted_stays(tmp_path: Path) -> None:
    """A process may note a use at any moment of the removal by another one."""
    for number in range(400):
        name = f"{number:064}"
        place = aged(tmp_path, name)
        both = threading.Barrier(2)
        with ThreadPoolExecutor(1) as other:
            is_found = other.submit(found_in_use, name, tmp_path, both)
            both.wait()
            is_gone = remove(name, tmp_path, since_s=500.0)

        assert place.is_dir() is not is_gone
        assert place.is_dir() or not is_found.result()


def test_the_rest_of_an_interrupted_removal_is_deleted(tmp_path: Path) -> None:
    begun, recent = aged(tmp_path, ".removed-1000-aa"), aged(tmp_path, f".removed-{2**40}-bb")

    remove_leftovers(tmp_path)

    assert unused(tmp_path, since_s=500.0) == frozenset()
    assert (begun.exists(), recent.exists()) == (False, True)


def found_in_use(name: str, home: Path, both: threading.Barrier) -> bool:
    both.wait()
    note_use(name, home)
    return (environments_directory(home) / name).is_dir()


def aged(home: Path, name: str) -> Path:
    """Make an environment that was last used long ago."""
    place = environments_directory(home) / name
    (place / "packages").mkdir(parents=True)
    (place / "packages" / "one.py").write_text("", encoding="utf-8")
    os.utime(place, (100.0, 100.0))
    return place
