"""What travelling code imports to make a window; the implementation is `narthex._sdk`."""

from narthex._sdk.declare.windows import Continuous, Hopping, Session, Tumbling

__all__ = ["Continuous", "Hopping", "Session", "Tumbling"]
