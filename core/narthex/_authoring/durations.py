"""Read the durations that authors write."""

from narthex._base.origin import Origin
from narthex._base.times import DurationError, parse_duration
from narthex.errors import DurationInvalid


def read_duration(duration: object, *, origin: Origin, what: str = "") -> int:
    """Read a duration.

    Raises:
        DurationInvalid: It is not text, or not a duration.
    """
    if not isinstance(duration, str):
        raise DurationInvalid(
            f"{what or 'a duration'} must be text such as `1d`, got `{duration!r}`", origin=origin
        )
    try:
        return parse_duration(duration)
    except DurationError as error:
        raise DurationInvalid(f"{what}: {error}" if what else str(error), origin=origin) from None
