"""The policy file of a new installation: without rules, with comments on their syntax."""

from pathlib import Path
from typing import Final

from narthex._base import atomic_write

COMMENTED: Final = """\
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


def ensure_policy(path: Path) -> None:
    """Write a policy without rules if there is none; an existing file is left unchanged."""
    if not path.exists() and not path.is_symlink():
        atomic_write(path, COMMENTED)
