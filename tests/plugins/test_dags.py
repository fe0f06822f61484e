"""Airflow has the DAGs as designed: their tasks, their order, their rollback."""

from typing import Any

import pytest

from tests.plugins.conftest import Ask

pytestmark = pytest.mark.airflow

_DRAW = """
from airflow.dag_processing.dagbag import DagBag
bag = DagBag("dags")
def outlets(task):
    found = task.partial_kwargs.get("outlets") if task.is_mapped else task.outlets
    return [getattr(one, "uri", one.name) for one in found or ()]
def draw(dag):
    return {
        "tasks": {
            t.task_id: {
                "upstream": sorted(t.upstream_task_ids),
                "mapped": bool(t.is_mapped),
                "teardown": bool(t.is_teardown),
                "setup": bool(t.is_setup),
                "type": t.task_type,
                "doc": t.partial_kwargs.get("doc_md") if t.is_mapped else t.doc_md,
                "outlets": outlets(t),
                "retries": t.retries,
                "trigger_rule": str(getattr(t.trigger_rule, "value", t.trigger_rule)),
            }
            for t in dag.tasks
        },
        "paused": dag.is_paused_upon_creation,
        "owners": sorted({t.owner for t in dag.tasks}),
        "timeout": str(dag.dagrun_timeout),
        "max_active_runs": dag.max_active_runs,
        "catchup": dag.catchup,
        "description": dag.description,
        "doc": dag.doc_md,
        "params": {name: dag.params.get_param(name).schema for name in dag.params},
        "timetable": getattr(dag.timetable, "expression", None),
    }
answer = {
    "errors": {name: text for name, text in bag.import_errors.items()},
    "dags": {name: draw(dag) for name, dag in bag.dags.items()},
}
"""


@pytest.fixture(scope="module")
def drawn(ask: Ask) -> Any:
    return ask(_DRAW)


def test_all_dags_can_be_imported(drawn: Any) -> None:
    assert drawn["errors"] == {}
    assert set(drawn["dags"]) == {
        "auditor",
        "branch_delete",
        "collector",
        "commit",
        "drift",
        "profile",
        "prove",
        "quality_audit",
        "reconcile",
        "recovery_drill",
        "rollback",
    }


@pytest.mark.parametrize(
    ("name", "tasks", "every"),
    [
        ("auditor", ["is_sound", "scan"], "*/10 * * * *"),
        ("collector", ["collect"], "*/10 * * * *"),
        ("reconcile", ["recover"], "*/5 * * * *"),
        ("recovery_drill", ["die_midway", "is_taken_over"], "30 3 * * *"),
    ],
)
def test_upkeep_runs_by_the_clock_one_at_a_time(
    drawn: Any, name: str, tasks: list[str], every: str
) -> None:
    found = drawn["dags"][name]

    assert sorted(found["tasks"]) == tasks
    assert found["timetable"] == every
    assert (found["catchup"], found["paused"], found["max_active_runs"]) == (False, False, 1)
    assert found["timeout"] == "None"


def test_the_tasks_of_a_commit_have_this_order(drawn: Any) -> None:
    tasks = drawn["dags"]["commit"]["tasks"]

    assert {name: task["upstream"] for name, task in tasks.items()} == {
        "compile": [],
        "plan": ["compile"],
        "create_assets": ["plan"],
        "commit_point": ["create_assets"],
        "backfill": ["commit_point"],
        "caught_up": ["backfill", "commit_point"],
        "quality_checks": ["plan"],
        "quality": ["caught_up", "quality_checks"],
        "approve": ["caught_up", "quality"],
        "promote": ["approve", "caught_up", "quality"],
        "roll_back": ["plan", "promote"],
    }


