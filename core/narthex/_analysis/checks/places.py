"""The places that sources and sinks may not name, whatever an installation's policy grants."""

import re
from collections.abc import Iterator
from typing import Final

from narthex._base.file_paths import path_mistake
from narthex._base.origin import Origin
from narthex._connectors.kinds import EndpointPlace, FilesPlace, TopicPlace
from narthex._connectors.registry import kind_of
from narthex._ir.connections import Connector
from narthex.errors import PlaceForbidden

INTERNAL: Final = re.compile(r"__|nx_[a-z0-9]{8}_|narthex_answers_")
"""The prefixes of topic names that the platform or its broker reserves, on any broker."""

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_MOST_SHOWN: Final = 64


def place_errors(connector: Connector, origin: Origin) -> Iterator[PlaceForbidden]:
    """Return the errors of the place that a source reads or a sink writes."""
    match kind_of(connector).policy.place(connector):
        case FilesPlace(path=path):
            mistake = path_mistake(path)
            if mistake:
                yield PlaceForbidden(
                    f"the path `{path}` cannot be read or written: {mistake}",
                    origin=origin,
                    hint="give a path below the files root, such as `orders/*.csv`, or "
                    "`s3://bucket/…`",
                )
        case TopicPlace(topic=topic):
            yield from _topic_errors(topic, origin)
        case EndpointPlace(webhook=webhook) if "/" in webhook:
            yield PlaceForbidden(
                f"the webhook `{webhook[:_MOST_SHOWN]}` has a `/` in its name",
                origin=origin,
                hint="remove it; a `/` separates a webhook and its endpoint",
            )
        case _:
            pass


def is_topic(name: str) -> bool:
    """Whether a name is the name of one topic that an author may use."""
    is_one = name not in {".", ".."} and _TOPIC.fullmatch(name) is not None
    return is_one and INTERNAL.match(name) is None


def _topic_errors(topic: str, origin: Origin) -> Iterator[PlaceForbidden]:
    if is_topic(topic):
        return
    if INTERNAL.match(topic):
        yield PlaceForbidden(
            f"the topic `{topic[:_MOST_SHOWN]}` is reserved for the platform or its broker",
            origin=origin,
            hint="name a topic of your own; a pipeline reads the rows of a dataset",
        )
    else:
        yield PlaceForbidden(
            f"`{topic[:_MOST_SHOWN]}` is not the name of one topic",
            origin=origin,
            hint="give one name of at most 249 letters, digits, `.`, `_` and `-`",
        )
