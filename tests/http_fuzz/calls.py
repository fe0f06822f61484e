"""Random calls: from the OpenAPI document of the server, and by mutation of those."""

import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from random import Random  # noqa: TID251 (seeded)
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

import attrs
import requests
from hypothesis import HealthCheck, Phase, given, seed, settings

from narthex_server.app import make_routes
from narthex_server.operations.api_document import document
from tests.server.shop import payload, shop_definitions

if TYPE_CHECKING:
    from schemathesis import Case, GenerationMode

KNOWN: Final[Mapping[str, tuple[str, ...]]] = {
    "name": ("Orders", "Users", "Spend", "Buyer", "main"),
    "dataset": ("Orders", "Users", "Spend"),
    "step": ("ready", "commit", "backfill", "promote", "rollback"),
}
"""Values of parameters of paths that exist on the server."""

ODD: Final[tuple[bytes, ...]] = (
    b"%00",
    b"\x00",
    b"\\ud800",
    b"\xff\xfe",
    b"-1",
    b"9223372036854775808",
    b"1e999",
    b"NaN",
    b"[" * 3_000,
    b'{"a":' * 500,
    b'"' * 50,
    b"../" * 5,
    b"' OR 1=1 --",
    b"9999-12-31T23:59:59.999999Z",
    b"null",
    b"",
)


@attrs.frozen(kw_only=True)
class HttpCall:
    """One call.

    Attributes:
        path: Percent-encoded, with its query.
        headers: Without the token.
    """

    method: str
    path: str
    headers: Mapping[str, bytes]
    body: bytes

    def __str__(self) -> str:
        body = self.body[:300]
        return f"{self.method} {self.path[:300]} {dict(self.headers)} {body!r}"


def random_calls(number: int, first_seed: int, *, commit_id: str) -> Iterator[HttpCall]:
    """Yield calls: half as the document describes them, valid or not, and half mutated."""
    rng = Random(first_seed)  # noqa: S311 (no secret)
    drawn = 0
    for round_ in range(number):
        for call in _drawn(first_seed * 1_000_003 + round_, rng, commit_id):
            for one in (call, mutated(call, rng)):
                yield one
                drawn += 1
                if drawn >= number:
                    return


def _drawn(number: int, rng: Random, commit_id: str) -> Iterator[HttpCall]:
    """Draw a few calls of each operation, in random order; commits of the shop among them."""
    found: list[HttpCall] = [_commit(rng)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for place, (operation, mode) in enumerate(_operations()):
            known = {**KNOWN, "commit_id": (commit_id,)}

            def collect(case: "Case", known: Mapping[str, tuple[str, ...]] = known) -> None:
                call = _call(case, rng, known)
                if call is not None:
                    found.append(call)

            _draw(operation.as_strategy(generation_mode=mode), number * 10_007 + place, collect)
    rng.shuffle(found)
    yield from found


def _operations() -> "Iterator[tuple[Any, GenerationMode]]":
    import schemathesis  # noqa: PLC0415 (half a second, for one test of many that are collected)
    from schemathesis import GenerationMode  # noqa: PLC0415

    if not _SCHEMA:
        _SCHEMA.append(schemathesis.openapi.from_dict(document(make_routes().routes)))
    for result in _SCHEMA[0].get_all_operations():
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            yield result.ok(), mode


_SCHEMA: Final[list[Any]] = []


def _draw(strategy: Any, number: int, collect: "Callable[[Case], None]") -> None:
    @seed(number)
    @settings(
        max_examples=2,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=strategy)
    def run(case: "Case") -> None:
        collect(case)

    try:
        run()
    except Exception as error:  # noqa: BLE001 - a strategy of no cases, as negative ones of a route without input
        del error


def _call(case: "Case", rng: Random, known: Mapping[str, tuple[str, ...]]) -> HttpCall | None:
    for name in case.path_parameters or {}:
        if name in known and rng.random() < 0.6:
            case.path_parameters[name] = rng.choice(known[name])
    arguments = case.as_transport_kwargs(base_url="http://server")
    arguments.pop("timeout", None)
    try:
        prepared = requests.Request(**arguments).prepare()
    except (requests.RequestException, UnicodeError, ValueError):
        return None
    url = urlsplit(str(prepared.url))
    body = prepared.body or b""
    headers = {
        str(name).lower(): _bytes(value)
        for name, value in prepared.headers.items()
        if str(name).lower() not in {"authorization", "content-length", "host", "connection"}
    }
    return HttpCall(
        method=str(prepared.method),
        path=url.path + (f"?{url.query}" if url.query else ""),
        headers=headers,
        body=body.encode("utf-8", "surrogatepass") if isinstance(body, str) else bytes(body),
    )


def _commit(rng: Random) -> HttpCall:
    """Return a valid commit of the shop as a preview, which nothing has to carry out."""
    flags = rng.choice(("preview=true", "preview=true&incremental=true"))
    return HttpCall(
        method="POST",
        path=f"/api/v1/commit?{flags}",
        headers={"content-type": b"application/octet-stream"},
        body=payload(shop_definitions()),
    )


def mutated(call: HttpCall, rng: Random) -> HttpCall:
    """Change bytes of a call at one to three places."""
    for _ in range(rng.randint(1, 3)):
        where = rng.choice(("body", "body", "path", "query", "header"))
        match where:
            case "body":
                call = attrs.evolve(call, body=_changed(call.body, rng))
            case "path" | "query":
                path, mark, query = call.path.partition("?")
                if where == "path" and rng.random() < 0.5:
                    parts = path.split("/")
                    at = rng.randrange(len(parts))
                    parts[at] = _quoted(rng.choice(ODD)[:200])
                    path = "/".join(parts)
                else:
                    query = f"{query}&" if query else ""
                    name = rng.choice(("limit", "after", "branch", "as_of", "n", "key", "q"))
                    query += f"{name}={_quoted(rng.choice(ODD)[:2000])}"
                    mark = "?"
                call = attrs.evolve(call, path=f"{path}{mark}{query}")
            case _:
                name = rng.choice(
                    ("x-narthex-branch", "idempotency-key", "cookie", "x-narthex-scope", "accept")
                )
                value = rng.choice(ODD)[:400].replace(b"\x00", b"%00")
                call = attrs.evolve(call, headers={**call.headers, name: value})
    return call


def _changed(body: bytes, rng: Random) -> bytes:
    if not body:
        return rng.choice(ODD)
    at = rng.randrange(len(body))
    match rng.randrange(5):
        case 0:
            return body[:at]
        case 1:
            return body[:at] + rng.choice(ODD) + body[at:]
        case 2:
            return body[:at] + bytes([rng.randrange(256)]) + body[at + 1 :]
        case 3:
            return body + body
        case _:
            return _other_values(body, rng)


def _other_values(body: bytes, rng: Random) -> bytes:
    """Replace one value of a JSON object."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return body[::-1]
    if not isinstance(value, dict) or not value:
        return body[::-1]
    odd = (None, -1, 2**63, 1e308, [], {}, [[[]]], "\ud800", "\0", "x" * 70_000, True, {"": {}})
    value[rng.choice([*value])] = rng.choice(odd)
    return json.dumps(value).encode()


def _quoted(value: bytes) -> str:
    return quote(value, safe="%")


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("latin-1", "replace")
