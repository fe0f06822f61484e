"""Two texts with one fingerprint are one text where they run, whatever an author writes."""

from collections.abc import Mapping
from itertools import product
from typing import Any, Final

import attrs
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from narthex._analysis.changes import compare
from narthex._base.canonical import encode
from narthex._base.canonical_source import HEADER, UnknownSyntaxError, canonical_source
from narthex._base.records import from_plain
from narthex._compiler.blueprint import compile_blueprint
from narthex._ir.code import UserCode, codes_in, with_codes
from narthex._ir.entities import Definitions
from narthex._runtime.workers.calls import call_header
from narthex._sdk.closure import received
from narthex.cli.projects.author_files import load_file

PLAIN: Final = """
import numpy as np
LIMIT = 3
def f(df):
    return np.abs(df) + LIMIT
"""
SAME: Final = {
    "layout": "import numpy as np\n\nLIMIT = (3)  # three\n\n"
    "def f( df ):\n  return ( np.abs(df)+LIMIT )\n",
    "docstring": PLAIN.replace("    return", "    'doc'\n    'more'\n    return"),
    "annotations": PLAIN.replace("f(df)", "f(df: (RATE := -31337.0)) -> (RATE := 1)"),
    "future import": "from __future__ import annotations\n" + PLAIN,
    "another future import": "from __future__ import generator_stop\n" + PLAIN,
    "annotated assignment": PLAIN.replace("LIMIT =", "LIMIT: (RATE := 1) ="),
    "type comment": PLAIN.replace("f(df):", "f(df):  # type: (int) -> int"),
    "coding comment": "# -*- coding: latin-1 -*-\n" + PLAIN,
    "numbers": PLAIN.replace("3", "0x3"),
    "positions": "\n\n\n" + PLAIN.replace("LIMIT = 3\n", "LIMIT = 3\n\n\n\n"),
}
OTHER: Final = {
    "float": PLAIN.replace("3", "3.0"),
    "value": PLAIN.replace("3", "4"),
    "truth": PLAIN.replace("3", "True"),
    "attribute": PLAIN.replace("abs", "sign"),
    "operator": PLAIN.replace("+ LIMIT", "- LIMIT"),
    "import": PLAIN.replace("import numpy", "import math"),
    "relative import": PLAIN.replace("import numpy as np", "from . import np"),
    "default": PLAIN.replace("f(df)", "f(df=1)"),
    "decorator": PLAIN.replace("def f", "@np.vectorize\ndef f"),
    "definition": PLAIN + "def g(): pass\n",
    "order of operands": PLAIN.replace("np.abs(df) + LIMIT", "LIMIT + np.abs(df)"),
    "order of definitions": PLAIN.replace("LIMIT = 3\n", "") + "LIMIT = 3\n",
    "annotation that is read": PLAIN.replace("f(df)", "f(df: int)")
    + "import typing\nX = typing.get_type_hints\n",
    "annotation of a decorated function": PLAIN.replace("def f(df)", "@np.vectorize\ndef f(df: 1)"),
    "field": PLAIN + "class C:\n    x: int = 1\n",
}


@pytest.mark.parametrize("what", SAME)
def test_what_no_run_can_see_does_not_change_the_text(what: str) -> None:
    assert canonical_source(SAME[what]) == canonical_source(PLAIN)


def test_what_a_run_can_see_changes_the_text() -> None:
    texts = {what: canonical_source(text) for what, text in (OTHER | {"plain": PLAIN}).items()}

    assert {w: o for w, o in product(texts, texts) if w != o and texts[w] == texts[o]} == {}


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (
            "class C:\n    x: int = 1\n    def f(self, y: int) -> int:\n        z: int = y\n",
            "x: int = 1",
        ),
        ("import functools\n@functools.singledispatch\ndef f(x: int): pass\n", "x: int"),
        ("def f():\n    x: int\n    return x\n", "x: int"),
        ("X: int = f.__annotations__\ndef f(x: int): pass\n", "X: int"),
        ("def f(x):\n    return f'{x!r:>{10}} {x}' 'é' u'e\u0301'\n", "e\u0301"),
    ],
)
def test_annotations_that_something_may_read_stay(text: str, kept: str) -> None:
    found = canonical_source(text)

    assert kept in found
    assert canonical_source(found) == found


@pytest.mark.parametrize(
    "text",
    [
        "async def f(): pass\n",
        "def f():\n    global x\n",
        "def f(x):\n    return [y async for y in x]\n",
        "try:\n    pass\nexcept* ValueError:\n    pass\n",
    ],
)
def test_syntax_that_author_code_may_not_have_is_refused(text: str) -> None:
    with pytest.raises(UnknownSyntaxError, match="is not allowed"):
        canonical_source(text)


