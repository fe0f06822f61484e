# mypy: disable-error-code="type-arg, explicit-any"
"""The additional methods of the client of authors' unit tests."""

import abc
from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import ClassVar, Protocol

import pandas as pd

from narthex._sdk.datasets.datasets import Dataset
from narthex.client import Client, Response


class Clock(Protocol):
    """The clock of a unit test's client: the machine's time, until it is set."""

    def now(self) -> datetime:
        """Return the current time, aware, in UTC."""

    def set(self, instant: datetime | str) -> None:
        """Set the clock to a fixed instant; a naive one is UTC."""

    def standing_at(self, instant: datetime) -> AbstractContextManager[None]:
        """Set the clock to a fixed instant inside the block; restore it afterwards."""

    def advance(self, by: timedelta | str) -> None:
        """Advance the clock by a duration such as `1d`."""


class TestClient(Client, abc.ABC):
    """A client whose platform is this process; unlike `Client`, it exposes datasets and rows."""

    __test__: ClassVar[bool] = False
    """Keeps pytest from collecting the class as a test because of its name."""

    clock: Clock

    @abc.abstractmethod
    def log_to_dataset(self, dataset: Dataset, df: pd.DataFrame) -> Response:
        """Write rows directly to a dataset, including one that a pipeline fills."""

    @abc.abstractmethod
    def get_dataset_df(self, dataset_name: str) -> pd.DataFrame:
        """Return all rows of a dataset, oldest first; of a keyed one, those of every instant."""

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
        """Whether the client uses an external platform; always False."""
