# ruff: noqa: INP001
"""Writes `docs/reference/rest.md` from the OpenAPI document: `python -m docs.render_rest`."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from narthex_server.app import ROUTES, make_routes
from narthex_server.operations.api_document import document

PAGE: Final = Path(__file__).parent / "reference" / "rest.md"
_INTRODUCTION: Final = """# REST API

Each operation of the server: the right that it needs, what it takes, and what it answers. A running
server has this page as an [OpenAPI](https://www.openapis.org) document at `/api/v1/openapi.json`,
for every token.

A call has its token in the header `Authorization: Bearer …`. The header `X-NARTHEX-BRANCH` names
the branch; `main` is the default, and the header `X-FENNEL-BRANCH` or `branch` in the query mean
the same. A call that repeats an `Idempotency-Key` has no effect, and the answer of the first call.
Instants are RFC 3339 text. A field that is marked optional may be missing; null is a value of its
own.

This page is written by `python -m docs.render_rest` from the routes.
"""
_ERRORS: Final = """## Errors

Every error has the body [`ErrorBody`](#errorbody). A client may repeat a call after
409, 429 and 503.

| status | meaning |
|---|---|"""
_TYPES: Final = """## Types

The bodies of calls and answers, and their parts.
"""

Schema = Mapping[str, Any]


def render() -> str:
    """Render the page."""
    api = document(make_routes().routes)
    components = api["components"]
    lines = [_INTRODUCTION, _ERRORS]
    lines += [f"| {code} | {error['description']} |" for code, error in _errors(components)]
    for tag in ROUTES:
        lines += ["", f"## {tag}"]
        for path, operations in api["paths"].items():
            for method, operation in operations.items():
                if operation["tags"] == [tag]:
                    lines += _operation(f"{method.upper()} {path}", operation, components)
    lines += ["", _TYPES]
    for name, schema in sorted(components["schemas"].items()):
        if "properties" in schema:
            lines += _type(name, schema)
    return "\n".join(lines).rstrip("\n") + "\n"


def _errors(components: Schema) -> list[tuple[str, Schema]]:
    return sorted(components["responses"].items())


def _operation(name: str, operation: Schema, components: Schema) -> Iterator[str]:
    yield f"\n### `{name}`\n"
    yield operation["summary"]
    if operation["description"]:
        yield f"\n{operation['description']}"
    yield "\n| | |"
    yield "|---|---|"
    yield f"| right | {_right(operation)} |"
    for parameter in operation.get("parameters", ()):
        yield f"| {_parameter(parameter, components)} |"
    if "requestBody" in operation:
        body = operation["requestBody"]
        yield f"| body | {_content(body)}{_sentence(body.get('description', ''))} |"
    errors = []
    for status, answer in operation["responses"].items():
        if "$ref" in answer:
            errors.append(status)
        else:
            yield f"| answer {status} | {_content(answer)}{_headers(answer)} |"
    yield f"| errors | {', '.join(sorted(errors))} |"


def _right(operation: Schema) -> str:
    if "security" not in operation:
        return "none; no token is needed"
    return f"`{operation['x-right']}`" if operation["x-right"] else "every token"


def _parameter(parameter: Schema, components: Schema) -> str:
    if "$ref" in parameter:  # the introduction describes it
        shared = components["parameters"][parameter["$ref"].rpartition("/")[2]]
        return f"header `{shared['name']}` | string, optional"
    schema = parameter["schema"]
    optional = "" if parameter.get("required") else ", optional"
    default = schema.get("default")
    shown = "" if default in {None, ""} else f", default `{default}`"
    return f"{parameter['in']} `{parameter['name']}` | {_kind(schema)}{optional}{shown}"


def _content(body: Schema) -> str:
    return "; ".join(
        _kind(content["schema"]) if form == "application/json" else f"`{form}`"
        for form, content in body["content"].items()
    )


def _headers(answer: Schema) -> str:
    headers = answer.get("headers", {}).items()
    return "".join(f"; header `{name}`: {header['description']}" for name, header in headers)


def _type(name: str, schema: Schema) -> Iterator[str]:
    yield f"### {name}\n"
    if schema.get("description"):
        yield f"{schema['description']}\n"
    yield "| field | type | |"
    yield "|---|---|---|"
    required = schema.get("required", ())
    for field, kind in schema["properties"].items():
        optional = "" if field in required else ", optional"
        yield f"| `{field}` | {_kind(kind)}{optional} | {kind.get('description', '')} |"
    yield ""


def _kind(schema: Schema) -> str:
    """Render a type in one line."""
    match schema:
        case {"$ref": str(reference)}:
            name = reference.rpartition("/")[2]
            return "any JSON" if name == "JsonValue" else f"[{name}](#{name.lower()})"
        case {"anyOf": list(choices)}:
            return " or ".join(map(_kind, choices))
        case {"type": "array", "items": items}:
            return f"list of {_kind(items)}"
        case {"type": "object", "additionalProperties": dict(values)}:
            return f"object of {_kind(values)}"
        case {"type": str(kind)}:
            return f"{kind} ({schema['format']})" if "format" in schema else kind
        case _:
            return "any JSON"


def _sentence(text: str) -> str:
    return f": {text}" if text else ""


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
