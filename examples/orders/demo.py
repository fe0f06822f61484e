"""`python -m examples.orders.demo`: orders from a file and from a shop, and whom to write to.

Starts the platform, fills 1997 from a file, sends 1998 as the shop would, makes a training set, and
compares the customers that a model picks for the last mailing with all of them.
"""

import json
from collections.abc import Callable
from typing import Final

import attrs
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from examples.orders.data import live_orders, write_archive
from examples.orders.features import Cohorts, Customers, Habits, LastOrders, Orders, Shopper
from examples.orders.questions import CUSTOMER, FEATURES, MAILINGS, NUMBERS, labelled_spine
from examples.platform import client_of, start_platform, values_of
from narthex.client import Client

BRANCH: Final = "orders"
TRAINING_SET: Final = "mailings-1"
PICKED: Final = 200
DATASETS: Final = (Orders, Customers, Habits, LastOrders, Cohorts)


@attrs.frozen(kw_only=True)
class Outcome:
    """The result of the demo.

    Attributes:
        share: The share of all customers who ordered within 30 days of the last mailing.
        share_of_picked: The same share of the `PICKED` customers that the model ranks first.
        unequal: The picked customers whose online answer differs from the training set.
    """

    rows: int
    share: float
    share_of_picked: float
    unequal: tuple[int, ...]


def run(client: Client, fill: Callable[[], None]) -> Outcome:
    """Commit, fill the history, send the live orders, train and pick.

    Args:
        client: The client of a branch without these definitions.
        fill: Called after the commit; puts the archive into the datasets where a commit does not.
    """
    client.commit("customers of the shop", datasets=[*DATASETS], featuresets=[Shopper])
    fill()
    sent = client.log("music", "orders", live_orders())
    # This query waits until all that is read here contains the orders.
    wanted = ["Shopper.orders_ever", "Shopper.last_order_at", "Shopper.cohort_orders_30d"]
    after = str(sent["after"]) if sent else None
    client.query([CUSTOMER], wanted, pd.DataFrame({CUSTOMER: [4]}), after=after)
    training = client.training_set(
        TRAINING_SET, labelled_spine(), list(FEATURES), timestamp_column="timestamp"
    )
    rows = training.frame
    is_last = rows["timestamp"] == MAILINGS[-1]
    picked = _pick(rows[~is_last], rows[is_last])
    return Outcome(
        rows=len(rows),
        share=float(rows.loc[is_last, "orders_soon"].mean()),
        share_of_picked=float(picked["orders_soon"].mean()),
        unequal=_unequal(client, picked),
    )


def _pick(before: pd.DataFrame, last: pd.DataFrame) -> pd.DataFrame:
    """Train on the mailings before; return the rows that the model ranks first."""
    model = make_pipeline(StandardScaler(), LogisticRegression())
    model.fit(before[list(NUMBERS)].astype(float), before["orders_soon"].astype(bool))
    chance = model.predict_proba(last[list(NUMBERS)].astype(float))[:, 1]
    ranked = pd.Series(chance, index=last.index).sort_values(ascending=False, kind="stable")
    return last.loc[ranked.index[:PICKED]].reset_index(drop=True)


def _unequal(client: Client, picked: pd.DataFrame) -> tuple[int, ...]:
    """Ask online as of the last mailing; return the customers whose answers differ."""
    online = client.query([CUSTOMER], list(FEATURES), picked[[CUSTOMER]], as_of=MAILINGS[-1])
    pairs = zip(values_of(online, FEATURES), values_of(picked, FEATURES), strict=True)
    same = [one == other for one, other in pairs]
    return tuple(int(one) for one in picked.loc[[not is_same for is_same in same], CUSTOMER])


def main() -> int:
    """Run the demo on the platform; exit with 0 only if all answers are equal."""
    settings = start_platform()
    write_archive(settings.files_root)
    outcome = run(client_of(settings, BRANCH), fill=lambda: None)
    print(json.dumps(attrs.asdict(outcome)))
    return 1 if outcome.unequal else 0


if __name__ == "__main__":
    raise SystemExit(main())