KINDS: Final[Mapping[str, str]] = {
    "function": "{deco}def entry({arg}{default}){returns}:{mark}\n{doc}{local}    return {body}\n",
    "lambda": "entry = lambda df{default}: {body}{mark}\n",
    "nested": "def entry({arg}){returns}:\n{doc}{local}"
    "    def inner({arg}{default}){returns}:{mark}\n        return {body}\n    return inner(df)\n",
    "method": "class Helper:\n{doc}    size: {field} = 1\n"
    "    def made(self, {arg}{default}){returns}:{mark}\n        return {body}\n\n"
    "def entry({arg}):\n    return Helper().made(df)\n",
    "static method": "class Helper:\n{doc}    @staticmethod\n"
    "    def made({arg}{default}){returns}:{mark}\n        return {body}\n\n"
    "def entry({arg}):\n    return Helper.made(df)\n",
    "closure": "def above(limit: {field}){returns}:{mark}\n{doc}"
    "    return lambda df{default}: {body} * limit\n\n"
    "def entry({arg}):\n    return above(2)(df)\n",
    "generator": "def made({arg}{default}){returns}:{mark}\n{doc}    yield {body}\n\n"
    "def entry({arg}):\n    return next(made(df))\n",
    "included function": "{deco}def made({arg}{default}){returns}:{mark}\n{doc}{local}"
    "    return {body}\n\ndef entry({arg}):\n    return made(df)\n",
    "comprehension": "def entry({arg}{default}){returns}:{mark}\n{doc}{local}"
    "    return [{body} for _ in (1, 2)][0]\n",
}
HOSTILE: Final = "(RATE := -31337.0)"
UNSEEN: Final[Mapping[str, tuple[str, ...]]] = {
    "arg": ("df", "df: int", f"df: {HOSTILE}", "df: 'text'"),
    "returns": ("", " -> float", f" -> {HOSTILE}"),
    "doc": ("", "    'doc'\n", "    'doc'\n    'again'\n", '    """RATE = 1\n    """\n'),
    "mark": ("", "  # RATE = -1", "  # type: (int) -> float", "  # noqa"),
    "head": ("", "from __future__ import annotations\n", "# coding: latin-1\n\n\n", "\n\n"),
    "constant": (
        "RATE = 1.5\n",
        "RATE: float = 1.5\n",
        f"RATE: {HOSTILE} = 1.5\n",
        "RATE = (1.5)\n",
    ),
}
"""The parts of a text that its canonical form lacks."""
SEEN: Final[Mapping[str, tuple[str, ...]]] = {
    "deco": ("", "@keep\n", f"@keep_as({HOSTILE})\n"),
    "default": ("", ", k=1", f", k={HOSTILE}"),
    "local": ("", "    x = RATE\n", "    x: int = 2\n", f"    x: {HOSTILE} = 2\n", "    x: int\n"),
    "field": ("int", "float", "'text'"),
    "body": ("df['a'] * RATE", "df['a'] + RATE", "df['a'] * made_at(keep)"),
    "order": ("constant first", "constant last"),
}
"""The other parts."""
HELPERS: Final = (
    "def keep(f):\n    return f\n\ndef keep_as(value):\n    return keep\n\n"
    "def made_at(f):\n    return len(str(f.__doc__)) + len(f.__name__)\n"
)


@attrs.frozen
class Variant:
    """A text, and the parts that it was put together from."""

    text: str
    parts: Mapping[str, str]


@st.composite
def variants(draw: st.DrawFn, kind: str) -> Variant:
    parts = {name: draw(st.sampled_from(found)) for name, found in (UNSEEN | SEEN).items()}
    return Variant(text_of(kind, parts), parts)


def text_of(kind: str, parts: Mapping[str, str]) -> str:
    """Put a text together from its parts."""
    entry = KINDS[kind].format(**parts)
    items = [HELPERS, parts["constant"], entry]
    if parts["order"] == "constant last":
        items = [HELPERS, entry, parts["constant"]]
    return parts["head"] + "\n".join(items)


