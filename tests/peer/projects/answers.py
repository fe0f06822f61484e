"""A program beside a project of Fennel's style: its answers in process, then on a platform.

    python -m narthex.compat.fennel answers.py URL TOKEN BRANCH

Run in the directory of a project. Both answers are as of one instant. The platform is asked until
its answers are those in process, or for two minutes. Prints both as JSON.
"""

import json
import sys
import time
from datetime import datetime, timezone

import checks
from fennel.client import Client
from fennel.testing import mock

WITHIN_S = 120.0
AT = datetime.now(timezone.utc)
INPUTS = list(checks.ASKED.columns)


def answers(client):
    found = client.query(
        inputs=INPUTS, outputs=checks.OUTPUTS, input_dataframe=checks.ASKED, as_of=AT
    )
    return json.loads(found.to_json(orient="records", date_format="iso"))


@mock
def in_process(client):
    checks.fill(client)
    return answers(client)


def on_platform(url, token, branch, expected):
    client = Client(url, token)
    client.init_branch(branch)
    checks.fill(client)
    ends_at = time.monotonic() + WITHIN_S
    found = answers(client)
    while found != expected and time.monotonic() < ends_at:
        time.sleep(1.0)
        found = answers(client)
    return found


expected = in_process()
served = on_platform(*sys.argv[1:], expected)
print(json.dumps({"in_process": expected, "served": served}))
