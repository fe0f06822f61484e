"""What travelling code imports to make a struct; the implementation is `narthex._sdk`."""

from narthex._sdk.declare.structs import struct_of

__all__ = ["struct_of"]
