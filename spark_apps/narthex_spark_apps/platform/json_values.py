"""JSON forms of the values that decoders and drivers return."""

import base64
import datetime as dt
import math
from collections.abc import Mapping

from narthex._base import Json


def plain(value: object) -> Json:
    """Return the JSON form of a value, which the type check reads as the same value."""
    match value:
        case float():
            return None if math.isnan(value) else value
        case None | bool() | int() | str():
            return value
        case Mapping():
            return {str(name): plain(member) for name, member in value.items()}
        case list() | tuple():
            return [plain(member) for member in value]
        case bytes() | bytearray() | memoryview():
            return base64.b64encode(value).decode()
        case dt.datetime() | dt.date() | dt.time():
            return value.isoformat()
        case dt.timedelta():
            return value.total_seconds()
        case _:  # a decimal, a UUID
            return str(value)
