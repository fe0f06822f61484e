"""Code of an author that tries to leave its worker: each attempt is refused, the worker goes on."""

import contextlib
import json
import os
import platform
import select
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from narthex._ir.types import Str
from narthex._runtime.confinement import LAYERS
from narthex._runtime.workers import Limits, SandboxIncompleteError, WorkerPool
from narthex.errors import SandboxUnavailable, UserCodeError
from narthex.settings import NotInstalledError
from narthex_stack.errors import BadConfigError
from narthex_stack.install.config import parse_config
from tests.security import ordinary_user
from tests.security.attacks import ATTACKS, Attack, extractor, filled

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="the attacks have the numbers of x86_64"
)
"""The filter of other machines is judged in `test_seccomp_filter.py`."""


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    with WorkerPool(1, Limits(call_timeout_s=20)) as found:
        yield found


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("home")
    for name in ("services.json", "signing.key"):
        (found / name).write_text("a secret")
        (found / name).chmod(0o644)
    return found


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda one: one.name)
def test_an_attack_is_refused(attack: Attack, pool: WorkerPool, home: Path) -> None:
    with pytest.raises(UserCodeError) as caught:
        extractor(pool, filled(attack, home))

    assert attack.is_refused(caught.value.message), caught.value.message
    assert extractor(pool, "return x") == [1, 2]


def test_a_fork_bomb_starts_nothing(pool: WorkerPool) -> None:
    body = (
        "made = 0\n"
        "for _ in range(1000):\n"
        "    try:\n"
        "        made += os.fork() >= 0\n"
        "    except OSError:\n"
        "        pass\n"
        "return x * 0 + made"
    )

    assert extractor(pool, body) == [0, 0]


def test_threads_do_not_start(pool: WorkerPool) -> None:
    with pytest.raises(UserCodeError, match="can't start new thread"):
        extractor(pool, "import threading\nthreading.Thread(target=print).start()\nreturn x")

    assert extractor(pool, "return x") == [1, 2]


@pytest.mark.parametrize(
    "body", ["bytearray(64 << 30)", "call(9, 0, 64 << 30, 3, 0x22, -1, 0)", "[0] * (8 << 30)"]
)
def test_memory_is_bounded(body: str, pool: WorkerPool) -> None:
    with pytest.raises(UserCodeError, match=r"MemoryError|Refused: ENOMEM"):
        extractor(pool, f"{body}\nreturn x")

    assert extractor(pool, "return x") == [1, 2]


def test_it_has_its_pipes_and_no_other_descriptor() -> None:
    inherited = os.open("/etc/passwd", os.O_RDONLY)
    os.set_inheritable(inherited, True)
    try:
        with WorkerPool(1) as fresh:
            kinds = extractor(fresh, _DESCRIPTORS, Str())
    finally:
        os.close(inherited)

    # The standard three are the null device; two are pipes: questions come in, answers go out.
    assert kinds[0] == "0chr chr chr fifo fifo"


_DESCRIPTORS = """
import stat
kinds = []
for place in range(0, 2000):
    try:
        mode = os.fstat(place).st_mode
    except OSError:
        continue
    kinds.append({0o010000: 'fifo', 0o020000: 'chr'}.get(stat.S_IFMT(mode), 'other'))
return (x * 0).astype('string') + ' '.join(kinds)
"""


def test_it_has_no_environment_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NARTHEX_TOKEN", "secret")
    with WorkerPool(1) as fresh:
        names = extractor(
            fresh, "return (x * 0).astype('string') + ','.join(sorted(os.environ))", Str()
        )

    allowed = {"LANG", "LC_ALL", "PYTHONHASHSEED", "TZ", "OPENBLAS_NUM_THREADS"}
    allowed |= {
        "OMP_NUM_THREADS",
        "MKL_NUM_THREADS",
        "ARROW_DEFAULT_MEMORY_POOL",
        "JE_ARROW_MALLOC_CONF",
        "LC_CTYPE",
    }
    assert set(str(names[0]).removeprefix("0").split(",")) <= allowed


def test_a_worker_is_the_only_process_of_an_unprivileged_account(pool: WorkerPool) -> None:
    body = (
        "import json\n"
        "seen = [os.getuid(), os.getgid(), os.getpid(), os.getppid(), os.uname().nodename]\n"
        "return (x * 0).astype('string') + json.dumps(seen)"
    )

    assert extractor(pool, body, Str())[0] == '0[65534, 65534, 1, 0, "worker"]'


