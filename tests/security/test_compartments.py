"""Code of one compartment neither changes nor sees another compartment."""

from collections.abc import Iterator

import attrs
import pytest

from narthex._ir.types import Str
from narthex._runtime.workers import CodeCalls, Compartments, Limits
from narthex._testing.in_process import InProcessCalls
from narthex.errors import UserCodeError
from tests.security.attacks import extractor

PATCHES = (
    "import pandas as pd\npd.Series.__add__ = lambda self, other: self * 1000",
    "import numpy as np\nnp.sum = lambda *_: 1000",
    "import builtins\nbuiltins.len = lambda _: 1000",
    "import json\njson.dumps = lambda *_: '1000'",
    (
        "import narthex._runtime.workers.worker_columns as w\n"
        "w.called = lambda _, __, given: given['1'] * 1000"
    ),
    "from narthex.lookups import DatasetReference\nDatasetReference.lookup = lambda *_, **__: 1000",
    "import narthex._runtime.workers.serving as s\ns.entry_of = lambda _: lambda *__: 1000",
    "import decimal\ndecimal.getcontext().prec = 1",
    "import sys\nsys.modules['math'] = None",
)
ANSWER = (
    "import json, decimal, math\nimport numpy as np\n"
    "from narthex.lookups import DatasetReference\n"
    "known = [len([1]), int(np.sum(np.array([1, 2]))), json.dumps(3)]\n"
    "known += [str(decimal.Decimal(1) / 3), math.floor(1.5), DatasetReference.lookup.__name__]\n"
    "return (x + 1).astype('string') + repr(known)"
)
WANTED = [f"{one}[1, 3, '3', '0.3333333333333333333333333333', 1, 'lookup']" for one in (2, 3)]
SPY = """
import pandas as pd, sys
if not hasattr(sys, 'seen'):
    sys.seen = []
    whole = pd.DataFrame.__getitem__
    def kept(self, name):
        sys.seen.append(whole(self, name).tolist())
        return whole(self, name)
    pd.DataFrame.__getitem__ = kept
return (x * 0).astype('string') + repr(sys.seen)
"""

PII = frozenset({"pii"})


@pytest.fixture
def compartments() -> Iterator[Compartments]:
    with Compartments(2, Limits(call_timeout_s=6)) as found:
        yield found


@attrs.define
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.slow
@pytest.mark.parametrize(
    ("attacker", "victim"),
    [(("evil", frozenset()), ("main", frozenset())), (("main", frozenset()), ("main", PII))],
    ids=["another branch", "another clearance"],
)
def test_patches_stay_in_their_compartment(
    attacker: tuple[str, frozenset[str]],
    victim: tuple[str, frozenset[str]],
    compartments: Compartments,
) -> None:
    evil, good = compartments.compartment(*attacker), compartments.compartment(*victim)
    assert extractor(good, ANSWER, Str()) == WANTED
    for patch in PATCHES:
        try:
            extractor(evil, f"{patch}\nreturn x")
        except UserCodeError:
            continue  # A patch that breaks its own worker did its worst, too.

    assert extractor(good, ANSWER, Str()) == WANTED


@pytest.mark.parametrize(
    ("spy", "victim"),
    [(("evil", frozenset()), ("main", frozenset())), (("main", frozenset()), ("main", PII))],
    ids=["another branch", "another clearance"],
)
def test_inputs_stay_in_their_compartment(
    spy: tuple[str, frozenset[str]],
    victim: tuple[str, frozenset[str]],
    compartments: Compartments,
) -> None:
    evil, good = compartments.compartment(*spy), compartments.compartment(*victim)
    extractor(evil, SPY, Str())
    extractor(good, "return x", given=(4711, 4712))

    seen = str(extractor(evil, SPY, Str()))

    assert "[1, 2]" in seen, "the spy sees what its own compartment is given: the attack works"
    assert "4711" not in seen


def test_the_patches_work_where_they_are_made(compartments: Compartments) -> None:
    own = compartments.compartment("evil")
    extractor(own, f"{PATCHES[1]}\nreturn x")

    assert extractor(own, ANSWER, Str()) != WANTED


def test_workers_are_not_shared_when_all_are_busy(compartments: Compartments) -> None:
    mark = "import sys\nfound = getattr(sys, 'mark', '')\nsys.mark = found + BRANCH\n"
    answer = "return (x * 0).astype('string') + sys.mark"
    seen = [
        extractor(
            compartments.compartment(branch), mark.replace("BRANCH", repr(branch)) + answer, Str()
        )[0]
        for branch in ("a", "b", "c", "c", "b", "a")
    ]

    # `a` made room for `c`, so it begins anew; `b` and `c` were warm.
    assert seen == ["0a", "0b", "0c", "0cc", "0bb", "0a"]


def test_a_worker_is_replaced_after_its_calls_and_when_idle() -> None:
    body = "import sys\nsys.runs = getattr(sys, 'runs', 0) + 1\nreturn x * 0 + sys.runs"
    clock = Clock()
    with Compartments(2, Limits(calls=2, idle_s=10), clock=clock) as few:
        calls = few.compartment("main")
        assert [extractor(calls, body)[0] for _ in range(3)] == [1, 2, 1]

        clock.now = 11
        few.end_idle()

        assert extractor(calls, body)[0] == 1


def test_a_fresh_worker_has_run_no_code(compartments: Compartments) -> None:
    body = "import sys\nsys.runs = getattr(sys, 'runs', 0) + 1\nreturn x * 0 + sys.runs"

    assert [extractor(compartments.compartment(one), body)[0] for one in "abcab"] == [1] * 5


@pytest.mark.parametrize("where", ["in a worker", "in process"])
def test_names_of_a_module_do_not_outlive_a_call(where: str, compartments: Compartments) -> None:
    calls: CodeCalls = (
        compartments.compartment("main") if where == "in a worker" else InProcessCalls()
    )
    body = "SEEN.append(1)\nglobals()['EXTRA'] = 1\nreturn x * 0 + len(SEEN)"
    above = "SEEN = []\nassert 'EXTRA' not in globals()\n"

    assert [extractor(calls, body, above=above)[0] for _ in range(3)] == [1, 1, 1]
