"""1,250 web pages, each with its signals and a verdict, from the data that `river` contains.

The data is "Website Phishing" by N. Abdelhamid (UCI Machine Learning Repository, CC BY 4.0). It has
no instants: here, page 0 is seen at `FIRST`, and one more each minute, in the order of the file.
A verdict follows two hours later. The package is found by path, not imported.
"""

import importlib.util
from pathlib import Path
from typing import Final

import pandas as pd

FIRST: Final = pd.Timestamp("2026-01-01", tz="UTC")
VERDICT_AFTER: Final = pd.Timedelta(hours=2)
SIGNALS: Final = {
    "https": "https",
    "anchors": "anchor_from_other_domain",
    "requests": "request_from_other_domain",
    "popup": "popup_window",
}
"""The signals that are used, by their names here, with their names in the file."""

MEANINGS: Final = {0.0: "phishing", 0.5: "suspicious", 1.0: "legitimate"}
"""The meaning of a signal's number, as in the data's description."""


def source_file() -> Path:
    """Find the file in the installed package.

    Raises:
        FileNotFoundError: The package is not installed.
    """
    spec = importlib.util.find_spec("river")
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError("the package `river` is not installed; run `make setup`")
    return Path(next(iter(spec.submodule_search_locations))) / "datasets" / "phishing.csv.gz"


def seen_pages() -> pd.DataFrame:
    """Return the pages in the order in which they were seen: number, signals and instant."""
    raw = pd.read_csv(source_file())
    signals = {name: raw[column].map(MEANINGS) for name, column in SIGNALS.items()}
    return pd.DataFrame(
        {
            "page": range(len(raw)),
            **signals,
            "has_ip": raw["ip_in_url"] == 1,
            "seen_at": FIRST + pd.to_timedelta(range(len(raw)), unit="min"),
        }
    )


def late_verdicts() -> pd.DataFrame:
    """Return the verdicts in the order in which they were made: page, verdict and instant."""
    raw = pd.read_csv(source_file())
    return pd.DataFrame(
        {
            "page": range(len(raw)),
            "is_phishing": raw["is_phishing"] == 1,
            "decided_at": seen_pages()["seen_at"] + VERDICT_AFTER,
        }
    )
