"""The client of a Narthex server."""

from narthex.client.client import Client
from narthex.client.responses import ReadInfo, Response

__all__ = ["Client", "ReadInfo", "Response"]
