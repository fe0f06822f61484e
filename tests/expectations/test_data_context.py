"""Validation results are stored in the Data Context as counts, and shown by the Data Docs."""

import json
import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final

import attrs
import pytest
from typing_extensions import override

from narthex._analysis import suite_name
from narthex._base.times import HOUR_US, SECOND_US
from narthex._ir.assets import HistorySpec
from narthex._ir.entities import Expectation
from narthex_expectations.audits import audit, hold
from narthex_expectations.data_context import DataContext, ValidationRun
from narthex_expectations.feature_audits import Answered, hold_queries
from narthex_expectations.frames import frame
from narthex_expectations.gates import check_history
from narthex_stores import HistoryAdapter, HistoryTable, to_table
from tests.expectations.test_audits import AT, BROKEN, KEPT, LOG, log_rows, plan_of, promise
from tests.expectations.test_feature_audits import POSITIVE, expect, featureset
from tests.expectations.test_gates import rows_of

pytestmark = pytest.mark.slow

ROOT: Final = Path(__file__).resolve().parents[2]
SECRET: Final = "zanzibar-4711"
HOSTILE: Final = (
    "\"'><script>alert(1)</script><img src=//evil.example/x onerror=alert(2)>$PARAMETER"
)
NOW: Final = 2 * AT
SITE: Final = Path("gx/uncommitted/data_docs/local_site")
RESULTS: Final = Path("gx/uncommitted/validations")


@pytest.fixture
def context(tmp_path: Path) -> DataContext:
    return DataContext(directory=tmp_path / "expectations")


def run_of(context: DataContext, *, at_us: int = NOW, branch: str = "main") -> ValidationRun:
    return context.run("by event_time", branch=branch, now_us=at_us)


def rows() -> Any:
    return frame(LOG, to_table(LOG, log_rows()))


def opened(context: DataContext) -> Any:
    """Return the Data Context as somebody else opens it, with the documented call."""
    import great_expectations as gx  # noqa: PLC0415 - it takes seconds

    return gx.get_context(mode="file", project_root_dir=context.directory)


def stored(context: DataContext) -> list[dict[str, Any]]:
    found = sorted(context.directory.joinpath(RESULTS).rglob("*.json"))
    return [json.loads(path.read_text()) for path in found]


def files_of(context: DataContext) -> list[Path]:
    return [path for path in context.directory.rglob("*") if path.is_file()]


def test_a_run_of_a_checkpoint_is_what_an_audit_finds_and_great_expectations_reads(
    context: DataContext,
) -> None:
    plan = plan_of(*KEPT, *BROKEN)

    found = hold(plan, rows(), run_of(context))
    context.publish(now_us=NOW)

    assert found == hold(plan, rows())
    theirs = opened(context)
    assert [suite.name for suite in theirs.suites.all()] == ["main:Orders@2"]
    checkpoint = theirs.checkpoints.get("main:Orders@2")
    assert [one.suite.name for one in checkpoint.validation_definitions] == ["main:Orders@2"]
    (key,) = theirs.validation_results_store.list_keys()
    result = theirs.validation_results_store.get(key)
    assert (result.suite_name, result.asset_name, result.success) == (
        "main:Orders@2",
        "rows",
        False,
    )
    by_number = sorted(result.results, key=lambda one: one.expectation_config.meta["number"])
    assert [one.success for one in by_number] == [one.success for one in found]
    assert [one.result.get("unexpected_count") for one in by_number] == [
        one.counts.get("unexpected_count") for one in found
    ]
    index = context.directory.joinpath(SITE, "index.html").read_text()
    assert "main:Orders@2" in index
    assert "broken" in index


