"""The programs of `programs.toml`, each a whole module: the use of one public name of Fennel's.

`E` is a keyless dataset with a webhook, `U` a keyed one, `Q` a featureset; `D` and `X` are what a
program declares. A module calls `stage(…)` as it proceeds, and its function `run(client)` yields
what is compared.
"""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

PROGRAMS: Final = Path(__file__).with_name("programs.toml")
USES: Final = ("valid", "boundary", "invalid")
SERVED: Final = ("valid", "boundary")
"""The uses that a server carries out."""


@attrs.frozen(kw_only=True)
class Program:
    """One use of a public name.

    Attributes:
        name: The public name.
        use: One of `USES`.
        text: The part of the program that distinguishes it.
        module: The whole module.
    """

    name: str
    use: str
    text: str
    module: str

    @property
    def label(self) -> str:
        """The name, the use and the text in one line; unique."""
        return f"{self.name} ({self.use}): {' '.join(self.text.split())}"


_PRELUDE: Final = """\
import datetime as dt
from datetime import date, datetime, timezone
from decimal import Decimal as PythonDecimal
from typing import Dict, List, Optional
import numpy as np
import pandas as pd
from fennel.connectors import *
from fennel.datasets import *
from fennel.dtypes import *
from fennel.expr import col, from_epoch, lit, make_struct, now, repeat, var, when
from fennel.featuresets import extractor, feature as F, featureset
from fennel.integrations.aws import Secret
from fennel.lib import *
from fennel.lib.expectations import *
__owner__ = "a@b.co"
hook = Webhook(name="hook")

def at(minute):
    return datetime(2024, 1, 1, tzinfo=timezone.utc) + dt.timedelta(minutes=minute)
"""

_EVENTS: Final = """
@source(hook.endpoint("E"), disorder="1d", cdc="append")
@dataset
class E:
    k: str
    v: int
    o: Optional[int]
    f: float
    s: str
    l: List[int]
    d: date
    m: Decimal[2]
    b: bool
    t: datetime

@source(hook.endpoint("U"), disorder="1d", cdc="upsert")
@dataset(index=True)
class U:
    k: str = field(key=True)
    c: str
    n: Optional[float]
    t: datetime

def rows_of_e():
    return pd.DataFrame({
        "k": ["a", "b", "a", "a"], "v": [1, 0, 3, -2], "o": [None, 5, 7, None],
        "f": [1.5, -2.0, 0.0, 4.25], "s": ["x", "y", "x", ""], "l": [[1, 2], [], [3], [3, 3]],
        "d": [date(2024, 1, 1)] * 4, "m": [PythonDecimal("1.25")] * 4,
        "b": [True, False, True, True], "t": [at(0), at(1), at(2), at(3)],
    })

def rows_of_u():
    return pd.DataFrame({
        "k": ["a", "b", "a"], "c": ["p", "q", "r"], "n": [1.0, None, 2.0],
        "t": [at(0), at(0), at(2)],
    })
"""

_QUERIED: Final = """
@featureset
class Q:
    k: str
    c: Optional[str] = F(U.c)
    n: float = F(U.n, default=-1.0)
    w: int

    @extractor
    @inputs("k")
    @outputs("w")
    def width(cls, ts: pd.Series, k: pd.Series):
        return pd.Series([len(one) for one in k], name="w")
"""

_EVENT_COLUMNS: Final = (
    "k:str v:int o:Optional[int] f:float s:str l:List[int] d:date m:Decimal[2] b:bool t:datetime"
)
_SIMPLE: Final = "k: str\n    v: int\n    t: datetime"
_ALL_OF_D: Final = 'client.get_dataset_df("D")'


def _pipeline(given: Mapping[str, str]) -> tuple[str, str]:
    """`D` is filled by one chain of steps over `e` and `u`; `*` marks the keys of its columns."""
    columns, read = given.get("columns", _EVENT_COLUMNS), given.get("read", _ALL_OF_D)
    fields = []
    for column in columns.split():
        name, of = column.split(":")
        fields.append(f"    {name}: {of.rstrip('*')}{' = field(key=True)' if '*' in of else ''}")
    module = f"""{_PRELUDE}{_EVENTS}
stage("define")
@dataset{"(index=True)" if "*" in columns else ""}
class D:
{chr(10).join(fields)}

    @pipeline
    @inputs(E, U)
    def p(cls, e, u):
        return {given["step"]}

stage("commit")
def run(client):
    client.commit(message="m", datasets=[E, U, D])
    stage("log")
    client.log("hook", "U", rows_of_u())
    client.log("hook", "E", rows_of_e())
    stage("read")
    yield {read}
"""
    return given["step"], module


