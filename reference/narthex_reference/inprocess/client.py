# mypy: disable-error-code="type-arg, explicit-any"
"""The client of a unit test: the client of a server, with a platform in its own process."""

import functools
import inspect
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar, copy_context
from datetime import timedelta

import pandas as pd
from typing_extensions import override

from narthex import lookups
from narthex.client import Response
from narthex.client.client import COMMIT_TIMEOUT_S
from narthex.client.waiting import Tell
from narthex.declare.datasets import Dataset
from narthex.declare.featuresets import Featureset
from narthex.errors import ArgumentsUnfit, LookupImpossible, Refused
from narthex.evaluate.query import rows_finder
from narthex.frames import frame_of_columns, rows_of
from narthex.records import Json
from narthex.types import DataType
from narthex.unit_tests import TestClient
from narthex.workers.in_process import finder
from narthex_reference.inprocess.branches import BAD_REQUEST, NOT_FOUND, Branch
from narthex_reference.inprocess.caller import MAIN, InProcessCaller
from narthex_reference.inprocess.clock import UnitTestClock
from narthex_reference.inprocess.intake import direct_endpoint

_CURRENT: "ContextVar[weakref.ref[MockClient] | None]" = ContextVar("narthex_client", default=None)


def _silent(news: str) -> None:
    """Tell nobody."""