def test_no_value_of_a_row_is_ever_in_a_file(context: DataContext, tmp_path: Path) -> None:
    """Not in a result, a page or an error; the examples of a gate have the keys all the same."""
    texts = [json.dumps(SECRET), SECRET, SECRET]
    table = _history(tmp_path, texts)
    of_text = [one for one in (*KEPT, *BROKEN) if ("column", "s") in one.arguments]
    plan = plan_of(
        *of_text,
        promise("expect_column_values_to_be_between", column="s", min_value=1),
        promise("expect_multicolumn_sum_to_equal", column_list=("n", "s"), sum_total=1),
        promise("expect_column_values_to_be_in_set", column="s", value_set=("x",)),
        promise("expect_column_values_to_be_null", column="seen"),
        promise("expect_column_pair_values_to_be_equal", column_A="s", column_B="j"),
    )
    plan = attrs.evolve(plan, log=attrs.evolve(LOG, time_field="at"))
    run = run_of(context)

    audited = audit(plan, table, from_us=AT, to_us=AT + 3 * HOUR_US, run=run)
    whole = check_history(plan, table, now_us=NOW, run=run_of(context, at_us=NOW + 1))
    parts = check_history(
        plan, table, now_us=NOW, states_at_once=1, run=run_of(context, at_us=NOW + 2)
    )
    buyers = featureset(
        POSITIVE, expect("expect_column_values_to_be_in_set", column="user", value_set=("x",))
    )
    queries = [
        Answered(place=0.1, cells={"user": [SECRET], "spent": [None]}),
        Answered(place=0.2, cells={"user": [SECRET]}),
    ]
    hold_queries(buyers, queries, run)
    context.publish(now_us=NOW)

    assert [one.error for one in audited.findings if one.error]
    assert [one.success for one in parts.findings] == [one.success for one in whole.findings]
    assert any(isinstance(one, list) and one for one in whole.examples)
    names = sorted(one["suite_name"] for one in stored(context))
    assert names == ["main:Buyer", *["main:Orders@2"] * 3]
    held = [path for path in files_of(context) if SECRET.encode() in path.read_bytes()]
    assert held == []
    # The examples of another day of the same rows are keys: instants, which no file has either.
    assert not [path for path in files_of(context) if b"2013-01-01T0" in path.read_bytes()]


def _history(tmp_path: Path, texts: list[str]) -> str:
    HistoryAdapter(history_dir=str(tmp_path)).create(
        "nx_h", HistorySpec(log=LOG), asset_id=1, timeout_s=10
    )
    place = [column.name for column in LOG.values].index("s")
    changed = [
        attrs.evolve(
            row,
            fact=attrs.evolve(
                row.fact,
                values=tuple(
                    text if number in {place, place + 1} else value
                    for number, value in enumerate(row.fact.values)
                ),
            ),
        )
        for row, text in zip(rows_of(len(texts)), texts, strict=True)
    ]
    HistoryTable(str(tmp_path / "nx_h"), HistorySpec(log=LOG)).append_rows(changed)
    return str(tmp_path / "nx_h")


