"""Types of fields and features, and the windows of aggregates."""

from narthex._sdk.annotations import Decimal, Embedding, between, oneof, regex
from narthex._sdk.declare.structs import Window, struct
from narthex._sdk.declare.windows import Continuous, Hopping, Session, Tumbling

__all__ = [
    "Continuous",
    "Decimal",
    "Embedding",
    "Hopping",
    "Session",
    "Tumbling",
    "Window",
    "between",
    "oneof",
    "regex",
    "struct",
]
