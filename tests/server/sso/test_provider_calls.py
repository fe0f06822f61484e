"""Calls to providers that answer slowly, not at all, or would be reached by a proxy."""

from concurrent.futures import ThreadPoolExecutor, wait

import pytest

from narthex_server.sso.provider import MOST_CALLS, OidcProvider, ProviderUnavailable
from tests.server.raw_servers import dribbling, raw_server, silent
from tests.server.sso.providers import running_provider

pytestmark = pytest.mark.slow

FAR_PORT = 1


def test_an_answer_in_small_pieces_takes_no_longer_than_any_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("narthex_server.sso.provider.TIMEOUT_S", 1.0)
    with ThreadPoolExecutor(1) as pool, raw_server(dribbling) as issuer:
        asked = pool.submit(OidcProvider(issuer=issuer).discovered)
        done, _ = wait([asked], timeout=30)

    assert done == {asked}
    assert isinstance(asked.exception(), ProviderUnavailable)
    assert "did not answer within 1 s" in str(asked.exception())


def test_a_provider_that_is_silent_occupies_few_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Strangers who begin to sign in leave most of the server's threads to other requests."""
    monkeypatch.setattr("narthex_server.sso.provider.TIMEOUT_S", 8.0)
    callers = 4 * MOST_CALLS
    with ThreadPoolExecutor(callers) as pool, raw_server(silent) as issuer:
        provider = OidcProvider(issuer=issuer)
        asked = [pool.submit(provider.discovered) for _ in range(callers)]
        refused, waiting = wait(asked, timeout=4.0)

        assert len(waiting) == MOST_CALLS
        assert {"has many calls to answer" in str(one.exception()) for one in refused} == {True}


def test_calls_without_encryption_use_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy of the environment could read the secret, and forge the keys, of `http`."""
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{FAR_PORT}")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with running_provider() as provider:
        found = OidcProvider(issuer=provider.issuer).discovered()

    assert found.token_endpoint == f"{provider.issuer}/token"
