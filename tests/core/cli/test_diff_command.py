"""The command about values on two branches: the request that it sends, and its output."""

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from narthex.cli import make_app
from tests.core.client.test_client import Stub, stub

__all__ = ["stub"]

DIFFERENT: dict[str, Any] = {
    "dataset": "Kilograms",
    "as_of": "2026-05-01T08:00:00.000000Z",
    "keys": {"compared": 4, "same": 1, "differ": 2, "on_first_only": 1, "on_second_only": 0},
    "columns": [
        {
            "column": "kilograms",
            "types": ["float", "float"],
            "differ": 2,
            "share": 2 / 3,
            "null_on_first_only": 0,
            "null_on_second_only": 1,
            "mean_difference": 0.5,
            "greatest_difference": 1.5,
        },
        {
            "column": "unit",
            "types": [None, "str"],
            "differ": None,
            "share": None,
            "null_on_first_only": 0,
            "null_on_second_only": 0,
            "mean_difference": None,
            "greatest_difference": None,
        },
    ],
    "features": {"kilograms": ["Parcel.kg"]},
    "examples": [
        {
            "key": {"parcel": "p1"},
            "column": "kilograms",
            "first": 1.5,
            "second": None,
            "cause": "Parcels",
        },
        {"key": {"parcel": "p9"}, "only_on": "first", "cause": None},
    ],
    "summary": "Kilograms: 3 of 4 keys differ",
}
SAME = DIFFERENT | {
    "keys": {"compared": 4, "same": 4, "differ": 0, "on_first_only": 0, "on_second_only": 0}
}


def ran(stub: Stub, *arguments: str) -> Any:
    server = ("--url", stub.url, "--token", "word")
    return CliRunner().invoke(
        make_app(), ["diff", "main", "dev", "--dataset", "Kilograms", *arguments, *server]
    )


def test_differences_are_a_table_with_examples_and_a_sentence(stub: Stub) -> None:
    stub.answer("diff", DIFFERENT)

    found = ran(stub)

    assert found.stdout.splitlines() == [
        "column     types        differ         share   null only  mean  greatest  features",
        "kilograms  float        2              66.67%  0 / 1      0.5   1.5       Parcel.kg",
        "unit       None -> str  one side only  -       0 / 0      -     -",
        "parcel=p1: kilograms 1.5 -> null  first in Parcels",
        "parcel=p9: only on main",
    ]
    assert found.stderr == "Kilograms: 3 of 4 keys differ\n"
    assert found.exit_code == 1


def test_the_keys_and_the_instant_are_sent(stub: Stub, tmp_path: Path) -> None:
    stub.answer("diff", SAME)
    keys = tmp_path / "keys.jsonl"
    keys.write_text('{"parcel": "p1"}\n\n{"parcel": "p2"}\n')

    found = ran(stub, "--keys-file", str(keys), "--at", "2026-05-01T08:00:00+02:00", "--json")
    ran(stub, "--sample", "0.01")

    assert (found.exit_code, json.loads(found.stdout)) == (0, SAME)
    first, second = (json.loads(call.body) for call in stub.calls)
    assert first == {
        "dataset": "Kilograms",
        "branches": ["main", "dev"],
        "share": None,
        "keys": [{"parcel": "p1"}, {"parcel": "p2"}],
        "at": "2026-05-01T08:00:00+02:00",
    }
    assert (second["share"], second["keys"], second["at"]) == (0.01, None, None)


def test_unfit_keys_and_instants_are_refused(stub: Stub, tmp_path: Path) -> None:
    keys = tmp_path / "keys.jsonl"
    keys.write_text('{"parcel": "p1"}\np2\n')

    unread = ran(stub, "--keys-file", str(keys))
    both = ran(stub, "--keys-file", str(keys), "--sample", "0.5")
    late = ran(stub, "--at", "yesterday")

    assert "line 2 of" in str(unread.exception)
    assert both.exit_code != 0
    assert "`yesterday` is not an instant" in late.output
    assert stub.calls == []


def test_a_featureset_is_compared_instead_of_a_dataset(stub: Stub) -> None:
    stub.answer("diff", SAME | {"dataset": "Parcel", "summary": "Parcel: none differs"})
    server = ("--url", stub.url, "--token", "word")

    done = CliRunner().invoke(
        make_app(), ["diff", "main", "candidate", "--featureset", "Parcel", *server]
    )
    neither = CliRunner().invoke(make_app(), ["diff", "main", "candidate", *server])

    assert done.exit_code == 0, done.output
    assert json.loads(stub.calls[-1].body)["dataset"] == "Parcel"
    assert (neither.exit_code, "--featureset" in neither.output) == (2, True)
