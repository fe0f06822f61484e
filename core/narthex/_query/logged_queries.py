"""Logged queries: the inputs, the answer, and the log offsets at which it was read.

Records of a log of JSON objects, one per query; cells are rendered as in answers.
"""

import json
from collections.abc import Mapping

import attrs

from narthex._base.records import Json

Columns = Mapping[str, list[Json]]
"""Cells by fully qualified feature; all of one length."""


class GarbledAnswerError(ValueError):
    """A record that is not a logged query."""


def answers_topic(install_id: str) -> str:
    """Name the log of an installation's logged queries; names of assets have other prefixes."""
    return f"narthex_answers_{install_id}"


@attrs.frozen(kw_only=True)
class LoggedQuery:
    """One query and its answer.

    Attributes:
        commit_id: The commit whose definitions answered.
        as_of: Microseconds.
        workflow: The client's name for the purpose of the query.
        offsets: Dataset to topic to partition to offset: the answer contains the records below it.
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
        """Encode the record."""
        return json.dumps(attrs.asdict(self), allow_nan=False, separators=(",", ":")).encode()

    @classmethod
    def decoded(cls, record: bytes) -> "LoggedQuery":
        """Decode a record.

        Raises:
            GarbledAnswerError: It is not a logged query.
        """
        try:
            return cls(**json.loads(record))
        except (TypeError, ValueError) as error:
            raise GarbledAnswerError(f"a record is not a logged query: {error}") from None
