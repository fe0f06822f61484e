"""The names that captured code imports to create a struct; `narthex._sdk` implements them."""

from narthex._sdk.declare.structs import struct_of

__all__ = ["struct_of"]
