"""Files of configuration that pages show are read without a mistake by what reads them."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml
from openlineage.client import event_v2

from narthex._analysis.policy.policy import Policy
from narthex.cli.projects.project_file import read_project
from narthex_server.alerts.configuration import load_alerts_file
from narthex_server.lineage_events.configuration import make_client
from narthex_server.lineage_events.environment import configuration_file
from narthex_server.sso.configuration import load_sso_file
from narthex_stack.install.config import parse_config
from tests.guides.known_commands import CHART, unknown_values
from tests.guides.pages import PAGES, Block, blocks, place

pytestmark = pytest.mark.slow

KINDS: Final = ("toml", "yaml", "json")


def read_policy(path: Path) -> None:
    assert Policy.parse(path.read_text(encoding="utf-8")) != Policy()


def read_receivers(path: Path) -> None:
    assert load_alerts_file(path).receivers


def read_sign_in(path: Path) -> None:
    assert load_sso_file(path)


def read_configuration(path: Path) -> None:
    assert parse_config(path.read_text(encoding="utf-8"), {})


def read_narthex_toml(path: Path) -> None:
    found = read_project(path)
    assert found.file or found.requirements


def read_lineage(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    if text.startswith("{"):
        read_event(json.loads(text))
        return
    configuration_file(path.parent).write_text(text, encoding="utf-8")
    make_client(path.parent)


def read_event(text: dict[str, object]) -> None:
    """Build the event by the client's own classes, which refuse unknown fields."""
    assert text["eventType"] in event_v2.RunState.__members__
    event_v2.RunEvent(
        **text
        | {
            "run": event_v2.Run(**text["run"]),  # type: ignore[arg-type]
            "job": event_v2.Job(**text["job"]),  # type: ignore[arg-type]
            "inputs": [event_v2.InputDataset(**one) for one in text["inputs"]],  # type: ignore[attr-defined]
            "outputs": [event_v2.OutputDataset(**one) for one in text["outputs"]],  # type: ignore[attr-defined]
        }
    )


def read_values(path: Path) -> None:
    known = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    assert unknown_values(yaml.safe_load(path.read_text(encoding="utf-8")), known) == []


READ_BY: Final[dict[str, Callable[[Path], None]]] = {
    "docs/guide/alerts.md": read_receivers,
    "docs/guide/kubernetes.md": read_values,
    "docs/guide/openlineage.md": read_lineage,
    "docs/guide/policy.md": read_policy,
    "docs/guide/projects.md": read_narthex_toml,
    "docs/guide/running.md": read_configuration,
    "docs/guide/sources.md": read_policy,
    "docs/guide/sso.md": read_sign_in,
    "docs/security.md": read_policy,
}
"""The reader of the files of each page."""


def test_files_of_every_page_are_read() -> None:
    assert [place(page) for page in PAGES if blocks(page, *KINDS)] == [*READ_BY]


@pytest.fixture
def environment() -> Iterator[None]:
    """Undo what the client of OpenLineage does to the environment."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize(
    "block",
    [block for page in PAGES for block in blocks(page, *KINDS)],
    ids=lambda block: block.place,
)
def test_a_file_of_a_page_has_no_mistake(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / f"shown.{block.mark}"
    path.write_text(block.text, encoding="utf-8")

    READ_BY[place(block.page)](path)