class Markup(HTMLParser):
    """The elements, attributes and addresses of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: set[str] = set()
        self.handlers: set[str] = set()
        self.addresses: set[str] = set()
        self.feed(text)

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.handlers |= {name for name, _ in attrs if name.startswith("on")}
        self.addresses |= {value or "" for name, value in attrs if name in {"href", "src"}}


def test_a_hostile_definition_is_text_on_a_page_and_never_leaves_the_directory(
    context: DataContext,
) -> None:
    def hostile(one: Expectation) -> Expectation:
        said = {"column", "column_A", "column_B", "column_list", "value", "mostly"}
        texts = {"json_schema": json.dumps({HOSTILE: {"$ref": HOSTILE}})}
        return attrs.evolve(
            one,
            arguments=tuple(
                (
                    name,
                    texts.get(name, HOSTILE)
                    if isinstance(value, str) and name not in said
                    else (HOSTILE,)
                    if isinstance(value, tuple) and name not in said | {"value_pairs_set"}
                    else value,
                )
                for name, value in one.arguments
                if not name.endswith("_value")
            ),
        )

    bounds = {"expect_column_values_to_be_between", "expect_column_value_lengths_to_be_between"}
    dated = [("column", "day"), ("column", "price")]
    promises = [
        hostile(one)
        for one in KEPT
        if one.kind not in bounds and not any(name in one.arguments for name in dated)
    ]
    unknown = promise("expect_column_values_to_not_be_null", column=HOSTILE)
    plan = plan_of(*promises, unknown)
    before = {path for path in context.directory.parent.rglob("*") if path.is_file()}

    hold(plan, rows(), run_of(context, branch="../../x<script>"))
    context.publish(now_us=NOW)

    made = {path for path in context.directory.parent.rglob("*") if path.is_file()} - before
    assert all(path.is_relative_to(context.directory) for path in made)
    pages = [path for path in made if path.suffix == ".html"]
    assert len(pages) == 3
    for path in pages:
        markup = Markup(path.read_text())
        assert not markup.elements & {"script", "img", "iframe", "object", "link", "base"}
        assert markup.handlers == set()
        others = markup.addresses - {"https://greatexpectations.io"}
        assert not [one for one in others if "//" in one or one.startswith("javascript")]
    shown = [path for path in pages if "&#60;script&#62;alert(1)" in path.read_text()]
    assert len(shown) == 2


def test_only_the_newest_results_are_kept_and_suites_that_are_still_audited(
    tmp_path: Path,
) -> None:
    context = DataContext(directory=tmp_path / "expectations", results_kept=2)
    plan = plan_of(promise("expect_column_values_to_be_between", column="n", max_value=2))

    for number in range(4):
        hold(plan, rows(), run_of(context, at_us=NOW + number * SECOND_US))
    hold(plan, rows(), run_of(context, branch="gone"))
    context.publish(now_us=NOW)

    def pages(of: str) -> int:
        return len(list(context.directory.joinpath(SITE, "validations", of).rglob("*.html")))

    assert (pages("main:Orders@2"), pages("gone:Orders@2")) == (2, 1)
    assert len(stored(context)) == 3
    assert [path for path in context.directory.rglob("*") if not any(path.parent.iterdir())] == []

    later = context.directory.stat().st_mtime_ns // 1000 + 40 * 24 * HOUR_US
    hold(plan, rows(), run_of(context, at_us=later))
    context.publish(now_us=later)

    left = [str(path.relative_to(context.directory)) for path in files_of(context)]
    assert [name for name in left if "gone" in name] == []
    assert (pages("main:Orders@2"), len(stored(context))) == (2, 2)


_AUDITS = """
import sys
from pathlib import Path
from narthex_expectations.audits import hold
from narthex_expectations.data_context import DataContext
from tests.expectations.test_data_context import NOW, SECOND_US, plan_of, promise, rows
number = int(sys.argv[2])
plan = plan_of(promise("expect_column_values_to_be_between", column="n", max_value=number))
for round in range(3):
    context = DataContext(directory=Path(sys.argv[1]))
    hold(plan, rows(), context.run("r", branch="main", now_us=NOW + number + round * SECOND_US))
    context.publish(now_us=NOW)
"""


def test_processes_audit_one_dataset_by_other_expectations_at_once(
    context: DataContext, tmp_path: Path
) -> None:
    # Great Expectations imports PySpark, which ends a process that runs a text.
    program = tmp_path / "audits.py"
    program.write_text(_AUDITS)
    started = [
        subprocess.Popen(
            [sys.executable, str(program), str(context.directory), str(number)],
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            text=True,
        )
        for number in (1, 2, 3)
    ]
    ends = [(process.communicate()[1], process.returncode) for process in started]

    assert [code for _, code in ends] == [0, 0, 0], ends
    results = stored(context)
    assert len(results) == 9
    met = {
        one["results"][0]["expectation_config"]["kwargs"]["max_value"]: one["success"]
        for one in results
    }
    assert met == {1: False, 2: False, 3: True}
    assert len(list(context.directory.joinpath(SITE, "validations").rglob("*.html"))) == 9
    assert not list(context.directory.rglob("*.new"))
    assert opened(context).checkpoints.get("main:Orders@2").validation_definitions


@pytest.mark.parametrize(
    ("branch", "entity", "name"),
    [
        ("main", "Orders@1", "main:Orders@1"),
        ("feature/x", "Buyer", "feature~2fx:Buyer"),
        ("../x", "Orders@1", "~2e~2e~2fx:Orders@1"),
        ("<script>", "é", "~3cscript~3e:~c3~a9"),
    ],
)
def test_a_suite_has_the_name_of_its_entity(branch: str, entity: str, name: str) -> None:
    assert suite_name(branch, entity) == name


def test_long_names_stay_different() -> None:
    names = {suite_name("/" * 200 + end, "Orders@1") for end in "ab"}

    assert len(names) == 2
    assert max(map(len, names)) <= 160
