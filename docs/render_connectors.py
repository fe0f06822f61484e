# ruff: noqa: INP001
"""Writes `docs/reference/connectors.md` from the registry: `python -m docs.render_connectors`."""

import inspect
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from narthex._connectors import ConnectorKind, kinds
from narthex._ir import Connector

PAGE: Final = Path(__file__).parent / "reference" / "connectors.md"
_INTRODUCTION: Final = """# Connectors

This page lists the kinds of connectors: what each reads, writes and connects to. The
[guide](../guide/sources.md#connectors) shows them in use, and
[`narthex.connectors`](narthex.connectors.md) has their parameters.

`python -m docs.render_connectors` writes this page from the registry of connectors. Packages
can [add kinds](../recipes.md#a-connector).
"""


def render(shown: Iterable[ConnectorKind[Connector]]) -> str:
    """Render the page of some kinds."""
    return "\n".join([_INTRODUCTION, *("\n".join(_section(kind)) for kind in shown)])


def _section(kind: ConnectorKind[Connector]) -> Iterator[str]:
    yield f"## {kind.title}\n"
    yield f"{kind.text}\n"
    yield "| | |"
    yield "|---|---|"
    declared = ", ".join(_declared(cls, method) for cls, method in kind.declared_by)
    yield f"| declared by | {declared} |"
    if kind.source is not None:
        yield f"| read | {kind.source.input.value} |"
        yield f"| `cdc` | {', '.join(sorted(f'`{cdc.value}`' for cdc in kind.source.cdc))} |"
        if kind.source.has_cursor:
            yield "| cursor | a column that grows with each change |"
    if kind.sink is not None:
        how = "in intervals, `incremental`" if kind.sink.is_bulk else "each row at once, `debezium`"
        yield f"| written | {how} |"
    yield f"| reaches | {kind.policy.text} |"
    if kind.install:
        yield f"| needs | `{kind.install}` |"
    yield ""


def _declared(cls: type, method: str) -> str:
    parameters = [
        name
        for name, parameter in inspect.signature(getattr(cls, method)).parameters.items()
        if parameter.default is inspect.Parameter.empty and name != "self"
    ]
    return f"`{cls.__name__}(…).{method}({', '.join(parameters)})`"


if __name__ == "__main__":
    PAGE.write_text(render(kinds()), encoding="utf-8")
