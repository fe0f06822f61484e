"""The files that an operator edits, as a new installation has them: comments on their syntax."""

from pathlib import Path
from typing import Final

from narthex._base import atomic_write

POLICY: Final = """\
# What branches of this installation may read, write and name; `narthex policy check` checks it.
# It is read at each commit and at each start of a job; a file with mistakes lets nothing through.
# Without a rule: files below the files root and topics may be read, and nothing may be written.

# [egress]                       # hosts beyond the public internet that connectors may reach
# allow = ["127.0.0.1:5432", "10.0.0.0/8", "db.internal:5432"]

# [[files]]                      # with one such rule, files without a rule may not be read
# path = "flights/**"            # below the files root, or "s3://bucket/prefix/**"
# branches = ["*"]               # patterns of the branches that the rule is for
# tags = []                      # tags of the rows that are read from there
# write = false                  # whether sinks may write there

# [[endpoints]]                  # without a rule, an endpoint is of the branch that bound it first
# name = "flights/*"             # webhook/endpoint
# branches = ["main"]            # branches that may bind it, and whose tokens may write to it
# tags = ["pii"]

# [[topics]]
# name = "orders*"
# servers = "*"                  # a pattern for the bootstrap servers as definitions write them
# branches = ["*"]
# tags = []
# write = false                  # whether sinks may write there

# [[secrets]]
# name = "pg/*"
# branches = ["main"]
# hosts = ["db.example.com:5432"]  # where a connector may send it
# code = false                   # whether code of authors may read it
"""


ALERTS: Final = """\
# The receivers of alerts, and the bounds of their rules; the guide on alerts has all keys.
# It is read at each evaluation; while it has mistakes, the last valid one applies. It has no
# secrets: store those with `narthex secret set`. `narthex alerts test` sends a test message.

# [[receivers]]
# name = "on-call"
# kind = "slack"                 # or "webhook", "alertmanager", "email"
# url_secret = "alerts/slack"    # the name of the secret that is the address; or `url`
# severity = "warning"           # the least urgent severity that it gets

# [[receivers]]
# name = "mail"
# kind = "email"
# host = "smtp.example.com"
# user = "narthex"
# password_secret = "alerts/smtp"
# sender = "narthex@example.com"
# to = ["on-call@example.com"]

# [rules.freshness]              # of all datasets; `@meta(alerts=[…])` bounds single ones
# max_age = "1d"

# [rules.lag]
# max_age = "10m"
# branches = ["main"]
"""


def ensure_file(path: Path, content: str) -> None:
    """Write a file if there is none; an existing one is left unchanged."""
    if not path.exists() and not path.is_symlink():
        atomic_write(path, content)
