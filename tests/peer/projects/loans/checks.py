from datetime import datetime, timedelta, timezone
from decimal import Decimal

import pandas as pd
import pytest
from fennel.testing import mock

from loans.derived import (
    Activity,
    Balance,
    Booked,
    EuroPayment,
    LabelCount,
    LatestApplication,
    Risk,
    VisitCount,
    VisitSession,
)
from loans.features.account import (
    AccountFeatures,
    BalanceFeatures,
    Behaviour,
    Decision,
    Labels,
    Question,
)
from loans.raw import Account, Application, Payment, Rate, Visit

DATASETS = [
    Account,
    Rate,
    Payment,
    Visit,
    Application,
    EuroPayment,
    Balance,
    Booked,
    LabelCount,
    VisitCount,
    VisitSession,
    LatestApplication,
    Risk,
    Activity,
]
FEATURESETS = [Question, AccountFeatures, BalanceFeatures, Labels, Behaviour, Decision]
INPUTS = [Question.account, Question.labels]
OUTPUTS = [one for one in FEATURESETS if one is not Question]

NOW = datetime.now(timezone.utc).replace(minute=0, second=0, microsecond=0)


def ago(hours):
    return NOW - timedelta(hours=hours)


ROWS = {
    ("loans_bank", "Account"): pd.DataFrame(
        {
            "account": ["a", "b"],
            "iban": ["DE12", "FR34"],
            "holder": ["Ann", "Bob"],
            "limit": [Decimal("100.50"), Decimal("0.00")],
            "opened": [ago(500), ago(500)],
        }
    ),
    ("loans_bank", "Rate"): pd.DataFrame(
        {
            "currency": ["EUR", "USD", "USD"],
            "euros": [1.0, 0.5, 0.75],
            "at": [ago(500), ago(500), ago(50)],
        }
    ),
    ("loans_bank", "Payment"): pd.DataFrame(
        {
            "account": ["a", "a", "b", "a", "b"],
            "amount": [100.0, 40.0, 10.0, 20.0, 8.0],
            "currency": ["EUR", "USD", "USD", "USD", "XXX"],
            "kind": ["in", "out", "in", "out", "in"],
            "booked": [ago(90), ago(70), ago(60), ago(10), ago(5)],
            "labels": [["rent", "home"], [], ["rent"], ["fun"], ["lost"]],
            "at": [ago(100), ago(80), ago(70), ago(20), ago(6)],
        }
    ),
    ("loans_web", "Visit"): pd.DataFrame(
        {
            "account": ["a", "a", "a", "b"],
            "page": ["loan", "loan", "home", "loan"],
            "device": ["phone", None, "phone", None],
            "extra": [{"x": "1"}, {}, {}, {"y": "2"}],
            "at": [ago(30), ago(29.9), ago(20), ago(10)],
        }
    ),
    ("loans_web", "Application"): pd.DataFrame(
        {
            "account": ["a", "a", "b", "b"],
            "amount": [1200.0, 600.0, 120.0, 500.0],
            "months": [12, 12, 12, 0],
            "at": [ago(25), ago(12), ago(9), ago(8)],
        }
    ),
}

ASKED = pd.DataFrame(
    {
        "Question.account": ["a", "b", "zz"],
        "Question.labels": [["rent", "home"], ["fun"], ["nope", "rent"]],
    }
)
SPINE = pd.DataFrame(
    {
        "Question.account": ["a", "a", "b"],
        "Question.labels": [["rent"], ["rent", "fun"], ["home"]],
        "at": [ago(90), ago(15), ago(1)],
    }
)


def fill(client):
    client.commit(message="loans", datasets=DATASETS, featuresets=FEATURESETS)
    for (webhook, endpoint), rows in ROWS.items():
        client.log(webhook, endpoint, rows)


@mock
def test_online(client):
    fill(client)
    df = client.query(inputs=INPUTS, outputs=OUTPUTS, input_dataframe=ASKED)
    assert df["AccountFeatures.holder"].tolist() == ["Ann", "Bob", "nobody"]
    assert df["AccountFeatures.country"].tolist() == ["ann", "bob", "none"]
    assert df["BalanceFeatures.balance"].tolist() == [65.0, 5.0, 0.0]
    assert df["BalanceFeatures.payments"].tolist() == [3, 1, 0]
    assert df["BalanceFeatures.recent"].tolist() == [-15.0, 0.0, 0.0]
    assert df["BalanceFeatures.booked_sum"].tolist() == [65.0, 5.0, 0.0]
    assert df["BalanceFeatures.currencies"].tolist() == [["EUR", "USD"], ["USD"], []]
    assert df["Labels.count"].tolist() == [[2, 1], [1], [0, 2]]
    assert df["Labels.total"].tolist() == [3, 1, 2]
    assert df["Behaviour.visits"].tolist() == [2, 1, 0]
    assert df["Behaviour.pages"].tolist()[:2] == [["loan", "home"], ["loan"]]
    assert df["Behaviour.events"].tolist()[::2] == [5, 0]
    assert df["Decision.monthly"].tolist() == [50.0, 10.0, 0.0]
    assert df["Decision.applicant"].tolist()[:2] == ["Ann", "Bob"]
    assert df["Decision.grade"].tolist() == ["B", "B", "B"]


@mock
def test_offline(client):
    fill(client)
    df = client.query_offline(
        inputs=INPUTS,
        outputs=[BalanceFeatures.balance, Labels.count, Decision.monthly],
        timestamp_column="at",
        input_dataframe=SPINE,
    )
    assert df["BalanceFeatures.balance"].tolist() == [100.0, 65.0, 5.0]
    assert df["Labels.count"].tolist() == [[1], [2, 1], [1]]
    assert df["Decision.monthly"].tolist() == [0.0, 100.0, 10.0]


@mock
def test_sessions(client):
    fill(client)
    df = client.get_dataset_df("VisitSession")
    assert df["account"].tolist().count("b") == 1


@mock
def test_erased(client):
    fill(client)
    client.erase(Account, erase_keys=pd.DataFrame({"account": ["a"]}))
    df, found = client.lookup(Account, keys=pd.DataFrame({"account": ["a", "b"]}))
    assert found.tolist() == [False, True]


@mock
def test_a_wrong_iban(client):
    fill(client)
    with pytest.raises(Exception):
        client.log("loans_bank", "Account", ROWS["loans_bank", "Account"].assign(iban="12"))


def test_the_decision_alone():
    one = pd.Series([1.0])
    df = Decision.decide(Decision, pd.Series([NOW]), one, one, one)
    assert df["Decision.score"].tolist() == [0.0]
