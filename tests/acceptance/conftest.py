"""One real platform for all tests of this directory, with one project committed to it."""

import shutil
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest
from confluent_kafka import Producer
from playwright.sync_api import Browser, Page

from narthex._base import Backoff
from narthex.client import Client
from narthex.errors import Refused
from narthex_stack.operator.stack import Stack
from narthex_stores import platform_broker
from tests.acceptance import market as features
from tests.acceptance.platform import COMMIT_S, Platform
from tests.acceptance.windows import opened, started

ARCHIVED = """user,item,quantity,price,ordered_at
ann,tea,2,1.5,2026-03-01T08:00:00Z
ann,salt,1,4.0,2026-03-01T08:30:00Z
bob,rope,0,9.0,2026-03-01T08:40:00Z
bob,rope,3,9.0,2026-03-01T08:50:00Z
cat,NA,1,1.0,2026-03-01T08:55:00Z
ann,tea,1,1.5,2026-03-01T09:00:00Z
"""
"""Six rows: one without an item is quarantined, one of quantity 0 does not pass the filter."""


@pytest.fixture(scope="package")
def package_index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of wheels that the platform installs the packages of locks from."""
    return tmp_path_factory.mktemp("wheels")


@pytest.fixture(scope="package")
def platform(tmp_path_factory: pytest.TempPathFactory, package_index: Path) -> Iterator[Platform]:
    """Everything that `narthex up` starts, on an installation of its own."""
    home = tmp_path_factory.mktemp("platform")
    lines = ('reads = "1"', 'git_schemes = "file"', f'package_index = "{package_index}"')
    (home / "config.toml").write_text("\n".join(lines) + "\n")
    files = tmp_path_factory.mktemp("files")
    (files / "market").mkdir()
    (files / features.ARCHIVE).write_text(ARCHIVED)
    stack = Stack(home, files_root=files)
    try:
        stack.start()
        settings = stack.settings
        client = Client(settings.server_url, settings.token)
        producer = Producer(
            {**platform_broker(settings).config(), "partitioner": "murmur2_random", "linger.ms": 1}
        )
        with closing(client), httpx.Client(timeout=60.0) as http:
            yield Platform(
                stack=stack, settings=settings, client=client, producer=producer, http=http
            )
        # Its threads would call a broker that is gone for the rest of the process.
        producer.close()
    finally:
        stack.stop()


@pytest.fixture(scope="module")
def definitions_root(platform: Platform) -> Iterator[Path]:
    """The root of definitions of the installation, from which Airflow's form commits folders."""
    found = platform.settings.definitions_root
    found.mkdir()
    yield found
    shutil.rmtree(found)


@pytest.fixture(scope="module", autouse=True)
def _branches_end(platform: Platform) -> Iterator[None]:
    """Delete the branches that a module made; their jobs would slow all later tests."""
    with closing(Client(platform.settings.server_url, platform.settings.token)) as client:
        before = set(client.list_branches())
        yield
        for branch in sorted(set(client.list_branches()) - before):
            client.protect_branch(branch, protected=False)
            is_deleted = partial(_is_deleted, client, branch)
            assert Backoff(first_s=1.0, greatest_s=1.0).until(is_deleted, within_s=COMMIT_S)


def _is_deleted(client: Client, branch: str) -> bool:
    """Delete a branch, unless its last commit has not ended yet."""
    try:
        client.delete_branch(branch)
    except Refused as refused:
        if "is in flight on this branch" not in str(refused):
            raise
        return False
    return True


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser, for the tests of a module."""
    with started() as browser:
        yield browser


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A window of a person who is signed in nowhere; content that is refused is an error."""
    with opened(browser) as page:
        yield page


@attrs.frozen(kw_only=True)
class Market:
    """The committed project."""

    platform: Platform
    commit_id: str
    shown: dict[str, Any]
    told: tuple[str, ...]


@pytest.fixture(scope="package")
def market(platform: Platform) -> Market:
    """The market, committed through Airflow and serving."""
    platform.make_topic(features.TOPIC)
    told: list[str] = []
    answer = platform.client.commit(
        "a market",
        datasets=features.DATASETS,
        featuresets=features.FEATURESETS,
        timeout_s=COMMIT_S,
        tell=told.append,
    )
    return Market(
        platform=platform,
        commit_id=str(answer.body["commit_id"]),
        shown=answer.body,
        told=tuple(told),
    )
