"""Commits of Fennel's client, which it sends as protobuf.

- `fields` decodes messages by tables of field numbers; `*_messages` are the tables.
- `types`, `expressions`, `code`, `aggregates`, `connectors` translate the parts; `sources`,
  `pipelines`, `featuresets` and `commits` put them together.

Start with `commits`.
"""

from narthex.compat.wire.commits import FennelCommit, read_commit

__all__ = ["FennelCommit", "read_commit"]
