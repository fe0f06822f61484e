# ruff: noqa: INP001
"""MkDocs hooks of the documentation site: drawings, and the list of decisions."""

import re
from pathlib import Path
from typing import Any

import mermaidx

_BLOCK = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MARKS = re.compile(r"^```(py|python|sh|text|csv|json) [a-z. ]+$", re.MULTILINE)
"""Fences whose language is followed by marks for the tests, such as `sh run`."""


def on_config(config: Any) -> Any:
    """Add the pages of decisions to the navigation, in the order of their numbers."""
    docs = Path(config["docs_dir"])
    pages = sorted(page.name for page in (docs / "decisions").glob("*.md"))
    config["nav"].append({"Decisions": [f"decisions/{page}" for page in pages]})
    return config


def on_page_markdown(markdown: str, **_: object) -> str:
    """Render the Mermaid blocks of a page as SVG; a block with a mistake fails the build."""
    return _BLOCK.sub(_drawing, _MARKS.sub(r"```\1", markdown))


def _drawing(block: re.Match[str]) -> str:
    return f'<div class="drawing">\n{mermaidx.Diagram(block[1]).svg()}\n</div>'
