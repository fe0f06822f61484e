# mypy: disable-error-code="type-arg, explicit-any"
"""The client of a unit test: the client of a server, with a platform in its own process."""

import functools
import inspect
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar, copy_context
from datetime import timedelta
from typing import ClassVar

import pandas as pd
from typing_extensions import override

from narthex import lookups
from narthex._formats.pandas import frame_of_columns
from narthex._ir import DataType
from narthex._query import rows_finder
from narthex._sdk.datasets import Dataset
from narthex._sdk.features import Featureset
from narthex._server_calls import COMMIT_TIMEOUT_S, Tell, dataset_name
from narthex._testing import InProcessCalls, TestClient, finder
from narthex.client import Response
from narthex.errors import ArgumentsUnfit
from narthex_reference.inprocess.branches import BranchState
from narthex_reference.inprocess.caller import MAIN, InProcessCaller
from narthex_reference.inprocess.clock import UnitTestClock
from narthex_reference.inprocess.intake import direct_endpoint

_CURRENT: "ContextVar[weakref.ref[MockClient] | None]" = ContextVar("narthex_client", default=None)


def _silent(news: str) -> None:
    """Discard a progress message."""


class MockClient(TestClient):
    """A client whose platform is this process: commits and rows take effect at once.

    While it exists, it answers `SomeDataset.lookup(…)` in the test's own code; of several clients
    the one that was created last answers.
    """

    calls_of: ClassVar[type[InProcessCalls]] = InProcessCalls
    """The class of what runs authors' code."""

    def __init__(self, branch: str | None = None) -> None:
        """Begin with an empty branch `main`."""
        self.clock = UnitTestClock()
        self._tell = _silent
        self._caller = InProcessCaller(branch or MAIN, self.clock, self.calls_of)
        super().__init__("", caller=self._caller, pause_s=0.0)
        _CURRENT.set(weakref.ref(self))
        lookups.found_outside_by(_finder)

    @property
    def _branch(self) -> str:
        return self._caller.branch

    @property
    def branches_map(self) -> Mapping[str, BranchState]:
        """The branches by name."""
        return self._caller.branches

    @override
    def commit(
        self,
        message: str = "",
        datasets: Sequence[Dataset | type] | None = None,
        featuresets: Sequence[Featureset | type] | None = None,
        preview: bool = False,
        env: str | None = None,
        incremental: bool = False,
        backfill: bool = True,
        *,
        expect_plan: str = "",
        confirm_empty: bool = False,
        wait: bool = True,
        timeout_s: float = COMMIT_TIMEOUT_S,
        tell: Tell = _silent,
    ) -> Response:
        given = [*(datasets or ()), *(featuresets or ()), *self._added.values()]
        answer = super().commit(
            message,
            datasets,
            featuresets,
            preview,
            env,
            incremental,
            backfill,
            expect_plan=expect_plan,
            confirm_empty=confirm_empty,
            wait=wait,
            timeout_s=timeout_s,
            tell=tell,
        )
        if not preview:
            branch = self._caller.current()
            kept = branch.objects if incremental else {}
            known = (one for one in given if isinstance(one, Dataset | Featureset))
            branch.objects = {**kept, **{one.fqn(): one for one in known}}
        return answer

    @override
    def log(
        self, webhook: str, endpoint: str, df: pd.DataFrame, batch_size: int = 1000
    ) -> Response:
        """Push rows to a webhook's endpoint; all are accepted, or none.

        Raises:
            Refused: Rows do not fit; the message names them.
        """
        answer = super().log(webhook, endpoint, df, max(batch_size, len(df), 1))
        return answer or Response(status_code=200, headers={}, body={"accepted": 0})

    @override
    def log_to_dataset(self, dataset: Dataset, df: pd.DataFrame) -> Response:
        endpoint = direct_endpoint(dataset.fqn())
        return self.log(endpoint.webhook, endpoint.endpoint, df)

    @override
    def get_dataset_df(self, dataset_name: str) -> pd.DataFrame:
        types = self._types_in(dataset_name)
        return frame_of_columns(self._caller.columns(dataset_name), types)

    @override
    def get_datasets(self) -> list[Dataset]:
        objects = self._caller.current().objects.values()
        return [one for one in objects if isinstance(one, Dataset)]

    @override
    def get_featuresets(self) -> list[Featureset]:
        objects = self._caller.current().objects.values()
        return [one for one in objects if isinstance(one, Featureset)]

    @override
    def sleep(self, seconds: float = 0) -> None:
        self.clock.advance(timedelta(seconds=seconds))

    @override
    def is_integration_client(self) -> bool:
        return False

    def integration_mode(self) -> str:
        """Return which platform answers: only this process."""
        return "mock"

    @override
    def _types_of(self, outputs: Sequence[object]) -> dict[str, DataType]:
        return {
            f"{featureset.name}.{feature.name}": feature.type
            for featureset in self._caller.current().definitions.featuresets
            for feature in featureset.features
        }

    @override
    def _types_in(self, dataset: Dataset | type | str) -> dict[str, DataType]:
        return self._caller.current().plan(dataset_name(dataset)).schema.columns

    def find(
        self, dataset: str, instants: object, keys: Mapping[str, object], fields: Sequence[str]
    ) -> tuple[object, object]:
        """Answer a lookup in the test's own code: pandas in, pandas out."""
        plans = self._caller.current().plans
        return finder(rows_finder(plans, self._caller.lookup_offline))(
            dataset, instants, keys, fields
        )


def _current() -> MockClient | None:
    known = _CURRENT.get()
    return None if known is None else known()


def _finder() -> lookups.Finder | None:
    client = _current()
    return None if client is None else client.find


def log(dataset: Dataset, df: pd.DataFrame) -> Response:
    """Put rows directly into a dataset, with the client that was created last.

    Raises:
        ArgumentsUnfit: No client exists.
    """
    client = _current()
    if client is None:
        raise ArgumentsUnfit("no client was made yet", hint="decorate the test with `@mock`")
    return client.log_to_dataset(dataset, df)


def mock(test: Callable[..., object]) -> Callable[..., object]:
    """Run a test with a client of its own, passed as `client=`."""

    @functools.wraps(test)
    def run(*args: object, **kwargs: object) -> object:
        # In a context of its own: the next test does not see this one's client.
        return copy_context().run(lambda: test(*args, **kwargs, client=MockClient()))

    signature = inspect.signature(test)
    others = [
        parameter for parameter in signature.parameters.values() if parameter.name != "client"
    ]
    # pytest takes the names of a test's parameters for fixtures.
    run.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
    return run