class MockClient(TestClient):
    """A client whose platform is this process: commits stand at once, and rows count at once.

    While it lives, `SomeDataset.lookup(…)` in the test's own code is answered by it; of several
    clients the one that was made last answers.
    """

    def __init__(self, branch: str | None = None) -> None:
        """Begin with an empty branch `main`."""
        self.clock = UnitTestClock()
        self._caller = InProcessCaller(branch or MAIN, self.clock)
        self._objects: dict[str, dict[str, Dataset | Featureset]] = {}
        super().__init__("", caller=self._caller, pause_s=0.0)
        _CURRENT.set(weakref.ref(self))
        lookups.found_by(_find)

    @property
    def _branch(self) -> str:
        return self._caller.branch

    @property
    def branches_map(self) -> Mapping[str, Branch]:
        """The branches by name."""
        return self._caller.branches

    @override
    def commit(
        self,
        message: str = "",
        datasets: Sequence[Dataset] | None = None,
        featuresets: Sequence[Featureset] | None = None,
        preview: bool = False,
        env: str | None = None,
        incremental: bool = False,
        backfill: bool = True,
        *,
        wait: bool = True,
        timeout_s: float = COMMIT_TIMEOUT_S,
        tell: Tell = _silent,
    ) -> Response:
        answer = super().commit(
            message,
            datasets,
            featuresets,
            preview,
            env,
            incremental,
            backfill,
            wait=wait,
            timeout_s=timeout_s,
            tell=tell,
        )
        if not preview:
            given: list[Dataset | Featureset] = [*(datasets or ()), *(featuresets or ())]
            kept = self._objects.get(self._branch, {}) if incremental else {}
            self._objects[self._branch] = kept | {one.fqn(): one for one in given}
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
    def query_offline(  # type: ignore[override]  # a frame at once, as tests of Fennel want
        self,
        inputs: Sequence[object],
        outputs: Sequence[object],
        timestamp_column: str,
        input_dataframe: pd.DataFrame | None = None,
        input_s3: object = None,
        output_s3: object = None,
        feature_to_column_map: Mapping[object, str] | None = None,
        workflow: str | None = None,
        use_v2: bool = True,
        num_dpus: int | None = None,
    ) -> pd.DataFrame:
        """Give features of many rows, each as of its own instant, and the instants beside them."""
        asked = super().query_offline(
            inputs,
            outputs,
            timestamp_column,
            input_dataframe,
            input_s3,
            output_s3,
            feature_to_column_map,
            workflow,
            use_v2,
            num_dpus,
        )
        answers = self.offline_answers(str(asked["request_id"]), outputs)
        if input_dataframe is not None:
            instants = pd.to_datetime(input_dataframe[timestamp_column], utc=True)
            answers[timestamp_column] = instants.reset_index(drop=True)
        return answers

    @override
    def erase(self, dataset_name: Dataset | str, erase_keys: pd.DataFrame) -> Response:
        """Erase the rows of keys from a dataset, and with them from all that is made of them."""
        name = dataset_name.fqn() if isinstance(dataset_name, Dataset) else dataset_name
        rows: list[Json] = [{**row} for row in rows_of(erase_keys)]
        return self._caller.send(f"dataset/{name}/erase", {"erase_keys": rows})

    @override
    def init_branch(self, name: str) -> Response:
        """Make an empty branch and check it out."""
        self._make_branch(name, Branch(self._caller.services))
        return _done()

    @override
    def clone_branch(self, name: str, from_branch: str) -> Response:
        """Make a branch with the definitions and rows of another one, and check it out."""
        source = self._caller.branches.get(from_branch)
        if source is None:
            raise Refused(f"branch `{from_branch}` does not exist", status_code=NOT_FOUND)
        self._make_branch(name, source.clone())
        self._objects[name] = dict(self._objects.get(from_branch, {}))
        return _done()

    def _make_branch(self, name: str, branch: Branch) -> None:
        if name in self._caller.branches:
            raise Refused(f"branch `{name}` already exists", status_code=BAD_REQUEST)
        self._caller.branches[name] = branch
        self.checkout(name)

    @override
    def delete_branch(self, name: str) -> Response:
        """Delete a branch; from one that is checked out, go back to `main`."""
        if name == MAIN:
            raise Refused("the branch `main` cannot be deleted", status_code=BAD_REQUEST)
        if self._caller.branches.pop(name, None) is None:
            raise Refused(f"branch `{name}` does not exist", status_code=NOT_FOUND)
        self._objects.pop(name, None)
        if self._branch == name:
            self.checkout(MAIN)
        return _done()

    @override
    def list_branches(self) -> list[str]:
        """Give the names of all branches."""
        return list(self._caller.branches)

    @override
    def checkout(self, name: str, init: bool = False) -> None:
        """Let calls be about another branch from now on; with `init`, make it if it is missing."""
        if init and name not in self._caller.branches:
            self.init_branch(name)
        self._caller.branch = name

    @override
    def get_secret(self, secret_name: str) -> str | None:
        """Give the value of a secret, if there is one."""
        return self._caller.secrets.get(secret_name)

    @override
    def add_secret(self, secret_name: str, secret_value: str) -> Response:
        """Keep a secret."""
        self._caller.secrets[secret_name] = secret_value
        return _done()

    @override
    def update_secret(self, secret_name: str, secret_value: str) -> Response:
        """Keep another value of a secret."""
        return self.add_secret(secret_name, secret_value)

    @override
    def delete_secret(self, secret_name: str) -> Response:
        """Forget a secret."""
        if self._caller.secrets.pop(secret_name, None) is None:
            raise Refused(f"secret `{secret_name}` does not exist", status_code=NOT_FOUND)
        return _done()

    @override
    def get_dataset_df(self, dataset_name: str) -> pd.DataFrame:
        types = self._types_in(dataset_name)
        return frame_of_columns(self._caller.columns(dataset_name), types)

    @override
    def get_datasets(self) -> list[Dataset]:
        return [one for one in self._known().values() if isinstance(one, Dataset)]

    @override
    def get_featuresets(self) -> list[Featureset]:
        return [one for one in self._known().values() if isinstance(one, Featureset)]

    def _known(self) -> Mapping[str, Dataset | Featureset]:
        return self._objects.get(self._branch, {})

    @override
    def sleep(self, seconds: float = 0) -> None:
        self.clock.advance(timedelta(seconds=seconds))

    @override
    def is_integration_client(self) -> bool:
        return False

    def integration_mode(self) -> str:
        """Say which platform answers: none but this process."""
        return "mock"

    @override
    def _types_of(self, outputs: Sequence[object]) -> dict[str, DataType]:
        return {
            f"{featureset.name}.{feature.name}": feature.type
            for featureset in self._caller.current().definitions.featuresets
            for feature in featureset.features
        }

    @override
    def _types_in(self, dataset: Dataset | str) -> dict[str, DataType]:
        name = dataset.fqn() if isinstance(dataset, Dataset) else dataset
        return self._caller.current().plan(name).schema.columns

    def find(
        self, dataset: str, instants: object, keys: Mapping[str, object], fields: Sequence[str]
    ) -> tuple[object, object]:
        """Answer a look-up in the test's own code: pandas in, pandas out."""
        plans = self._caller.current().plans
        return finder(rows_finder(plans, self._caller.lookup_offline))(
            dataset, instants, keys, fields
        )


def _current() -> MockClient | None:
    known = _CURRENT.get()
    return None if known is None else known()


def _find(
    dataset: str, instants: object, keys: Mapping[str, object], fields: Sequence[str]
) -> tuple[object, object]:
    client = _current()
    if client is None:
        raise LookupImpossible(f"`{dataset}.lookup` was called where no client answers")
    return client.find(dataset, instants, keys, fields)


def log(dataset: Dataset, df: pd.DataFrame) -> Response:
    """Put rows straight into a dataset, by the client that was made last.

    Raises:
        ArgumentsUnfit: There is none.
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
    others = [one for one in signature.parameters.values() if one.name != "client"]
    # pytest takes the names of a test's parameters for fixtures.
    run.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
    return run


def _done() -> Response:
    return Response(status_code=200, headers={}, body={})
