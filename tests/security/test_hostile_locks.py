"""Packages of a lock that attack: what a wheel contains neither leaves its place nor replaces."""

import hashlib
import io
import json
import socket
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from narthex._ir.code import LockedPackage, environment_name
from narthex._runtime.environments import BuildFailedError, PackageSource, build, is_built
from narthex._runtime.environments.build_process import Order
from narthex._runtime.environments.shadowing import shadowed_modules
from narthex._runtime.environments.wheel_files import Room, WheelRefusedError, unpack
from narthex._sdk.closure.lock_lines import parse_lock
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


def test_the_directories_of_a_wheel_are_bounded_as_its_files_are(tmp_path: Path) -> None:
    """50,000 files in 1,000 directories each would take all inodes of a disk."""
    deep = "/".join(["d"] * 300)
    files = {f"x{number}/{deep}/a.py": "" for number in range(4)}
    wheel = tiny_wheel(tmp_path / "wheels", "deep", "1.0", files)
    packages = tmp_path / "packages"
    packages.mkdir()

    with pytest.raises(WheelRefusedError, match="directories"):
        unpack(wheel.path, packages, Room(files=1_000))

    assert [*packages.iterdir()] == []


def sdist(wheels: Path, name: str, ran: Path) -> LockedPackage:
    """Write a source distribution whose build says that it ran."""
    setup = f"open({str(ran)!r}, 'w').close()\nimport setuptools\nsetuptools.setup(name={name!r})\n"
    told = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
    wheels.mkdir(parents=True, exist_ok=True)
    path = wheels / f"{name}-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for file, text in (("setup.py", setup), ("PKG-INFO", told)):
            info = tarfile.TarInfo(f"{name}-1.0/{file}")
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    digest = hashlib.sha256(path.read_bytes()).digest()
    return LockedPackage(distribution=name, version="1.0", hashes=(digest,))


def test_no_build_of_a_source_distribution_runs(tmp_path: Path) -> None:
    wheels, ran = tmp_path / "wheels", tmp_path / "environments" / "ran"
    ran.parent.mkdir()

    with pytest.raises(BuildFailedError, match=r"No matching distribution found for evil==1\.0"):
        build(
            (sdist(wheels, "evil", ran),),
            PackageSource(home=tmp_path, index=str(wheels), is_reduced=True),
        )

    assert not ran.exists()


def test_a_wheel_brings_no_package_that_the_lock_lacks(tmp_path: Path) -> None:
    """Neither by its needs, nor by an address in them."""
    tiny_wheel(tmp_path / "wheels", "other", "1.0", {"other.py": ""})
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.0)
        address = f"http://127.0.0.1:{server.getsockname()[1]}/third-1.0-py3-none-any.whl"
        wheel = tiny_wheel(
            tmp_path / "wheels",
            "needy",
            "1.0",
            {"needy.py": ""},
            requires=("other", f"third @ {address}"),
        )
        source = PackageSource(home=tmp_path, index=str(tmp_path / "wheels"))
        build((wheel.locked,), source)
        with pytest.raises(BlockingIOError):
            server.accept()

    place = tmp_path / "environments" / environment_name((wheel.locked,)) / "site-packages"
    assert {one.name for one in place.iterdir()} == {
        "needy.py",
        "needy-1.0.dist-info",
        "__pycache__",
    }


