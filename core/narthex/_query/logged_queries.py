"""Answers that a platform keeps: what was asked, what was said, and what it was read from.

Records of a log of JSON objects, one a question; cells are rendered as answers render them.
"""

import json
from collections.abc import Mapping

import attrs

from narthex._base.records import Json

Columns = Mapping[str, list[Json]]
"""Cells by feature, in full; all of one length."""


class GarbledAnswerError(ValueError):
    """A record is no logged query."""


def answers_topic(install_id: str) -> str:
    """Name the log of an installation's logged queries; no prefix of an asset's name begins so."""
    return f"narthex_answers_{install_id}"


@attrs.frozen(kw_only=True)
class LoggedQuery:
    """One question and its answer.

    Attributes:
        commit_id: Whose definitions answered.
        as_of: Microseconds.
        workflow: What the principal calls the use of it.
        offsets: Dataset to topic to partition to offset: the answer contains what stands below.
    """

    tenant: str
    branch: str
    commit_id: str
    as_of: int
    workflow: str
    inputs: Columns
    outputs: Columns
    offsets: Mapping[str, Mapping[str, Mapping[str, int]]]

    def encoded(self) -> bytes:
        """Return the record's bytes."""
        return json.dumps(attrs.asdict(self), allow_nan=False, separators=(",", ":")).encode()

    @classmethod
    def decoded(cls, record: bytes) -> "LoggedQuery":
        """Read a record.

        Raises:
            GarbledAnswerError: It is none.
        """
        try:
            return cls(**json.loads(record))
        except (TypeError, ValueError) as error:
            raise GarbledAnswerError(f"a record is no logged query: {error}") from None
