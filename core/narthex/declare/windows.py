"""The names that captured code imports to create a window; `narthex._sdk` implements them."""

from narthex._sdk.declare.windows import Continuous, Hopping, Session, Tumbling

__all__ = ["Continuous", "Hopping", "Session", "Tumbling"]