def test_a_build_reads_no_settings_that_an_author_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither those of the working directory and the account, nor variables."""
    project = tmp_path / "project"
    project.mkdir()
    hostile = "[global]\nno-binary = :all:\nindex-url = http://127.0.0.1:9/evil\n"
    for path in ("pip.conf", ".config/pip/pip.conf", ".pip/pip.conf"):
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text(hostile)
    (project / "uv.toml").write_text('index-url = "http://127.0.0.1:9/evil"\n')
    (project / "sitecustomize.py").write_text("import os; os._exit(3)\n")
    monkeypatch.chdir(project)
    for name, value in {
        "HOME": str(project),
        "XDG_CONFIG_HOME": str(project / ".config"),
        "PYTHONPATH": str(project),
        "PIP_CONFIG_FILE": str(project / "pip.conf"),
        "PIP_INDEX_URL": "http://127.0.0.1:9/evil",
        "PIP_NO_BINARY": ":all:",
    }.items():
        monkeypatch.setenv(name, value)
    wheel = tiny_wheel(tmp_path / "wheels", "plain", "1.0", {"plain.py": ""})

    build((wheel.locked,), PackageSource(home=tmp_path, index=str(tmp_path / "wheels")))

    assert is_built((wheel.locked,), tmp_path)


HOSTILE_LINES = [
    "--index-url http://127.0.0.1:9/simple\n--extra-index-url http://127.0.0.1:9/evil",
    "--find-links /etc\n--index-url http://127.0.0.1:9/simple",
    "--trusted-host 127.0.0.1",
    "--no-binary :all:",
    "--pre",
    "-r ../other.txt",
    "--requirement other.txt",
    "-c other.txt",
    "-e .",
    "--editable=git+https://example.com/x.git#egg=x",
    ".",
    "../x",
    "./x-1.0-py3-none-any.whl",
    "~/x",
    "file:///etc/passwd",
    "git+ssh://git@example.com/x.git",
    "x @ https://example.com/x-1.0-py3-none-any.whl --hash=sha256:{0}",
    "x@https://example.com/x.whl --hash=sha256:{0}",
    "x==1.0 @ file:///etc --hash=sha256:{0}",
    "x==1.0; sys_platform == 'linux' --hash=sha256:{0}",
    "x==1.0 --hash=sha256:{0} ; python_version > '3'",
    "x==1.* --hash=sha256:{0}",
    "x===1.0 --hash=sha256:{0}",
    "x>=1.0 --hash=sha256:{0}",
    "x==1.0,<2 --hash=sha256:{0}",
    "x==1.0",
    "x==1.0 --hash=md5:d41d8cd98f00b204e9800998ecf8427e",
    "x==1.0 --hash=sha256:{0} --index-url http://127.0.0.1:9/evil",
    "x==1.0 --hash=sha256:{0} --global-option=build",
    "x==1.0 --hash=sha256:{0} --config-settings=a=b",
    "x==1.0 \\\n  --hash=sha256:{0} \\\n  --index-url=http://127.0.0.1:9/evil",
    "x==1.0 --hash=sha256:{0} \\\ny==1.0 --hash=sha256:{0}",
    "x==1.0\u2028--index-url http://127.0.0.1:9/evil --hash=sha256:{0}",
    "x==1.0\x0b--pre --hash=sha256:{0}",
    "x==1.0\x85-e . --hash=sha256:{0}",
    "x==${{HOME}} --hash=sha256:{0}",
    "x==1.0/../../y --hash=sha256:{0}",
    "../x==1.0 --hash=sha256:{0}",
    "x[a,b @ file:///x]==1.0 --hash=sha256:{0}",
    "x==1.0 --hash=sha256:{0}0",
]


def test_a_line_that_is_more_than_a_package_is_refused() -> None:
    digest = hashlib.sha256(b"").hexdigest()
    taken = [
        line
        for line in HOSTILE_LINES
        if not parse_lock(line.format(digest), "requirements.lock").errors
    ]

    assert taken == []


def test_a_received_package_is_never_a_line_with_more_in_it() -> None:
    """A client of an attacker's own sends packages without the checks of the project's lock."""
    digest = hashlib.sha256(b"").digest()
    changes: list[dict[str, Any]] = [
        {"distribution": "x\n--index-url http://127.0.0.1:9/evil"},
        {"distribution": "../x"},
        {"distribution": "-r"},
        {"distribution": "x @ file:///etc/passwd"},
        {"version": "1.0\n-e ."},
        {"version": "1.0 --index-url=http://127.0.0.1:9/evil"},
        {"version": "1.0; python_version > '3'"},
        {"version": "*"},
        {"version": "1.0\\\n"},
        {"version": "1.0\u2028--pre"},
        {"hashes": ()},
        {"hashes": (b"\n--pre" + bytes(26),) * 2},
        {"hashes": (bytes(31),)},
    ]
    parts: dict[str, Any] = {"distribution": "x", "version": "1.0", "hashes": (digest,)}

    sound = [one for one in changes if LockedPackage(**(parts | one)).is_well_formed]

    assert LockedPackage(**parts).is_well_formed
    assert sound == []
