"""`python -m examples.phishing.demo`: from rows to a model, and the same answers online.

Starts the platform, sends pages and verdicts, makes a training set, trains a model on the first
900 pages and judges the rest, then asks online for some of them.
"""

import json
from typing import Final

import attrs
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from examples.phishing.data import late_verdicts, seen_pages
from examples.phishing.features import Lookalikes, OpenedPage, Pages, Verdicts
from examples.phishing.questions import FEATURES, NUMBERS, PAGE, labelled_spine
from examples.platform import client_of, start_platform, values_of
from narthex.client import Client

BRANCH: Final = "phishing"
TRAINING_SET: Final = "phishing-1"
EARLY: Final = 900
ASKED: Final = (0, 300, 900, 1249)
"""The pages that are asked for online, each as of the instant at which it was seen."""


@attrs.frozen(kw_only=True)
class Outcome:
    """The result of the demo.

    Attributes:
        score: The area under the curve on the pages after the first `EARLY`; 0.5 is a guess.
        unequal: The pages for which the online answer differs from the training set.
    """

    rows: int
    score: float
    unequal: tuple[int, ...]


def run(client: Client) -> Outcome:
    """Commit, send all rows, train and compare."""
    client.commit(
        "pages that somebody opens",
        datasets=[Pages, Verdicts, Lookalikes],
        featuresets=[OpenedPage],
    )
    _send(client, "pages", seen_pages(), awaited="OpenedPage.has_ip")
    _send(client, "verdicts", late_verdicts(), awaited="OpenedPage.judged_ever")
    training = client.training_set(
        TRAINING_SET, labelled_spine(), list(FEATURES), timestamp_column="timestamp"
    )
    return Outcome(
        rows=len(training.frame),
        score=_score(training.frame),
        unequal=tuple(page for page in ASKED if not _is_equal(client, training.frame, page)),
    )


def _send(client: Client, endpoint: str, rows: pd.DataFrame, *, awaited: str) -> None:
    """Send rows, and wait until a feature that is made of them contains them."""
    response = client.log("browser", endpoint, rows)
    after = str(response["after"]) if response else None
    client.query([PAGE], [awaited], pd.DataFrame({PAGE: [0]}), after=after)


def _score(rows: pd.DataFrame) -> float:
    numbers, labels = rows[list(NUMBERS)].astype(float), rows["is_phishing"].astype(bool)
    model = LogisticRegression().fit(numbers[:EARLY], labels[:EARLY])
    return float(roc_auc_score(labels[EARLY:], model.predict_proba(numbers[EARLY:])[:, 1]))


def _is_equal(client: Client, rows: pd.DataFrame, page: int) -> bool:
    """Ask online for a page as of its instant; compare with its row of the training set."""
    row = rows[rows[PAGE] == page].reset_index(drop=True)
    online = client.query([PAGE], list(FEATURES), row[[PAGE]], as_of=row["timestamp"][0])
    return values_of(online, FEATURES) == values_of(row, FEATURES)


def main() -> int:
    """Run the demo on the platform; exit with 0 only if all answers are equal."""
    client = client_of(start_platform(), BRANCH)
    outcome = run(client)
    print(json.dumps(attrs.asdict(outcome)))
    return 1 if outcome.unequal else 0


if __name__ == "__main__":
    raise SystemExit(main())
