"""The client with Fennel's import path."""

from narthex.client import Client

__all__ = ["Client"]