def test_tasks_are_skipped_if_all_before_them_are(drawn: Any) -> None:
    tasks = drawn["dags"]["commit"]["tasks"]
    rule = "none_failed_min_one_success"

    skippable = {name for name, task in tasks.items() if task["trigger_rule"] == rule}
    others = {
        name
        for name, task in tasks.items()
        if task["trigger_rule"] == "all_success" and task["upstream"]
    }
    assert skippable == {"caught_up", "quality", "approve", "promote"}
    # A commit that creates nothing still moves the head.
    assert tasks["commit_point"]["trigger_rule"] == "none_failed"
    assert others == {"plan", "create_assets", "backfill", "quality_checks"}


def test_each_dataset_is_a_task_of_its_own(drawn: Any) -> None:
    tasks = drawn["dags"]["commit"]["tasks"]

    mapped = {name for name, task in tasks.items() if task["mapped"]}
    assert mapped == {"create_assets", "backfill", "quality"}


_LISTS = """
from narthex_plugins.operators import in_tasks
assets = [dict(label=one) for one in "ABCDEFGHIJK"]
answer = [
    ["".join(asset["label"] for asset in one) for one in in_tasks(assets[:count], most=4)]
    for count in (11, 8, 3, 0)
]
"""


def test_assets_are_created_by_a_few_tasks_in_their_order(ask: Ask) -> None:
    assert ask(_LISTS) == [["ABC", "DEF", "GHI", "JK"], ["AB", "CD", "EF", "GH"], [*"ABC"], []]


FORMS = {"branch_delete", "commit", "rollback"}
"""The DAGs that a person triggers; all others have a schedule."""


def test_each_dag_has_a_schedule_or_a_form(drawn: Any) -> None:
    dags = drawn["dags"]

    assert {name for name, found in dags.items() if found["timetable"] is None} == FORMS
    assert {name for name in FORMS if not dags[name]["params"]} == set()


def test_each_dag_and_each_task_is_documented(drawn: Any) -> None:
    for name, found in drawn["dags"].items():
        assert found["description"], name
        assert f"DAG `{name}`" in found["doc"]
        assert found["owners"] == ["narthex"], name
        undocumented = [task for task, of in found["tasks"].items() if not of["doc"]]
        assert undocumented == [], name


def test_promotions_and_audits_give_datasets_events(drawn: Any) -> None:
    promote = drawn["dags"]["commit"]["tasks"]["promote"]
    audits = drawn["dags"]["quality_audit"]["tasks"]

    assert promote["outlets"] == ["narthex://serving/", "narthex_datasets"]
    assert audits["audit"]["outlets"] == ["narthex_datasets"]
    assert audits["announce"]["outlets"] == ["narthex_datasets"]


def test_rollback_is_a_teardown_that_no_timeout_of_the_run_can_skip(
    drawn: Any,
) -> None:
    commit = drawn["dags"]["commit"]

    assert [name for name, task in commit["tasks"].items() if task["teardown"]] == ["roll_back"]
    assert [name for name, task in commit["tasks"].items() if task["setup"]] == ["plan"]
    assert commit["tasks"]["roll_back"]["upstream"] == ["plan", "promote"]
    assert commit["timeout"] == "None"


def test_commits_are_serialised_by_the_ledger_and_not_by_airflow(
    drawn: Any,
) -> None:
    commit = drawn["dags"]["commit"]

    assert commit["max_active_runs"] == 16
    assert commit["paused"] is False
    assert commit["params"]["commit_id"]["format"] == "uuid"
    assert commit["params"]["commit_id"]["type"] == ["null", "string"]


def test_a_commit_starts_with_a_form(drawn: Any) -> None:
    params = drawn["dags"]["commit"]["params"]

    assert list(params)[:5] == ["project", "file", "branch", "message", "preview"]
    assert params["project"]["type"] == ["null", "string"]
    assert params["preview"]["type"] == "boolean"
    assert {name for name, of in params.items() if of.get("section") == "Git"} == {
        "git_conn_id",
        "ref",
    }
    assert all(of["title"] for of in params.values())


