"""The responses that calls of the client return."""

from collections.abc import Mapping

import attrs

from narthex._base.records import Json
from narthex._base.times import render_instant
from narthex._server_calls.notebook_views import facts_view, rows_view, view_of_body


@attrs.frozen(kw_only=True)
class Response:
    """A response of the server; attributes, `.json()` and `["status_code"]` have the same parts."""

    status_code: int
    headers: Mapping[str, str]
    body: dict[str, Json]

    def json(self) -> dict[str, Json]:
        """Return the body."""
        return self.body

    def _repr_html_(self) -> str:
        return view_of_body(self.body)

    def __getitem__(self, name: str) -> object:
        """Return a part by name: `status_code`, `headers`, `body`, or a part of the body."""
        match name:
            case "status_code":
                return self.status_code
            case "headers":
                return self.headers
            case "body":
                return self.body
            case _:
                return self.body[name]


@attrs.frozen(kw_only=True)
class ReadInfo:
    """The data that an answer was read from.

    Attributes:
        commit_id: The commit whose assets were read.
        serving_seq: The number of the commit's promotion on the branch.
        as_of_us: The instant as of which it was read, microseconds.
        offsets: For each dataset, topic and partition, the next offset that was not read; empty
            without `explain`.
        features: With `explain`, the origin of each feature: `sources`, the dataset's column or the
            features that it comes from, and lists with one item per row: `event_time` of the oldest
            row that was found, its age in seconds, `age_s`, and whether a default was used,
            `default`.
    """

    commit_id: str
    serving_seq: int
    as_of_us: int
    offsets: Mapping[str, Mapping[str, Mapping[str, int]]]
    features: Mapping[str, Json] = attrs.field(factory=dict)

    def _repr_html_(self) -> str:
        read = {"commit": self.commit_id, "as of": render_instant(self.as_of_us)}
        offsets = [
            (dataset, topic, partition, offset)
            for dataset, topics in self.offsets.items()
            for topic, partitions in topics.items()
            for partition, offset in partitions.items()
        ]
        columns = ("dataset", "topic", "partition", "offset")
        return facts_view(read.items()) + (rows_view(columns, offsets) if offsets else "")

    def plain(self) -> dict[str, Json]:
        """Return it as the server sent it."""
        return {
            "commit_id": self.commit_id,
            "serving_seq": self.serving_seq,
            "as_of": self.as_of_us,
            "offsets": {
                dataset: {topic: dict(parts) for topic, parts in topics.items()}
                for dataset, topics in self.offsets.items()
            },
        }


def parse_read(plain: Json, features: Json = None) -> ReadInfo | None:
    """Parse the header `x-narthex-read`, or an explanation; None if it is missing or not valid."""
    match plain:
        case {"commit_id": str(commit_id), "serving_seq": int(seq), "as_of": int(as_of), **rest}:
            offsets = rest.get("offsets")
            datasets = offsets.items() if isinstance(offsets, dict) else ()
            return ReadInfo(
                commit_id=commit_id,
                serving_seq=seq,
                as_of_us=as_of,
                offsets={dataset: _topics(topics) for dataset, topics in datasets},
                features=features if isinstance(features, dict) else {},
            )
        case _:
            return None


def _topics(topics: Json) -> dict[str, dict[str, int]]:
    if not isinstance(topics, dict):
        return {}
    return {topic: _partitions(partitions) for topic, partitions in topics.items()}


def _partitions(partitions: Json) -> dict[str, int]:
    if not isinstance(partitions, dict):
        return {}
    return {key: offset for key, offset in partitions.items() if isinstance(offset, int)}
