"""The page of connectors is written from the registry, and each client library has an extra."""

import tomllib

import pytest

from docs.render_connectors import PAGE, render
from narthex._connectors import kinds
from tests.house.test_house import ROOT

pytestmark = pytest.mark.slow


def test_the_page_matches_the_registry() -> None:
    text = PAGE.read_text(encoding="utf-8")

    assert text == render(kinds()), "run `python -m docs.render_connectors`"


def test_each_requirement_of_a_connector_is_an_extra_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {f"narthex[{extra}]" for extra in project["optional-dependencies"]}

    assert {kind.install for kind in kinds() if kind.install} <= extras
