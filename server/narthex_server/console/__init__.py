"""The console: one page without a build step, that reads the API it stands beside."""

from importlib.resources import files


def page() -> str:
    """Give the console's page; it holds no data."""
    return files(__name__).joinpath("console.html").read_text(encoding="utf-8")
