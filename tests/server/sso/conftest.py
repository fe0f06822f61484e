"""A server behind a real socket, whose `sso.toml` a test writes, and browsers of it."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack

import attrs
import httpx
import pytest

from narthex_server.app import make_app
from narthex_stack.machine.ports import free_ports
from tests.server.conftest import TOKEN, House
from tests.server.listening import listening
from tests.server.sso.providers import CLIENT, SECRET, SigningProvider, running_provider

RULES = """
[[groups]]
group = "operators"
roles = ["admin"]

[[groups]]
group = "data"
roles = ["author"]
branches = ["dev/*", "main"]
tags = ["~secret", "*"]
"""


@attrs.frozen(kw_only=True)
class Site:
    """A server, by its address."""

    house: House
    url: str
    closing: ExitStack

    def configure(self, issuer: str, more: str = "", rules: str = RULES) -> None:
        self.house.services.settings.sso_file.write_text(
            f'issuer = "{issuer}"\nname = "Example"\nurl = "{self.url}"\n'
            f'client_id = "{CLIENT}"\nclient_secret_file = "{self.secret_file}"\n{more}\n{rules}'
        )
        (self.house.services.settings.home / "client.secret").write_text(f"{SECRET}\n")

    @property
    def secret_file(self) -> str:
        return str(self.house.services.settings.home / "client.secret")

    def control_log(self) -> str:
        """Return the entries of the control log, as the server writes and lists them."""
        token = {"authorization": f"Bearer {TOKEN}"}
        answer = httpx.get(
            f"{self.url}/api/v1/control-log", params={"limit": 1_000}, headers=token, timeout=30
        )
        return answer.text

    def browser(self, cookies: Mapping[str, str] | None = None) -> httpx.Client:
        browser = httpx.Client(base_url=self.url, timeout=30, cookies=dict(cookies or {}))
        return self.closing.enter_context(browser)


@pytest.fixture
def site(house: House) -> Iterator[Site]:
    [port] = free_ports(1)
    with ExitStack() as closing, listening(make_app(house.services), port, has_tasks=False):
        yield Site(house=house, url=f"http://127.0.0.1:{port}", closing=closing)


@pytest.fixture
def provider(site: Site) -> Iterator[SigningProvider]:
    """A provider that signs what a test decides; the server is configured for it."""
    with running_provider() as provider:
        site.configure(provider.issuer)
        yield provider


def sent_back(browser: httpx.Client, path: str = "/console/sso") -> str:
    """Begin to sign in; return the address to which the provider sends the browser back."""
    begun = browser.get(path)
    assert begun.status_code == 303, begun.text
    at_provider = httpx.get(begun.headers["location"], timeout=60.0)
    assert at_provider.status_code == 302, at_provider.text
    return str(at_provider.headers["location"])
