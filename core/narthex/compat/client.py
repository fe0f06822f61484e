"""The client as Fennel's authors call it."""

from narthex.client import Client

__all__ = ["Client"]
