"""Attempts of author code to escape its worker: system calls by number.

`call` raises `Refused` with the name of the error that the kernel gave, so that a mistake in an
attack is not taken for a refusal. The numbers are those of x86_64.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs

from narthex._ir.code import UserCode
from narthex._ir.facts import Cell
from narthex._ir.schema import Column
from narthex._ir.types import DataType, Int
from narthex._runtime.workers import CodeCalls

PRELUDE: Final = """
import ctypes
import errno
import os
import struct

LIBC = ctypes.CDLL(None, use_errno=True)

class Refused(Exception):
    pass

def call(number, *arguments):
    given = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    LIBC.syscall.restype = ctypes.c_long
    result = LIBC.syscall(ctypes.c_long(number), *given)
    if result < 0:
        raise Refused(errno.errorcode[ctypes.get_errno()])
    return result

def opened(path, flags=0):
    return call(257, -100, path.encode(), flags, 0o600)

def read(path):
    place = opened(path)
    buffer = ctypes.create_string_buffer(64)
    if call(0, place, buffer, 64) > 0:
        raise SystemExit("IT READ " + path)

"""

WRITE: Final = 0o1
CREATE: Final = 0o101


@attrs.frozen
class Attack:
    """One attempt.

    Attributes:
        name: The attempt.
        body: Python; `PARENT` and `HOME` are filled in.
        refusals: The errors that count as a refusal.
    """

    name: str
    body: str
    refusals: tuple[str, ...] = ("EPERM", "EACCES", "ENOSYS")

    def is_refused(self, said: str) -> bool:
        """Whether the error of a call is a refusal of the kernel."""
        return any(f"failed: Refused: {name}" in said for name in self.refusals)


_HIDDEN: Final = ("EPERM", "EACCES", "ENOENT")


def _files() -> list[Attack]:
    paths = (
        "HOME/services.json",
        "HOME/signing.key",
        "/etc/passwd",
        "/etc/shadow",
        "/proc/PARENT/environ",
        "/proc/PARENT/maps",
        "/proc/self/environ",
        "/proc/1/cmdline",
        "/sys/kernel/mm/transparent_hugepage/enabled",
    )
    return [Attack(f"read {path}", f"read('{path}')", _HIDDEN) for path in paths]


def _writes() -> list[Attack]:
    flags = {"write": 0o1, "both": 0o2, "create": 0o101, "append": 0o2001, "temporary": 0o20200002}
    made = [
        Attack(f"open to {name}", f"call(2, b'/tmp/out', {flag}, 0o600)")
        for name, flag in flags.items()
    ]
    made += [
        Attack(f"openat to {name}", f"opened('/tmp/out', {flag})") for name, flag in flags.items()
    ]
    return [
        *made,
        Attack("openat2", "call(437, -100, b'/tmp/out', struct.pack('QQQ', 0o102, 0o600, 0), 24)"),
        Attack("creat", "call(85, b'/tmp/out', 0o600)"),
        Attack("truncate", "call(76, b'HOME/services.json', 0)"),
        Attack("ftruncate", "call(77, 1, 0)"),
        Attack("fallocate", "call(285, 1, 0, 0, 10)"),
        Attack("symlink", "call(88, b'/etc/passwd', b'/tmp/link')"),
        Attack("symlinkat", "call(266, b'/etc/passwd', -100, b'/tmp/link')"),
        Attack("link", "call(86, b'HOME/services.json', b'/tmp/link')"),
        Attack("linkat", "call(265, -100, b'HOME/services.json', -100, b'/tmp/link', 0)"),
        Attack("rename", "call(82, b'HOME/services.json', b'/tmp/gone')"),
        Attack("renameat2", "call(316, -100, b'HOME/services.json', -100, b'/tmp/gone', 0)"),
        Attack("unlink", "call(87, b'HOME/services.json')"),
        Attack("unlinkat", "call(263, -100, b'HOME/services.json', 0)"),
        Attack("mknod", "call(133, b'/tmp/node', 0o010600, 0)"),
        Attack("mknodat", "call(259, -100, b'/tmp/node', 0o010600, 0)"),
        Attack("mkdir", "call(83, b'/tmp/made', 0o700)"),
        Attack("mkdirat", "call(258, -100, b'/tmp/made', 0o700)"),
        Attack("chmod", "call(90, b'HOME/services.json', 0o777)"),
        Attack("fchmod", "call(91, opened(LIBRARY), 0o644)"),
        Attack("fchmodat", "call(268, -100, LIBRARY.encode(), 0o644)"),
        Attack("fchmodat2", "call(452, -100, LIBRARY.encode(), 0o644, 0)"),
        Attack("chown", "call(92, LIBRARY.encode(), 0, 0)"),
        Attack("fchownat", "call(260, -100, LIBRARY.encode(), 0, 0, 0)"),
        Attack("utimensat", "call(280, -100, LIBRARY.encode(), None, 0)"),
        Attack(
            "setxattr",
            "call(188, LIBRARY.encode(), b'security.capability', bytes(20), 20, 0)",
        ),
        Attack("fsetxattr", "call(190, opened(LIBRARY), b'security.capability', bytes(20), 20, 0)"),
        Attack("setxattrat", "call(463, -100, LIBRARY.encode(), 0, b'user.x', bytes(16), 16)"),
        Attack("lock a file", "call(73, opened(LIBRARY), 2)"),
        Attack("lease a file", "call(72, opened(LIBRARY), 1024, 0)"),
        Attack("watch files", "call(294, 0)"),
    ]


def _network() -> list[Attack]:
    address = "struct.pack('!HHI', 512, 22, 0x7F000001) + bytes(8)"
    return [
        *(
            Attack(f"a socket of family {family}", f"call(41, {family}, {kind}, 0)")
            for family in range(46)
            for kind in (1, 3)
        ),
        Attack("a pair of sockets", "call(53, 1, 1, 0, ctypes.create_string_buffer(8))"),
        Attack("connect", f"call(42, 0, {address}, 16)"),
        Attack("bind", f"call(49, 0, {address}, 16)"),
        Attack("sendto", f"call(44, 0, b'x', 1, 0, {address}, 16)"),
        Attack("recvmsg", "call(47, 0, bytes(56), 0)"),
    ]


def _processes() -> list[Attack]:
    vector = "ctypes.create_string_buffer(b'x', 8), 1"
    return [
        Attack("kill the parent", "call(62, PARENT, 0)"),
        Attack("kill all", "call(62, -1, 0)"),
        Attack("kill itself", "call(62, os.getpid(), 0)"),
        Attack("tgkill", "call(234, PARENT, PARENT, 0)"),
        Attack("tkill", "call(200, PARENT, 0)"),
        Attack("queue a signal", "call(129, PARENT, 0, bytes(128))"),
        Attack("pidfd_open", "call(434, PARENT, 0)"),
        Attack("pidfd_send_signal", "call(424, 0, 0, None, 0)"),
        Attack("pidfd_getfd", "call(438, 0, 0, 0)"),
        Attack("process_madvise", "call(440, 0, None, 0, 0, 0)"),
        Attack("ptrace", "call(101, 16, PARENT, 0, 0)"),
        Attack("process_vm_readv", f"call(310, PARENT, {vector}, {vector}, 0)"),
        Attack("process_vm_writev", f"call(311, PARENT, {vector}, {vector}, 0)"),
        Attack("kcmp", "call(312, PARENT, PARENT, 0, 0, 0)"),
        Attack("limits of the parent", "call(302, PARENT, 7, None, bytearray_of(16))"),
        Attack("own limits", "call(302, 0, 7, struct.pack('QQ', 9, 9), None)"),
        Attack("setrlimit", "call(160, 7, struct.pack('QQ', 9, 9))"),
        Attack("affinity of the parent", "call(203, PARENT, 8, struct.pack('Q', 1))"),
        Attack("own affinity", "call(203, 0, 8, struct.pack('Q', 1))"),
        Attack("see the parent's affinity", "call(204, PARENT, 128, bytearray_of(128))"),
        Attack("scheduler of the parent", "call(144, PARENT, 0, struct.pack('i', 0))"),
        Attack("sched_setparam", "call(142, PARENT, struct.pack('i', 0))"),
        Attack(
            "sched_setattr",
            "call(314, PARENT, struct.pack('IIQiIQQQ', 48, 0, 0, 0, 0, 0, 0, 0), 0)",
        ),
        Attack("setpriority", "call(141, 0, PARENT, 19)"),
        Attack("ioprio_set", "call(251, 1, PARENT, 0)"),
        Attack("migrate_pages", "call(256, PARENT, 1, bytes(8), bytes(8))"),
        Attack("fork", "call(57)"),
        Attack("vfork", "call(58)"),
        Attack("clone", "call(56, 17, 0, 0, 0, 0)"),
        Attack("clone newuser", "call(56, 0x10000011, 0, 0, 0, 0)"),
        Attack(
            "clone a thread", "call(56, 0x00010F00, ctypes.create_string_buffer(9999), 0, 0, 0)"
        ),
        Attack("clone3", "call(435, struct.pack('QQQQQQQQ', 0, 0, 0, 0, 17, 0, 0, 0), 64)"),
        Attack("execve", "call(59, b'/bin/true', None, None)"),
        Attack("execveat", "call(322, -100, b'/bin/true', None, None, 0)"),
        Attack("memfd_create", "call(319, b'x', 0)"),
        Attack("memfd_secret", "call(447, 0)"),
        Attack("setsid", "call(112)"),
        Attack("setns", "call(308, 0, 0)"),
        *(
            Attack(f"unshare {name}", f"call(272, {flag})")
            for name, flag in {
                "user": 0x10000000,
                "files": 0x20000,
                "network": 0x40000000,
                "processes": 0x20000000,
            }.items()
        ),
    ]


def _machine() -> list[Attack]:
    capabilities = "struct.pack('Ii', 0x20080522, 0), struct.pack('6I', *[0xFFFFFFFF] * 6)"
    return [
        Attack("sethostname", "call(170, b'gone', 4)"),
        Attack("setdomainname", "call(171, b'gone', 4)"),
        Attack("mount", "call(165, b'none', b'/tmp', b'tmpfs', 0, None)"),
        Attack("umount2", "call(166, b'/', 2)"),
        Attack("pivot_root", "call(155, b'.', b'.')"),
        Attack("chroot", "call(161, b'/')"),
        Attack("open_tree", "call(428, -100, b'/', 1)"),
        Attack("move_mount", "call(429, -100, b'/', -100, b'/tmp', 0)"),
        Attack("fsopen", "call(430, b'tmpfs', 0)"),
        Attack("mount_setattr", "call(442, -100, b'/', 0, bytes(32), 32)"),
        Attack("bpf", "call(321, 5, bytes(128), 128)"),
        Attack("keyctl", "call(250, 0, -3, 1)"),
        Attack("add_key", "call(248, b'user', b'x', b'y', 1, -3)"),
        Attack("request_key", "call(249, b'user', b'x', None, -3)"),
        Attack("perf_event_open", "call(298, bytes(128), 0, -1, -1, 0)"),
        Attack("userfaultfd", "call(323, 1)"),
        Attack("io_uring_setup", "call(425, 8, ctypes.create_string_buffer(120))"),
        Attack("io_setup", "call(206, 1, ctypes.create_string_buffer(8))"),
        Attack("capset", f"call(126, {capabilities})"),
        Attack("setuid", "call(105, 0)"),
        Attack("setresuid", "call(117, 0, 0, 0)"),
        Attack("setgroups", "call(116, 0, None)"),
        Attack("prctl", "call(157, 4, 1, 0, 0, 0)"),
        Attack("seccomp", "call(317, 1, 0, None)"),
        Attack("personality", "call(135, 0x0040000)"),
        Attack("modify_ldt", "call(154, 0, bytearray_of(16), 16)"),
        Attack("iopl", "call(172, 3)"),
        Attack("init_module", "call(175, bytes(8), 8, b'')"),
        Attack("kexec_load", "call(246, 0, 0, None, 0)"),
        Attack("reboot", "call(169, 0, 0, 0, None)"),
        Attack("syslog", "call(103, 3, bytearray_of(64), 64)"),
        Attack("settimeofday", "call(164, None, None)"),
        Attack("clock_settime", "call(227, 0, struct.pack('QQ', 0, 0))"),
        Attack("swapon", "call(167, b'/tmp/x', 0)"),
        Attack("shmget", "call(29, 0, 4096, 0o1600)"),
        Attack("msgget", "call(68, 0, 0o1600)"),
        Attack("mq_open", "call(240, b'x', 0o102, 0o600, None)"),
        Attack("mlockall", "call(151, 1)"),
        Attack("write code", "call(9, 0, 4096, 7, 0x22, -1, 0)"),
        Attack("make code", "call(10, call(9, 0, 4096, 3, 0x22, -1, 0), 4096, 5)"),
        Attack("type into a terminal", "call(16, 0, 0x5412, b'x')"),
        Attack("own the signals of a pipe", "call(72, 0, 8, PARENT)"),
        Attack("a call of 32 bits' addresses", "call(0x40000000 + 41, 2, 1, 0)"),
        Attack("a call that is not known", "call(9999)", ("ENOSYS",)),
    ]


ATTACKS: Final = (*_files(), *_writes(), *_network(), *_processes(), *_machine())


def extractor(
    pool: CodeCalls,
    body: str,
    of: DataType | None = None,
    *,
    above: str = PRELUDE,
    given: Sequence[int] = (1, 2),
) -> list[Cell]:
    """Run the body of an extractor whose argument `x` is what is given."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    source = f"{above}\ndef f(cls, ts, x):\n{lines}"
    code = UserCode(entry="f", source=source, python="3.11")
    (cells,) = pool.extract(
        code,
        name="A.f",
        instants=[0] * len(given),
        inputs=[(Column("A.x", Int()), list(given))],
        outputs=(Column("y", of or Int()),),
    )
    return cells


def filled(attack: Attack, home: Path) -> str:
    """Return the code of an attack on this process and on an installation."""
    body = attack.body.replace("bytearray_of", "ctypes.create_string_buffer")
    body = body.replace("PARENT", str(os.getpid())).replace("HOME", str(home))
    return f"import json\nLIBRARY = json.__file__\n{body}\nreturn x"
