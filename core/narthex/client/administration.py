# mypy: disable-error-code="type-arg, explicit-any"
"""What a client can do beside commits and questions: branches, secrets, erasure, overviews."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final
from urllib.parse import urlsplit

import pandas as pd

from narthex.client.references import dataset_name, featureset_name
from narthex.client.responses import Response
from narthex.client.transport import Caller
from narthex.declare.datasets import Dataset
from narthex.declare.featuresets import Featureset
from narthex.errors import AnswerNotUnderstood, ArgumentsUnfit
from narthex.frames import rows_of
from narthex.records import Json

MAIN: Final = "main"
_BRANCH: Final = re.compile(r"[a-zA-Z0-9_.\-/]+")
_NAME: Final = re.compile(r"[^/?#\s]+")
_THIS_MACHINE: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class Administration:
    """The calls of a client that are about a branch as a whole, or about no branch."""

    _transport: Caller
    _url: str

    def init_branch(self, name: str) -> Response:
        """Make an empty branch, and check it out once it is there.

        Raises:
            ArgumentsUnfit: It cannot be a name.
            Refused: There is one of that name.
        """
        return self._new_branch(name, {})

    def clone_branch(self, name: str, from_branch: str) -> Response:
        """Make a branch with the definitions and rows of another one, and check it out.

        Raises:
            ArgumentsUnfit: It cannot be a name.
            Refused: There is one of that name, or none to clone.
        """
        return self._new_branch(name, {"clone_from": from_branch})

    def delete_branch(self, name: str) -> Response:
        """Delete a branch; from one that is checked out, go back to `main`.

        Raises:
            Refused: It is `main`, or there is none.
        """
        with self._about(_branch_name(name)):
            answer = self._transport.send("delete")
        if self._transport.branch == name:
            self._transport.branch = MAIN
        return answer

    def list_branches(self) -> list[str]:
        """Give the names of all branches."""
        found = self._transport.read("branch/list").body.get("branches")
        if not isinstance(found, list):
            raise AnswerNotUnderstood("the answer has no branches")
        return [str(one.get("name")) if isinstance(one, dict) else str(one) for one in found]

    def _new_branch(self, name: str, body: dict[str, Json]) -> Response:
        with self._about(_branch_name(name)):
            answer = self._transport.send("init", body)
        self._transport.branch = name
        return answer

    @contextmanager
    def _about(self, branch: str) -> Iterator[None]:
        """Let the calls of the block be about a branch; afterwards, about the former one."""
        before = self._transport.branch
        self._transport.branch = branch
        try:
            yield
        finally:
            self._transport.branch = before

    def erase(self, dataset_name: Dataset | str, erase_keys: pd.DataFrame) -> Response:
        """Erase the rows of keys from a dataset, and with them from all that is made of them.

        Args:
            dataset_name: The dataset, or its name.
            erase_keys: A column for each of its erase keys.

        Raises:
            ArgumentsUnfit: There are other columns, or one is missing.
        """
        _check_erase_keys(dataset_name, list(erase_keys.columns))
        rows: list[Json] = [{**row} for row in rows_of(erase_keys)]
        return self._transport.send(f"dataset/{_name_of(dataset_name)}/erase", {"erase_keys": rows})

    def get_secret(self, secret_name: str) -> str | None:
        """Give a secret's value.

        Raises:
            ArgumentsUnfit: It would travel in clear.
            Refused: There is none of that name.
        """
        answer = self._transport.read(self._secret_path(secret_name)).body.get("value")
        return None if answer is None else str(answer)

    def add_secret(self, secret_name: str, secret_value: str) -> Response:
        """Keep a secret, which code and connectors name.

        Raises:
            ArgumentsUnfit: It would travel in clear.
        """
        return self._transport.send(self._secret_path(secret_name), {"value": secret_value})

    def update_secret(self, secret_name: str, secret_value: str) -> Response:
        """Keep another value of a secret.

        Raises:
            ArgumentsUnfit: It would travel in clear.
            Refused: There is none of that name.
        """
        path = self._secret_path(secret_name)
        return self._transport.send(path, {"value": secret_value}, verb="PATCH")

    def delete_secret(self, secret_name: str) -> Response:
        """Forget a secret.

        Raises:
            Refused: There is none of that name.
        """
        return self._transport.send(self._secret_path(secret_name), verb="DELETE")

    def _secret_path(self, name: str) -> str:
        if not _NAME.fullmatch(name):
            raise ArgumentsUnfit(f"`{name}` cannot be the name of a secret")
        parts = urlsplit(self._url)
        if parts.scheme == "http" and parts.hostname not in _THIS_MACHINE:
            raise ArgumentsUnfit(
                f"a secret would travel to `{parts.hostname}` in clear",
                hint="give the server's address as `https://…`",
            )
        return f"secret/{name}"

    def lineage(self) -> dict[str, Json]:
        """Give what feeds what on the branch, as the server says it."""
        return self._transport.read("lineage").body

    def xray(
        self,
        datasets: Sequence[Dataset | str] | None = None,
        featuresets: Sequence[Featureset | str] | None = None,
        fields: Sequence[str] | None = None,
    ) -> dict[str, Json]:
        """Give properties of datasets and featuresets, as the server says them.

        Args:
            datasets: Those to tell of; not given, all.
            featuresets: The same of featuresets.
            fields: The properties to tell; not given, all.
        """
        asked = {
            "datasets": [_name_of(one) for one in datasets or ()],
            "featuresets": [featureset_name(one) for one in featuresets or ()],
            "properties": list(fields or ()),
        }
        parameters = {name: ",".join(names) for name, names in asked.items() if names}
        return self._transport.read("xray", parameters).body


def _name_of(dataset: Dataset | str) -> str:
    return dataset_name(dataset)


def _branch_name(name: str) -> str:
    if not _BRANCH.fullmatch(name):
        raise ArgumentsUnfit(
            f"`{name}` cannot be the name of a branch; letters, digits, `_`, `.`, `-` and `/` can "
            "stand in one"
        )
    return name


def _check_erase_keys(dataset: Dataset | str, given: list[str]) -> None:
    if not isinstance(dataset, Dataset):
        return
    wanted = dataset.erase_key_fields
    wrong = sorted(set(wanted) ^ set(given))
    if wrong or not wanted:
        names = ", ".join(f"`{name}`" for name in wanted) or "none"
        found = ", ".join(f"`{name}`" for name in given) or "none"
        raise ArgumentsUnfit(
            f"`{dataset.fqn()}` is erased by {names}; the frame has {found}",
            hint="mark the keys with `field(key=True, erase_key=True)`" if not wanted else "",
        )
