"""The filter of system calls, judged for each machine by running it as the kernel does."""

import struct
from typing import Final

import attrs
import pytest

from narthex._runtime.confinement.seccomp import program
from narthex._runtime.confinement.system_calls import ALLOWED, ARCHITECTURES, CHECKED, NEWEST

PASS, EPERM, ENOSYS, KILL = 0x7FFF0000, 0x00050001, 0x00050026, 0x80000000
OWN: Final = 77
MACHINES: Final = tuple(ARCHITECTURES)


@attrs.frozen
class Verdict:
    """The results of a machine's filter for system calls."""

    machine: str

    def of(self, number: int, *arguments: int, architecture: int | None = None) -> int:
        """Run the filter on one call."""
        known = ARCHITECTURES[self.machine] if architecture is None else architecture
        padded = (*arguments, 0, 0, 0, 0, 0, 0)[:6]
        data = struct.pack("<IIQ6Q", number, known, 0, *(one % 2**64 for one in padded))
        lines = [struct.unpack("=HBBI", one) for one in program(self.machine, own=OWN)]
        at = held = 0
        while True:
            code, jump_true, jump_false, value = lines[at]
            at += 1
            match code:
                case 0x20:
                    (held,) = struct.unpack_from("<I", data, value)
                case 0x15:
                    at += jump_true if held == value else jump_false
                case 0x35:
                    at += jump_true if held >= value else jump_false
                case 0x45:
                    at += jump_true if held & value else jump_false
                case 0x06:
                    return int(value)
                case _:
                    raise AssertionError(f"a filter has no instruction {code:#x} here")


@pytest.fixture(params=MACHINES)
def verdict(request: pytest.FixtureRequest) -> Verdict:
    return Verdict(str(request.param))


def test_unlisted_parameters_are_refused(verdict: Verdict) -> None:
    known = {*ALLOWED[verdict.machine].values(), *CHECKED[verdict.machine].values()}

    refused = [number for number in range(NEWEST + 1) if number not in known]

    assert {verdict.of(number) for number in refused} == {EPERM}
    assert {verdict.of(number) for number in ALLOWED[verdict.machine].values()} == {PASS}


def test_newer_system_calls_are_unknown(verdict: Verdict) -> None:
    later = (NEWEST + 1, 9999, 0x40000000 + 41, 0xFFFFFFFF)

    assert {verdict.of(number) for number in later} == {ENOSYS}


def test_another_architecture_kills(verdict: Verdict) -> None:
    assert {verdict.of(0, architecture=one) for one in (0x40000003, 0x40000028, 0)} == {KILL}


@pytest.mark.parametrize(
    ("name", "arguments", "wanted"),
    [
        ("openat", (0, 0, 0o0), PASS),
        ("openat", (0, 0, 0o2100000), PASS),
        ("openat", (0, 0, 0o1), EPERM),
        ("openat", (0, 0, 0o2), EPERM),
        ("openat", (0, 0, 0o100), EPERM),
        ("openat", (0, 0, 0o1000), EPERM),
        ("openat", (0, 0, 0o2000), EPERM),
        ("openat", (0, 0, 0o20000000), EPERM),
        ("mmap", (0, 0, 3, 0x22), PASS),
        ("mmap", (0, 0, 5, 0x02), PASS),
        ("mmap", (0, 0, 5, 0x22), EPERM),
        ("mmap", (0, 0, 7, 0x02), EPERM),
        ("mprotect", (0, 0, 1), PASS),
        ("mprotect", (0, 0, 5), EPERM),
        ("ioctl", (0, 0x5401), PASS),
        ("ioctl", (0, 0x5412), EPERM),
        ("fcntl", (0, 1030), PASS),
        ("fcntl", (0, 8), EPERM),
        ("sched_getaffinity", (0,), PASS),
        ("sched_getaffinity", (OWN,), PASS),
        ("sched_getaffinity", (OWN + 1,), EPERM),
        ("prlimit64", (0, 7, 0, 1), PASS),
        ("prlimit64", (OWN + 1, 7, 0, 1), EPERM),
        ("prlimit64", (0, 7, 1, 0), EPERM),
        ("prlimit64", (0, 7, 1 << 32, 0), EPERM),
    ],
)
def test_arguments_decide(
    name: str, arguments: tuple[int, ...], wanted: int, verdict: Verdict
) -> None:
    assert verdict.of(CHECKED[verdict.machine][name], *arguments) == wanted


def test_both_machines_have_the_same_calls() -> None:
    first, second = ({*ALLOWED[one], *CHECKED[one]} for one in MACHINES)

    assert second - first == set()
    assert first - second <= {
        *("stat", "lstat", "poll", "access", "select", "dup2", "getdents"),
        *("readlink", "time", "open"),
    }
