"""Packages of a lock that attack: what a wheel contains neither leaves its place nor replaces."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from narthex._runtime.environments import BuildFailedError, PackageSource, build
from narthex._runtime.environments.build_process import Order
from narthex._runtime.environments.shadowing import shadowed_modules
from narthex._runtime.environments.wheel_files import Room, WheelRefusedError, unpack
from tests.core.tiny_wheels import tiny_wheel


@pytest.mark.parametrize(
    "path",
    [
        "../outside.py",
        "a/../../outside.py",
        "/tmp/outside.py",
        "a//b.py",
        "./a.py",
        "a\\..\\b.py",
        "a\nb.py",
        "C:/a.py",
        "x-1.0.data/purelib/../../outside.py",
        "x-1.0.data/purelib//outside.py",
    ],
)
def test_a_path_that_leaves_the_environment_is_refused(tmp_path: Path, path: str) -> None:
    wheel = tiny_wheel(tmp_path / "wheels", "bad", "1.0", {path: "A = 1\n"})
    target = tmp_path / "deep" / "packages"
    target.mkdir(parents=True)

    with pytest.raises(WheelRefusedError, match="has a file with the path"):
        unpack(wheel.path, target, Room())

    assert [*tmp_path.rglob("outside.py")] == []


@pytest.mark.parametrize("target", ["/etc/passwd", "../../secrets.key", "here.py"])
def test_a_link_is_refused(tmp_path: Path, target: str) -> None:
    wheel = tiny_wheel(tmp_path / "wheels", "bad", "1.0", {}, links={"bad/link.py": target})
    packages = tmp_path / "packages"
    packages.mkdir()

    with pytest.raises(WheelRefusedError, match="not a regular file"):
        unpack(wheel.path, packages, Room())


def test_a_wheel_that_grows_beyond_its_bound_is_refused_before_it_is_written(
    tmp_path: Path,
) -> None:
    wheel = tiny_wheel(tmp_path / "wheels", "bomb", "1.0", {"bomb.bin": bytes(10 << 20)})
    assert wheel.path.stat().st_size < 1 << 17
    packages = tmp_path / "packages"
    packages.mkdir()

    with pytest.raises(WheelRefusedError, match="more than"):
        unpack(wheel.path, packages, Room(bytes=5 << 20))
    with pytest.raises(WheelRefusedError, match="more than"):
        unpack(wheel.path, packages, Room(files=2))

    assert not (packages / "bomb.bin").exists()


def test_a_size_that_is_understated_is_found(tmp_path: Path) -> None:
    wheel = tiny_wheel(tmp_path / "wheels", "liar", "1.0", {"liar.bin": bytes(1 << 20)})
    content = wheel.path.read_bytes()
    size = (1 << 20).to_bytes(4, "little")
    wheel.path.write_bytes(content.replace(size, (1 << 10).to_bytes(4, "little")))
    packages = tmp_path / "packages"
    packages.mkdir()

    with pytest.raises(WheelRefusedError, match="cannot be unpacked"):
        unpack(wheel.path, packages, Room(bytes=1 << 19))


@pytest.mark.parametrize("content", [b"", b"PK", b"no wheel", bytes(4096)])
def test_a_file_that_is_not_a_wheel_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bad.whl").write_bytes(content)

    with pytest.raises(WheelRefusedError, match="cannot be unpacked"):
        unpack(tmp_path / "bad.whl", tmp_path, Room())


def test_only_modules_and_metadata_are_written(tmp_path: Path) -> None:
    files = {
        "good.py": "A = 1\n",
        "good.pth": "import os; os._exit(3)\n",
        "good-1.0.data/purelib/more.py": "B = 1\n",
        "good-1.0.data/platlib/most.py": "C = 1\n",
        "good-1.0.data/scripts/run": "#!python\n",
        "good-1.0.data/data/etc/passwd": "root\n",
        "good-1.0.data/purelib/late.pth": "import os\n",
    }
    wheel = tiny_wheel(tmp_path / "wheels", "good", "1.0", files)
    packages = tmp_path / "packages"
    packages.mkdir()

    unpack(wheel.path, packages, Room())

    assert {one.name for one in packages.iterdir()} == {
        "good.py",
        "more.py",
        "most.py",
        "good-1.0.dist-info",
    }


def test_modules_that_the_platform_has_are_found(tmp_path: Path) -> None:
    libraries, packages = tmp_path / "libraries", tmp_path / "packages"
    for above, paths in (
        (libraries, ["whole/__init__.py", "parts/ours.py", "taken/theirs.py", "tests/__init__.py"]),
        (
            packages,
            [
                "whole/other.py",
                "parts/more.py",
                "taken/__init__.py",
                "tests/__init__.py",
                "json/__init__.py",
                "typing.py",
                "narthex/__init__.py",
                "narthex_server.py",
                "fine.py",
                "fine-1.0.dist-info/METADATA",
            ],
        ),
    ):
        for path in paths:
            (above / path).parent.mkdir(parents=True, exist_ok=True)
            (above / path).touch()

    found = [*shadowed_modules(packages, [str(libraries)])]

    assert found == ["json", "narthex", "narthex_server", "taken", "typing", "whole"]


def test_a_package_that_replaces_numpy_is_not_installed(tmp_path: Path) -> None:
    wheel = tiny_wheel(
        tmp_path / "wheels", "not-numpy", "1.0", {"numpy/__init__.py": "", "json.py": ""}
    )
    source = PackageSource(home=tmp_path, index=str(tmp_path / "wheels"))

    with pytest.raises(BuildFailedError, match="'json', 'numpy', which Python or the platform"):
        build((wheel.locked,), source)

    assert [*(tmp_path / "environments").iterdir()] == []


CONFINED = """
import json, socket, sys
from narthex._runtime.environments.build_process import Order, _confine
order = Order(**json.loads(sys.argv[1]))
_confine(order)
found = {}
def tried(name, work):
    try:
        work()
        found[name] = "done"
    except OSError as error:
        found[name] = type(error).__name__