@pytest.mark.parametrize(
    "body",
    [
        "import numpy as np\nnp.linalg.svd(np.random.default_rng(0).random((64, 64)))",
        "import numpy as np\nnp.linalg.inv(np.eye(50)); np.fft.fft(np.arange(64))",
        "import pandas as pd\npd.Series([1, 2]).rolling(2).mean()",
        "import pandas as pd\npd.to_datetime(['2024-03-31'], utc=True).tz_convert('Europe/Berlin')",
        "import zoneinfo\nzoneinfo.ZoneInfo('America/New_York')",
        "import pyarrow.compute as pc, pyarrow as pa\npc.sum(pc.multiply(pa.array([1, 2]), 2))",
        (
            "import pyarrow as pa\nt = pa.table({'a': [1, 1]}).group_by('a', use_threads=False)\n"
            "t.aggregate([('a', 'sum')])"
        ),
        "import re, json, decimal, statistics, fractions, hashlib, uuid, base64, datetime, math",
        "import decimal\ndecimal.Decimal(2).sqrt()",
        "import uuid\nuuid.uuid4()",
        "import time\ntime.sleep(0.001); time.monotonic(); time.time()",
        "import collections, itertools, functools, heapq, bisect, string, textwrap, difflib",
        "import unicodedata, html, urllib.parse, ipaddress, calendar, colorsys, csv, io, zlib",
        "import tempfile\nimport logging\nlogging.getLogger('x').info('x')",
    ],
)
def test_computing_works(body: str, pool: WorkerPool) -> None:
    assert extractor(pool, f"{body}\nreturn x") == [1, 2]


def test_an_ordinary_account_has_the_same_sandbox(home: Path) -> None:
    program = str(Path(__file__).with_name("sandboxed_attacks.py"))
    found = _as_an_ordinary_account([program, str(home)])

    said = found["said"]
    assert found["account"] == (ordinary_user.ACCOUNT if os.geteuid() == 0 else os.geteuid())
    assert found["missing"] == []
    # Without a user namespace, an account that is not root can leave nothing behind.
    assert found["reduced"] == [one for one in LAYERS if one.startswith("own_")]
    assert {one.name: said[one.name] for one in ATTACKS if not one.is_refused(said[one.name])} == {}


def _as_an_ordinary_account(arguments: list[str]) -> dict[str, Any]:
    needed = [sys.base_prefix, sys.prefix, str(Path(__file__).resolve().parents[2])]
    launcher = [str(Path(ordinary_user.__file__)), json.dumps(needed)]
    done = subprocess.run(
        [sys.executable, *(launcher if os.geteuid() == 0 else []), *arguments],
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("layer", LAYERS)
def test_a_missing_layer_stops_the_start(layer: str) -> None:
    with (
        WorkerPool(1, is_reduced=False, without=(layer,)) as pool,
        pytest.raises(SandboxUnavailable) as caught,
    ):
        extractor(pool, "return x")

    assert f"`{layer}` (it is switched off)" in caught.value.message
    assert "set `NARTHEX_SANDBOX=reduced`" in caught.value.message


def test_an_installation_may_accept_a_reduced_sandbox() -> None:
    with WorkerPool(1, is_reduced=True, without=("landlock", "own_user")) as pool:
        sandbox = pool.warm()

        assert sandbox.missing == ("own_user", "landlock")
        assert not sandbox.is_complete
        assert extractor(pool, "return x") == [1, 2]


ALONE = {
    "own_files": (("landlock", "seccomp"), "read('/etc/passwd')", "ENOENT"),
    "landlock": (("own_files", "seccomp"), "read('/etc/passwd')", "EACCES"),
    "own_processes": (("landlock", "seccomp"), "call(62, PARENT, 0)", "ESRCH"),
    "own_network": (
        ("landlock", "seccomp"),
        "call(42, call(41, 2, 1, 0), struct.pack('!HHI', 512, PORT, 0x7F000001) + bytes(8), 16)",
        "ENETUNREACH",
    ),
    "no_capabilities": (("landlock", "seccomp"), "call(170, b'gone', 4)", "EPERM"),
    "limits": (("landlock", "seccomp"), "call(57)", "EAGAIN"),
    "seccomp": (("landlock", "own_network"), "call(41, 2, 1, 0)", "EPERM"),
}


@pytest.mark.parametrize("layer", ALONE)
def test_a_layer_refuses_without_the_others(layer: str) -> None:
    without, body, refusal = ALONE[layer]
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        WorkerPool(1, is_reduced=True, without=without) as pool,
    ):
        filled_in = body.replace("PARENT", str(os.getpid()))
        filled_in = filled_in.replace("PORT", str(server.getsockname()[1]))
        filled_in = filled_in.replace("512", str(int.from_bytes(struct.pack("=H", 2), "big")))
        with pytest.raises(UserCodeError, match=f"Refused: {refusal}"):
            extractor(pool, f"{filled_in}\nreturn x")


