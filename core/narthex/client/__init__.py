"""The client of a Narthex server."""

from narthex._server_calls.responses import ReadInfo, Response
from narthex.client.async_client import AsyncClient
from narthex.client.client import Client
from narthex.client.training_sets import TrainingSet

__all__ = ["AsyncClient", "Client", "ReadInfo", "Response", "TrainingSet"]
