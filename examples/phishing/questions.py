"""The spine of a training set, and the same answers computed another way.

`answers_from_tables` has no windows and no lookups: for each page it reads the tables of all pages
and verdicts, and leaves out what happened later.
"""

from typing import Final

import pandas as pd

from examples.phishing.data import SIGNALS, late_verdicts, seen_pages

PAGE: Final = "OpenedPage.page"
FEATURES: Final = (
    "OpenedPage.https",
    "OpenedPage.anchors",
    "OpenedPage.bad_signals",
    "OpenedPage.has_ip",
    "OpenedPage.judged_6h",
    "OpenedPage.phishing_6h",
    "OpenedPage.judged_ever",
    "OpenedPage.share_6h",
)
NUMBERS: Final = ("OpenedPage.bad_signals", "OpenedPage.has_ip", "OpenedPage.share_6h")
"""The features that the model reads."""

WINDOW: Final = pd.Timedelta(hours=6)


def labelled_spine() -> pd.DataFrame:
    """Return each page at the instant at which it was seen, with the later verdict."""
    pages = seen_pages()
    return pd.DataFrame(
        {
            PAGE: pages["page"],
            "timestamp": pages["seen_at"],
            "is_phishing": late_verdicts()["is_phishing"],
        }
    )


def answers_from_tables(pages: pd.DataFrame, verdicts: pd.DataFrame) -> pd.DataFrame:
    """Return the features of each page as of the instant at which it was seen, by their names."""
    judged = verdicts.merge(pages, on="page")
    rows = []
    for one in pages.to_dict("records"):
        alike = judged[(judged["https"] == one["https"]) & (judged["anchors"] == one["anchors"])]
        known = alike[alike["decided_at"] <= one["seen_at"]]
        lately = known[known["decided_at"] >= one["seen_at"] - WINDOW]
        phishing = int(lately["is_phishing"].sum())
        rows.append(
            {
                "OpenedPage.https": one["https"],
                "OpenedPage.anchors": one["anchors"],
                "OpenedPage.bad_signals": [one[name] for name in SIGNALS].count("phishing"),
                "OpenedPage.has_ip": one["has_ip"],
                "OpenedPage.judged_6h": len(lately),
                "OpenedPage.phishing_6h": phishing,
                "OpenedPage.judged_ever": len(known),
                "OpenedPage.share_6h": (phishing + 1) / (len(lately) + 2),
            }
        )
    return pd.DataFrame(rows)