def _dataset(given: Mapping[str, str]) -> tuple[str, str]:
    """`D` is committed, filled and read."""
    above = '@source(hook.endpoint("D"), disorder="1d", cdc="append")\n@dataset'
    module = f"""{_PRELUDE}
stage("define")
{given.get("before", "")}
{given.get("above", above)}
class D:
    {given.get("fields", _SIMPLE)}

stage("commit")
def run(client):
    client.commit(message="m", datasets=[D])
    stage("log")
    client.log("hook", "D", pd.DataFrame({given.get("data", '{"k": ["a"], "v": [1], "t": [at(0)]}')}))
    stage("read")
    yield {given.get("read", _ALL_OF_D)}
"""  # noqa: E501 (the line of a program)
    return given["text"], module


def _source(given: Mapping[str, str]) -> tuple[str, str]:
    """`D` has a source; it is committed."""
    more = given.get("more", "")
    declared = f"@source({given['made']}, disorder='1d', cdc='{given.get('cdc', 'append')}'{more})"
    module = f"""{_PRELUDE}
stage("define")
{declared}
@dataset
class D:
    {given.get("fields", _SIMPLE)}

stage("commit")
def run(client):
    client.commit(message="m", datasets=[D])
    yield "committed"
"""
    return declared, module


def _sink(given: Mapping[str, str]) -> tuple[str, str]:
    """`D` is derived and has a sink; it is committed."""
    module = f"""{_PRELUDE}{_EVENTS}
stage("define")
@sink({given["made"]})
@dataset
class D:
    k: str
    v: int
    t: datetime

    @pipeline
    @inputs(E)
    def p(cls, e):
        return e.select("k", "v")

stage("commit")
def run(client):
    client.commit(message="m", datasets=[E, U, D])
    yield "committed"
"""
    return given["made"], module


def _calls(given: Mapping[str, str]) -> tuple[str, str]:
    """Statements with a client that has `E`, `U` and `Q`."""
    body = "\n".join(f"    {line}" for line in given["text"].strip().splitlines())
    module = f"""{_PRELUDE}{_EVENTS}{_QUERIED}
stage("define")
{given.get("before", "")}
stage("commit")
def run(client):
    client.commit(message="m", datasets=[E, U], featuresets=[{given.get("featuresets", "Q")}])
    stage("log")
    client.log("hook", "U", rows_of_u())
    client.log("hook", "E", rows_of_e())
    stage("read")
{body}
"""
    return given["text"], module


def _featureset(given: Mapping[str, str]) -> tuple[str, str]:
    """`X` is queried, online and offline, by its feature `k`, or by that of `Q`."""
    body = given["body"]
    asked = '"Q.k"' if "k: str = F(Q.k)" in body else '"X.k"'
    keys = '[["a", "b"], ["zz"]]' if "k: List[str]" in body else '["a", "zz"]'
    rows, instants = f"{asked}: {keys}", '"at": [at(1), at(70)]'
    text = (
        f"yield client.query(inputs=[{asked}], outputs=[X], "
        f"input_dataframe=pd.DataFrame({{{rows}}}))\n"
        f'yield client.query_offline(inputs=[{asked}], outputs=[X], timestamp_column="at", '
        f"input_dataframe=pd.DataFrame({{{rows}, {instants}}}))"
    )
    before = f"@featureset\nclass X:\n    {body}"
    _, module = _calls({"text": text, "before": before, "featuresets": "Q, X"})
    return body, module


_TEMPLATES: Final[Mapping[str, Callable[[Mapping[str, str]], tuple[str, str]]]] = {
    "pipeline": _pipeline,
    "dataset": _dataset,
    "source": _source,
    "sink": _sink,
    "featureset": _featureset,
    "calls": _calls,
}


def programs() -> Sequence[Program]:
    """Return all programs."""
    made = []
    for kind, listed in tomllib.loads(PROGRAMS.read_text(encoding="utf-8")).items():
        for given in listed["programs"]:
            text, module = _TEMPLATES[kind](given)
            made.append(Program(name=given["name"], use=given["use"], text=text, module=module))
    return made
