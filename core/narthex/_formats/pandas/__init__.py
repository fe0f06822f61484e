"""Frames of pandas: the conversions to and from columns. Importing it loads pandas."""

from narthex._formats.pandas.frames import frame_of_columns

__all__ = [
    "frame_of_columns",
]
