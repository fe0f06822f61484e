# mypy: disable-error-code="type-arg, explicit-any"
"""What a client of authors' unit tests can do beside what every client can."""

import abc
from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import ClassVar, Protocol

import pandas as pd

from narthex._sdk.datasets.datasets import Dataset
from narthex.client import Client, Response


class Clock(Protocol):
    """What time it is for a client of a unit test: the machine's, until it is set."""

    def now(self) -> datetime:
        """Return the present, aware, UTC."""

    def set(self, instant: datetime | str) -> None:
        """Stop at an instant; a naive one is UTC."""

    def standing_at(self, instant: datetime) -> AbstractContextManager[None]:
        """Stand still at an instant inside the block; after it, go on as before."""

    def advance(self, by: timedelta | str) -> None:
        """Go ahead, by a duration such as `1d`."""


class TestClient(Client, abc.ABC):
    """A client whose platform is this process; beside `Client`, it can be looked into."""

    __test__: ClassVar[bool] = False
    """It is no test, whatever pytest thinks of its name."""

    clock: Clock

    @abc.abstractmethod
    def log_to_dataset(self, dataset: Dataset, df: pd.DataFrame) -> Response:
        """Put rows straight into a dataset, one that a pipeline fills too."""

    @abc.abstractmethod
    def get_dataset_df(self, dataset_name: str) -> pd.DataFrame:
        """Return all rows of a dataset, oldest first; of a keyed dataset, the rows of every
        instant.
        """

    @abc.abstractmethod
    def get_datasets(self) -> list[Dataset]:
        """Return the datasets of the branch."""

    @abc.abstractmethod
    def get_featuresets(self) -> Sequence[object]:
        """Return the featuresets of the branch."""

    @abc.abstractmethod
    def sleep(self, seconds: float = 0) -> None:
        """Let time pass without waiting for it."""

    @abc.abstractmethod
    def is_integration_client(self) -> bool:
        """Whether a platform of its own answers: never."""