home, address = sys.argv[2], int(sys.argv[3])
tried("key", lambda: open(home + "/secrets.key").read())
tried("write", lambda: open(home + "/new", "w"))
tried("own", lambda: open(order.directory + "/new", "w"))
tried("wheels", lambda: __import__("os").listdir(order.index))
tried("network", lambda: socket.create_connection(("127.0.0.1", address), timeout=5))
print(json.dumps(found))
"""


@pytest.mark.parametrize("has_index", [False, True])
def test_a_build_reads_no_file_of_the_installation(tmp_path: Path, has_index: bool) -> None:
    import socket  # noqa: PLC0415

    (tmp_path / "secrets.key").write_text("secret", encoding="utf-8")
    own, wheels = tmp_path / "environments" / "own", tmp_path / "wheels"
    own.mkdir(parents=True)
    wheels.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as server:
        index = f"http://127.0.0.1:{server.getsockname()[1]}/simple" if has_index else str(wheels)
        order = Order(lock="", index=index, directory=str(own))
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                CONFINED,
                json.dumps(
                    {"lock": order.lock, "index": order.index, "directory": order.directory}
                ),
                str(tmp_path),
                str(server.getsockname()[1]),
            ],
            capture_output=True,
            text=True,
            check=True,
        )
    found = json.loads(done.stdout)

    assert found["key"] == "PermissionError"
    assert found["write"] == "PermissionError"
    assert found["own"] == "done"
    if has_index:
        assert found["network"] == "done"
    else:
        assert (found["wheels"], found["network"]) == ("done", "PermissionError")


def test_credentials_of_the_index_are_in_no_error(tmp_path: Path) -> None:
    wheel = tiny_wheel(tmp_path / "wheels", "absent", "1.0", {})
    source = PackageSource(home=tmp_path, index="http://me:hidden@127.0.0.1:9/simple")

    with pytest.raises(BuildFailedError) as caught:
        build((wheel.locked,), source)

    assert "absent" in str(caught.value)
    assert "hidden" not in str(caught.value)
    assert "hidden" not in repr(source)


def test_the_wheels_of_these_tests_are_wheels(tmp_path: Path) -> None:
    wheel = tiny_wheel(tmp_path, "good", "1.0", {"good.py": ""})

    assert zipfile.ZipFile(wheel.path).testzip() is None
