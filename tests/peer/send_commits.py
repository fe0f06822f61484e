"""Writes the commits that the peer's client sends of the definitions in its own tests.

    python send_commits.py DIRECTORY

It runs in the environment of the peer's client. Each module is a file: its name, and its env.
"""

import importlib
import pkgutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fennel.client_tests
from fennel.datasets import Dataset
from fennel.featuresets import Featureset
from fennel.internal_lib.to_proto import to_sync_request_proto

ENVS = {"test_movie_tickets": "prod", "test_tier_selector": "dev"}
"""Envs of the modules that the client refuses to send without one, or for another."""


def commits() -> Iterator[tuple[str, bytes]]:
    """Yield the name of each module with definitions, and its commit."""
    for found in pkgutil.walk_packages(fennel.client_tests.__path__, "fennel.client_tests."):
        members: list[Any] = [*vars(importlib.import_module(found.name)).values()]
        entities = {id(one): one for one in members if isinstance(one, Dataset | Featureset)}
        if entities:
            name = found.name.removeprefix("fennel.client_tests.")
            env = ENVS.get(name.rpartition(".")[2])
            sent = to_sync_request_proto([*entities.values()], "", env)
            yield f"{name} {env or ''}".rstrip(), sent.SerializeToString()


if __name__ == "__main__":
    for title, body in commits():
        Path(sys.argv[1], title).write_bytes(body)