def test_only_the_word_reduced_reduces_the_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NARTHEX_SANDBOX", "reduced")
    with WorkerPool(1, without=("landlock",)) as pool:
        assert pool.warm().missing == ("landlock",)

    monkeypatch.setenv("NARTHEX_SANDBOX", "full")
    with WorkerPool(1, without=("landlock",)) as pool, pytest.raises(SandboxIncompleteError):
        pool.warm()

    with pytest.raises(BadConfigError, match="`sandbox` is `off`"):
        parse_config('sandbox = "off"', {})
    assert parse_config("", {"NARTHEX_SANDBOX": "reduced"}).sandbox == "reduced"

    monkeypatch.setenv("NARTHEX_SANDBOX", "off")
    with pytest.raises(NotInstalledError, match="`NARTHEX_SANDBOX` is `off`"):
        WorkerPool(1)


POOL = (
    "import os, sys\n"
    "from narthex._runtime.workers import WorkerPool\n"
    "pool = WorkerPool(1)\n"
    "pool.warm()\n"
)
SAYS_READY = "print('ready', flush=True)\ninput()\n"


@contextlib.contextmanager
def program(text: str) -> Iterator[subprocess.Popen[str]]:
    """Run a program that has said `ready`."""
    with subprocess.Popen(
        [sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == "ready\n"
        yield started


def has_ended(process: int, *, within_s: float) -> bool:
    poll = select.poll()
    poll.register(process, select.POLLIN)
    return bool(poll.poll(within_s * 1000))


def test_a_worker_ends_with_the_process_that_started_it() -> None:
    with program(POOL + SAYS_READY) as starter:
        family = [os.pidfd_open(pid) for pid in _descendants(starter.pid)]
        assert len(family) == len(("template", "guard", "worker"))
        assert not any(has_ended(one, within_s=0) for one in family), "a worker ended early"
        starter.kill()
        for one in family:
            assert has_ended(one, within_s=10), "a worker outlived the process that started it"
            os.close(one)


def test_a_worker_ends_with_the_fork_that_asked_for_it() -> None:
    # The fork has the template of the process that it was forked from, which goes on.
    forked = POOL + (
        "forked = os.fork()\n"
        "if forked == 0:\n"
        "    pool = WorkerPool(1)\n"
        "    pool.warm()\n"
        "    print('ready', flush=True)\n"
        "input()\n"
    )
    with program(forked) as starter:
        template, fork = sorted(_children(starter.pid))
        workers = [pid for guard in _children(template) for pid in _children(guard)]
        ends = select.poll()
        for pid in workers:
            ends.register(os.pidfd_open(pid), select.POLLIN)
        assert len(workers) == 2

        os.kill(fork, signal.SIGKILL)

        assert len(ends.poll(10_000)) == 1
        assert len(list(filter(_is_running, workers))) == 1


def test_a_template_that_died_is_replaced() -> None:
    died = POOL + (
        "import signal, time\n"
        "from narthex._runtime.template import template\n"
        "first = template()\n"
        "os.kill(first._process.pid, signal.SIGKILL)\n"
        "first._process.wait()\n"
        "pool = WorkerPool(1)\n"
        "assert pool.warm().is_complete\n"
        "assert template() is not first\n"
    )
    with program(died + SAYS_READY) as starter:
        assert len(_descendants(starter.pid)) == len(("template", "guard", "worker"))


def test_workers_of_one_template_draw_different_numbers() -> None:
    body = (
        "import random, uuid\n"
        "import numpy as np\n"
        "drawn = [np.random.randint(1 << 40), random.getrandbits(40), uuid.uuid4().int >> 88]\n"
        "return x * 0 + drawn[PLACE]"
    )
    for place in range(3):
        drawn = []
        for _ in range(2):
            with WorkerPool(1) as one:
                drawn.append(extractor(one, body.replace("PLACE", str(place))))
        assert drawn[0] != drawn[1]


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _children(pid: int) -> list[int]:
    """Return the processes that a process started."""
    return [child for child, parent in _parents().items() if parent == pid]


def _descendants(pid: int) -> list[int]:
    """Return the processes that a process started, and those that they started."""
    return [one for child in _children(pid) for one in (child, *_descendants(child))]


def _parents() -> dict[int, int]:
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # a process may end while it is read
            fields = stat.read_text().rpartition(")")[2].split()
            parents[int(stat.parent.name)] = int(fields[1])
    return parents