SHOP: Final = """
from datetime import datetime

from narthex.connectors import Webhook, eval, source
from narthex.datasets import dataset, field, pipeline
from narthex.expr import col
from narthex.featuresets import extractor, feature, featureset
from narthex.lib import inputs, outputs

__owner__ = "me@example.org"


def entry(df):
    return df["a"]


@source(
    Webhook(name="shop").endpoint("rows"), disorder="1d", cdc="append",
    preproc={"a": eval(lambda df: df["b"], schema={"b": float})}, where=lambda df: df["a"] > 0,
)
@dataset
class Rows:
    a: float
    at: datetime = field(timestamp=True)


@dataset
class Computed:
    a: float
    b: float
    at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Rows)
    def computed(cls, rows):
        return (
            rows.filter(lambda df: df["a"] > 1)
            .assign("b", float, lambda df: df["a"])
            .transform(lambda df: df)
        )


@featureset
class Made:
    a: float
    made: float

    @extractor
    @inputs("a")
    @outputs("made")
    def computes(cls, ts, a):
        return a
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Definitions:
    path = tmp_path_factory.mktemp("shop") / "shop.py"
    path.write_text(SHOP, encoding="utf-8")
    definitions = load_file(path).definitions()
    assert len(list(codes_in(definitions))) == 6
    return definitions


def committed(shop: Definitions, text: str, claimed: str = "") -> Definitions:
    """Return what a server deploys for a commit whose functions all have one text."""

    def changed(_: UserCode) -> UserCode:
        return UserCode(entry="entry", source=claimed or text, written=text, python="3.11")

    sent = with_codes(shop, changed)
    assert isinstance(sent, Definitions)
    definitions, _ = received(sent)
    return definitions


def executed(value: object) -> list[object]:
    """Return all that a worker is sent of the code in a value."""
    return [call_header(code, "assign", ()) for code in codes_in(value)]


def fingerprints(definitions: Definitions) -> dict[str, tuple[object, list[object]]]:
    """Return the fingerprint of each asset and all code that it runs, by its paths."""
    return {
        "+".join(asset.paths): (asset.fingerprint, executed(asset.spec))
        for asset in compile_blueprint(definitions).assets
    }


def hashed(text: str) -> tuple[bytes, list[object]]:
    """Return the canonical bytes of received code, and all that a worker is sent of it."""
    code = UserCode(entry="entry", source=text, python="3.11").rewritten()
    return encode(code), executed(code)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=120)
@given(data=st.data())
def test_what_has_one_fingerprint_is_one_text_where_it_runs(kind: str, data: st.DataObject) -> None:
    (one, runs), (other, also_runs) = (hashed(data.draw(variants(kind)).text) for _ in range(2))

    assert (one == other) == (runs == also_runs)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=120)
@given(data=st.data())
def test_what_no_run_can_see_rebuilds_nothing(kind: str, data: st.DataObject) -> None:
    one, other = data.draw(variants(kind)), data.draw(variants(kind))
    seen = {name: one.parts[name] for name in SEEN}
    assume(not seen["deco"])

    assert hashed(one.text) == hashed(text_of(kind, dict(other.parts) | seen))


@settings(max_examples=25)
@given(data=st.data())
def test_branches_share_only_assets_that_run_the_same_text(
    shop: Definitions, data: st.DataObject
) -> None:
    kind = data.draw(st.sampled_from(sorted(KINDS)))
    first, second = (committed(shop, data.draw(variants(kind)).text) for _ in range(2))

    before, after = fingerprints(first), fingerprints(second)
    assert before.keys() == after.keys()
    for path, (fingerprint, runs) in before.items():
        assert fingerprint != after[path][0] or runs == after[path][1], path
    changed = compare(first, second, incremental=False).errors
    assert bool(changed) == (executed(first) != executed(second))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_the_text_that_runs_computes_what_its_author_wrote(kind: str, data: st.DataObject) -> None:
    # Python refuses the hostile annotation, and the author's text has a docstring to measure.
    text = data.draw(variants(kind)).text.replace(HOSTILE, "-1.5").replace("made_at(keep)", "2")

    results = [_result(found) for found in (HEADER + text, canonical_source(text))]

    assert results[0] == results[1]


def _result(text: str) -> object:
    scope: dict[str, Any] = {}
    try:
        exec(compile(text, "<text>", "exec", dont_inherit=True), scope)  # noqa: S102 (a text of this file)
        return scope["entry"]({"a": 2.0})
    except (NameError, SyntaxError) as error:
        return type(error)


def test_a_claimed_text_is_neither_hashed_nor_run(shop: Definitions) -> None:
    honest = "RATE = 1.0\ndef entry(df):\n    return df['a'] * RATE\n"
    evil = honest.replace("1.0", "-31337.0")

    definitions = committed(shop, evil, claimed=canonical_source(honest))

    assert executed(definitions) == executed(committed(shop, evil))
    assert fingerprints(definitions) != fingerprints(committed(shop, honest))


def test_a_deployed_text_is_not_written_again_by_another_python(shop: Definitions) -> None:
    text = "def entry(df):\n    return df['a'] * 2\n"
    deployed = with_codes(
        committed(shop, text),
        lambda code: attrs.evolve(code, source=f"{code.source}\n", written=text),
    )
    assert isinstance(deployed, Definitions)

    again, _ = received(committed(shop, f"# As before.\n{text}"), deployed)
    other, _ = received(committed(shop, text.replace("2", "3")), deployed)

    assert executed(again) == executed(deployed) != executed(other)
    assert fingerprints(again) == fingerprints(deployed)


def test_code_of_an_earlier_release_is_read_in_the_form_that_runs() -> None:
    text = "def entry(df: (RATE := 1)):  # all\n    return df\n"
    plain = {"$": "UserCode", "entry": "entry", "source": text, "python": "3.11"}

    found = from_plain(plain | {"tree": {"$bytes": "AAAA"}})

    assert isinstance(found, UserCode)
    assert (found.source, found.written) == (f"{HEADER}def entry(df):\n    return df\n", text)