def test_a_rollback_starts_with_a_form_and_waits_for_the_old_jobs(drawn: Any) -> None:
    rollback = drawn["dags"]["rollback"]

    assert rollback["tasks"]["caught_up"]["upstream"] == ["roll_back_branch"]
    assert rollback["params"]["branch"]["type"] == "string"
    assert rollback["params"]["to"]["type"] == ["null", "integer"]
    assert (rollback["catchup"], rollback["paused"]) == (False, False)


def test_a_form_deletes_a_branch(drawn: Any) -> None:
    delete = drawn["dags"]["branch_delete"]

    assert list(delete["tasks"]) == ["delete"]
    assert delete["params"]["branch"]["type"] == ["null", "string"]
    assert (delete["catchup"], delete["paused"]) == (False, False)


def test_datasets_and_featuresets_are_audited_by_mapped_tasks_every_hour(drawn: Any) -> None:
    audit = drawn["dags"]["quality_audit"]

    assert audit["tasks"]["audit"]["upstream"] == ["with_expectations"]
    assert audit["tasks"]["audit"]["mapped"] is True
    assert (audit["tasks"]["audit"]["retries"], audit["tasks"]["audit"]["teardown"]) == (0, False)
    assert audit["tasks"]["announce"]["upstream"] == ["audit"]
    assert audit["tasks"]["announce"]["teardown"] is True
    assert audit["timetable"] == "0 * * * *"
    assert (audit["catchup"], audit["paused"]) == (False, False)


def test_datasets_without_expectations_are_profiled_by_mapped_tasks_every_day(drawn: Any) -> None:
    profile = drawn["dags"]["profile"]

    assert profile["tasks"]["propose"]["upstream"] == ["without_expectations"]
    assert profile["tasks"]["propose"]["mapped"] is True
    # Nothing is stored, so a second try of a batch stores nothing twice.
    assert profile["tasks"]["propose"]["retries"] == 1
    assert profile["timetable"] == "30 4 * * *"
    assert (profile["catchup"], profile["paused"]) == (False, False)


def test_each_dataset_is_proved_by_a_task_of_its_own_every_night(drawn: Any) -> None:
    prove = drawn["dags"]["prove"]

    assert prove["tasks"]["compare"]["upstream"] == ["served_datasets"]
    assert prove["tasks"]["compare"]["mapped"] is True
    assert prove["timetable"] == "0 3 * * *"
    assert prove["params"]["sample"]["maximum"] == 1.0
    assert (prove["catchup"], prove["paused"]) == (False, False)


def test_each_reference_is_compared_by_a_task_of_its_own_after_the_summary(drawn: Any) -> None:
    drift = drawn["dags"]["drift"]

    tasks = {name: task["upstream"] for name, task in drift["tasks"].items()}
    assert tasks == {"summarize": [], "references": ["summarize"], "compare": ["references"]}
    assert drift["tasks"]["compare"]["mapped"] is True
    assert drift["timetable"] == "5 * * * *"
    assert (drift["catchup"], drift["paused"], drift["max_active_runs"]) == (False, False, 1)


def test_logged_queries_of_each_branch_are_repeated_by_a_task_of_its_own(drawn: Any) -> None:
    prove = drawn["dags"]["prove"]

    assert prove["tasks"]["repeat_answers"]["upstream"] == ["branches_with_features"]
    assert prove["tasks"]["repeat_answers"]["mapped"] is True
    assert prove["params"]["answers"]["minimum"] == 0


_READ = """
import airflow.sdk.execution_time.task_runner
import runpy, sys
from pathlib import Path
for file in sorted(Path("dags").glob("*.py")):
    runpy.run_path(str(file))
slow = ("narthex._sdk", "narthex._analysis", "narthex._compiler", "narthex.client", "narthex.cli",
        "numpy", "pandas", "polars", "pyarrow", "pyspark", "great_expectations", "confluent_kafka")
answer = [name for name in slow if name in sys.modules]
"""


def test_a_task_imports_no_slow_library_to_read_its_dag(ask: Ask) -> None:
    assert ask(_READ) == []
