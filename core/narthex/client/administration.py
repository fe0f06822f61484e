# mypy: disable-error-code="type-arg, explicit-any"
"""What a client can do beside commits and questions: branches, secrets, erasure, overviews."""

import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final
from urllib.parse import urlsplit

import pandas as pd

from narthex._base.records import Json
from narthex._formats.pandas.frames import rows_of
from narthex._runtime.credentials import SECRET_NAME
from narthex._sdk.datasets.datasets import Dataset
from narthex._sdk.features.featuresets import Featureset
from narthex.client.references import dataset_name, featureset_name
from narthex.client.responses import Response
from narthex.client.transport import Caller
from narthex.errors import AnswerNotUnderstood, ArgumentsUnfit

MAIN: Final = "main"
_BRANCH: Final = re.compile(r"[a-zA-Z0-9_.\-/]+")
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
            answer = self._transport.send("delete", key=secrets.token_hex(16))
        if self._transport.branch == name:
            self._transport.branch = MAIN
        return answer

    def undelete_branch(self, name: str) -> Response:
        """Bring back a branch that was deleted not long ago, with its definitions and rows.

        Raises:
            Refused: None of that name was deleted, or what it held is not kept any more.
        """
        with self._about(_branch_name(name)):
            return self._transport.send("undelete", key=secrets.token_hex(16))

    def protect_branch(self, name: str, *, protected: bool = True) -> Response:
        """Let a person approve each commit before the branch's readers read it, or not any more.

        Raises:
            Refused: There is none of that name.
        """
        with self._about(_branch_name(name)):
            return self._transport.send("branch/protect", {"protected": protected})

    def rollback(self, to: int | None = None) -> Response:
        """Deploy again what the branch had before, and let its readers read it.

        They do at once while the jobs of it still run, which is for an hour; later when its jobs
        have caught up again. The answer has `served`, and the `commit_id` of the rollback.

        Args:
            to: The number of a commit on the branch; not given, what readers read before.

        Raises:
            Refused: There is nothing to roll back to, or another commit is under way.
        """
        return self._transport.send("rollback", {"to": to}, key=secrets.token_hex(16))

    def approve(self, commit_id: str) -> Response:
        """Let the readers of a protected branch flip to a commit.

        Raises:
            Refused: It does not wait for anybody.
        """
        return self._transport.send(f"commits/{commit_id}/approve", {})

    def list_branches(self) -> list[str]:
        """Return the names of all branches."""
        found = self._transport.read("branch/list").body.get("branches")
        if not isinstance(found, list):
            raise AnswerNotUnderstood("the answer has no branches")
        return [str(one.get("name")) if isinstance(one, dict) else str(one) for one in found]

    def _new_branch(self, name: str, body: dict[str, Json]) -> Response:
        with self._about(_branch_name(name)):
            answer = self._transport.send("init", body, key=secrets.token_hex(16))
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

    def erase(self, dataset_name: Dataset | type | str, erase_keys: pd.DataFrame) -> Response:
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

    def list_secrets(self) -> list[str]:
        """Return the names of all secrets."""
        found = self._transport.read("secrets").body.get("secrets")
        if not isinstance(found, list):
            raise AnswerNotUnderstood("the answer has no secrets")
        return [str(name) for name in found]

    def get_secret(self, secret_name: str) -> str | None:
        """Return a secret's value.

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

    def create_token(
        self,
        name: str,
        scopes: Sequence[str],
        branches: Sequence[str] = ("*",),
        *,
        tags: Sequence[str] = ("*",),
        days: int = 90,
    ) -> Response:
        """Make a token; the answer has it as `token`, which is shown nowhere again.

        Args:
            name: Whom it names in logs.
            scopes: Roles (`reader`, `author`, `ingest`, `approver`, `steps`, `dags`, `admin`), or
                rights.
            branches: Patterns of the branches that it is for.
            tags: Patterns of the tags that it is for; what has another one is not there for it.
            days: How long it lets somebody in, at most 365.

        Raises:
            Refused: There is no such scope.
        """
        asked: dict[str, Json] = {
            "name": name,
            "scopes": [*scopes],
            "branches": [*branches],
            "tags": [*tags],
            "days": days,
        }
        return self._transport.send("tokens", asked)

    def revoke_token(self, token_id: str) -> Response:
        """Let a token in no more; it is out within seconds.

        Raises:
            Refused: There is none of that id.
        """
        return self._transport.send(f"tokens/{token_id}", verb="DELETE")

    def _secret_path(self, name: str) -> str:
        if not SECRET_NAME.fullmatch(name):
            raise ArgumentsUnfit(f"`{name}` cannot be the name of a secret")
        parts = urlsplit(self._url)
        if parts.scheme == "http" and parts.hostname not in _THIS_MACHINE:
            raise ArgumentsUnfit(
                f"a secret would travel to `{parts.hostname}` in clear",
                hint="give the server's address as `https://…`",
            )
        return f"secret/{name}"

    def lineage(self) -> dict[str, Json]:
        """Return the lineage graph of the branch, as the server sends it."""
        return self._transport.read("lineage").body

    def xray(
        self,
        datasets: Sequence[Dataset | type | str] | None = None,
        featuresets: Sequence[Featureset | str] | None = None,
        fields: Sequence[str] | None = None,
    ) -> dict[str, Json]:
        """Return the properties of datasets and featuresets, as the server sends them.

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


def _name_of(dataset: Dataset | type | str) -> str:
    return dataset_name(dataset)


def _branch_name(name: str) -> str:
    if not _BRANCH.fullmatch(name):
        raise ArgumentsUnfit(
            f"`{name}` cannot be the name of a branch; letters, digits, `_`, `.`, `-` and `/` can "
            "stand in one"
        )
    return name


def _check_erase_keys(dataset: Dataset | type | str, given: list[str]) -> None:
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
