"""The client's calls besides commits and queries: branches, secrets, erasure, lineage."""

import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Final
from urllib.parse import quote, urlsplit

from narthex._base.records import Json
from narthex._connectors.named import CONNECTION_NAME
from narthex._runtime.credentials import SECRET_NAME
from narthex._sdk.datasets.datasets import Dataset
from narthex._sdk.features.featuresets import Featureset
from narthex._server_calls.references import dataset_name, featureset_name
from narthex._server_calls.responses import Response
from narthex._server_calls.transport import Caller
from narthex.errors import AnswerNotUnderstood, ArgumentsUnfit

MAIN: Final = "main"
_BRANCH: Final = re.compile(r"[a-zA-Z0-9_.\-/]+")
_THIS_MACHINE: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class Administration:
    """The calls of a client that concern a branch as a whole, or no particular branch."""

    _transport: Caller
    _url: str

    def init_branch(self, name: str) -> Response:
        """Create an empty branch, and check it out once it exists.

        Raises:
            ArgumentsUnfit: The name is not valid.
            Refused: A branch of that name exists.
        """
        return self._new_branch(name, {})

    def clone_branch(self, name: str, from_branch: str) -> Response:
        """Create a branch with the definitions and rows of another one, and check it out.

        Raises:
            ArgumentsUnfit: The name is not valid.
            Refused: A branch of that name exists, or the branch to clone does not.
        """
        return self._new_branch(name, {"clone_from": from_branch})

    def delete_branch(self, name: str) -> Response:
        """Delete a branch; if it is checked out, check out `main`.

        Raises:
            Refused: It is `main`, or does not exist.
        """
        with self._about(_branch_name(name)):
            answer = self._transport.send("delete", key=secrets.token_hex(16))
        if self._transport.branch == name:
            self._transport.branch = MAIN
        return answer

    def undelete_branch(self, name: str) -> Response:
        """Restore a recently deleted branch, with its definitions and rows.

        Raises:
            Refused: No branch of that name was deleted, or its data is no longer retained.
        """
        with self._about(_branch_name(name)):
            return self._transport.send("undelete", key=secrets.token_hex(16))

    def protect_branch(self, name: str, *, protected: bool = True) -> Response:
        """Require a person's approval before readers of the branch flip, or end the requirement.

        Raises:
            Refused: The branch does not exist.
        """
        with self._about(_branch_name(name)):
            return self._transport.send("branch/protect", {"protected": protected})

    def rollback(self, to: int | None = None) -> Response:
        """Redeploy an earlier commit of the branch, and let its readers flip to it.

        Readers flip at once while the commit's jobs still run, for an hour; otherwise once its jobs
        have caught up. The response has `served`, and the `commit_id` of the rollback.

        Args:
            to: The number of a commit on the branch; by default, the one that readers read before.

        Raises:
            Refused: There is no commit to roll back to, or another commit is in progress.
        """
        return self._transport.send("rollback", {"to": to}, key=secrets.token_hex(16))

    def approve(self, commit_id: str) -> Response:
        """Approve a commit on a protected branch, so that its readers flip to it.

        Raises:
            Refused: The commit is not waiting for an approval.
        """
        return self._transport.send(f"commits/{commit_id}/approve", {})

    def reject(self, commit_id: str, reason: str = "") -> Response:
        """Reject a commit on a protected branch: it is reverted, and readers stay where they are.

        Args:
            commit_id: The commit.
            reason: Why, for its author: one line of at most 500 characters.

        Raises:
            Refused: The commit is not waiting for an approval, or a person has approved it.
        """
        return self._transport.send(f"commits/{commit_id}/reject", {"reason": reason})

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
        """Address the calls of the block to a branch; afterwards, to the previous one."""
        before = self._transport.branch
        self._transport.branch = branch
        try:
            yield
        finally:
            self._transport.branch = before

    def erasures(self) -> list[dict[str, Json]]:
        """Return the erasures of the installation, the newest first, as `erasure` returns each."""
        found = self._transport.read("erasures").body.get("erasures")
        return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []

    def erasure(self, erasure_id: str) -> dict[str, Json]:
        """Return an erasure: its `state`, what it `waits_for`, and the `certificate` at its end.

        Args:
            erasure_id: The id, from the response of `erase`.

        Raises:
            Refused: No erasure has that id.
        """
        return self._transport.read(f"erasures/{quote(erasure_id, safe='')}").body

    def verify_erasure(
        self,
        certificate: Mapping[str, Json],
        signature: str,
        *,
        key: Mapping[str, Json] | None = None,
    ) -> dict[str, Json]:
        """Check that the installation has signed the certificate of an erasure.

        Args:
            certificate: The certificate.
            signature: Its signature, in hexadecimal digits.
            key: The values of the erase keys of one row, to learn whether it was erased.

        Returns:
            `is_valid`, `why` it is not, and whether it `covers` the key; null without a key.
        """
        asked: dict[str, Json] = {"certificate": {**certificate}, "signature": signature}
        if key is not None:
            asked["key"] = {**key}
        return self._transport.send("erasures/verify", asked).body

    def list_secrets(self) -> list[str]:
        """Return the names of all secrets."""
        found = self._transport.read("secrets").body.get("secrets")
        if not isinstance(found, list):
            raise AnswerNotUnderstood("the answer has no secrets")
        return [str(name) for name in found]

    def get_secret(self, secret_name: str) -> str | None:
        """Return a secret's value.

        Raises:
            ArgumentsUnfit: The secret would travel unencrypted.
            Refused: The secret does not exist.
        """
        answer = self._transport.read(self._secret_path(secret_name)).body.get("value")
        return None if answer is None else str(answer)

    def add_secret(self, secret_name: str, secret_value: str) -> Response:
        """Store a secret, to which code and connectors refer by name.

        Raises:
            ArgumentsUnfit: The secret would travel unencrypted.
        """
        return self._transport.send(self._secret_path(secret_name), {"value": secret_value})

    def update_secret(self, secret_name: str, secret_value: str) -> Response:
        """Store a new value of a secret.

        Raises:
            ArgumentsUnfit: The secret would travel unencrypted.
            Refused: The secret does not exist.
        """
        path = self._secret_path(secret_name)
        return self._transport.send(path, {"value": secret_value}, verb="PATCH")

    def delete_secret(self, secret_name: str) -> Response:
        """Delete a secret.

        Raises:
            Refused: The secret does not exist.
        """
        return self._transport.send(self._secret_path(secret_name), verb="DELETE")

    def list_connections(self) -> list[dict[str, Json]]:
        """Return the connections that code can name, such as `Postgres.get("shop")`.

        Each has `name`, `kind`, `arguments`, `secrets` (the names of its credentials) and
        `branches`.
        """
        found = self._transport.read("connections").body.get("connections")
        if not isinstance(found, list):
            raise AnswerNotUnderstood("the answer has no connections")
        return [one for one in found if isinstance(one, dict)]

    def set_connection(
        self,
        name: str,
        kind: str,
        arguments: Mapping[str, str | int | bool],
        *,
        secrets: Mapping[str, str] = MappingProxyType({}),
        branches: Sequence[str] = ("*",),
    ) -> Response:
        """Store a connection, or replace the one of that name; later commits use it.

        Args:
            name: The name in definitions, as in `Postgres.get("shop")`.
            kind: The name of the class, such as `Postgres`.
            arguments: The parameters of the class, without credentials.
            secrets: The names of the secrets that are its credentials, by parameter.
            branches: Patterns of the branches whose commits may name it.

        Raises:
            Refused: A parameter is missing, or is none of its kind.
        """
        asked: dict[str, Json] = {
            "kind": kind,
            "arguments": {**arguments},
            "secrets": {**secrets},
            "branches": [*branches],
        }
        return self._transport.send(_connection_path(name), asked, verb="PUT")

    def test_connection(self, name: str) -> Response:
        """Check a connection against the policy of the branch, and connect to its servers.

        No credentials are sent. The response has `reached`, a list of servers, and `faults`, the
        reasons why definitions of the branch cannot use the connection.

        Raises:
            Refused: No connection has that name.
        """
        asked: dict[str, Json] = {"branch": self._transport.branch}
        return self._transport.send(f"{_connection_path(name)}/test", asked)

    def delete_connection(self, name: str) -> Response:
        """Delete a connection; datasets that were committed with it keep their sources.

        Raises:
            Refused: No connection has that name.
        """
        return self._transport.send(_connection_path(name), verb="DELETE")

    def create_token(
        self,
        name: str,
        scopes: Sequence[str],
        branches: Sequence[str] = ("*",),
        *,
        tags: Sequence[str] = ("*",),
        days: int = 90,
    ) -> Response:
        """Create a token; the response has it as `token`, and it cannot be shown again.

        Args:
            name: The name of its owner in logs.
            scopes: Roles (`reader`, `author`, `ingest`, `approver`, `steps`, `dags`, `admin`), or
                rights.
            branches: Patterns of the branches that it can access.
            tags: Patterns of the tags that it can access; it cannot see entities with other tags.
            days: Its lifetime in days, at most 365.

        Raises:
            Refused: A scope does not exist.
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
        """Revoke a token; the server refuses it within seconds.

        Raises:
            Refused: No token has that id.
        """
        return self._transport.send(f"tokens/{token_id}", verb="DELETE")

    def rotate_token(self, token_id: str, *, overlap_s: int = 7 * 86_400) -> Response:
        """Replace a token by one with the same name, rights, branches, tags and lifetime.

        The response has it as `token`, and it cannot be shown again; `rotated_expires_at` is the
        time until which the old token is accepted.

        Args:
            token_id: The id of the old token.
            overlap_s: For how many seconds the old token is accepted, if it does not expire before.

        Raises:
            Refused: No token has that id, or it has expired or was revoked.
        """
        asked: dict[str, Json] = {"overlap_s": overlap_s}
        return self._transport.send(f"tokens/{token_id}/rotate", asked)

    def alerts(self) -> dict[str, Json]:
        """Return the alerts that fire, the silences and the deliveries, as the server sends them.

        Each of `alerts` has `rule`, `branch`, `subject`, `severity`, `summary`, `remedy`, the
        console's `page`, `started_at` and `silenced`.
        """
        return self._transport.read("alerts").body

    def silence_alerts(
        self,
        reason: str,
        *,
        minutes: int,
        rule: str = "*",
        branch: str = "*",
        subject: str = "*",
    ) -> Response:
        """Keep alerts from being sent for a while; the response has the `silence_id`.

        Args:
            reason: A text for other people.
            minutes: For how long, at most 90 days.
            rule: A shell pattern for the rule, such as `freshness`.
            branch: A shell pattern for the branch.
            subject: A shell pattern for the dataset, job, commit or token.

        Raises:
            Refused: The token may not silence these alerts.
        """
        asked: dict[str, Json] = {
            "rule": rule,
            "branch": branch,
            "subject": subject,
            "minutes": minutes,
            "reason": reason,
        }
        return self._transport.send("alerts/silences", asked)

    def end_silence(self, silence_id: str) -> Response:
        """End a silence; alerts that still fire are sent.

        Raises:
            Refused: No silence has that id.
        """
        return self._transport.send(f"alerts/silences/{silence_id}", verb="DELETE")

    def send_test_alert(self, receiver: str | None = None) -> Response:
        """Send a test message to the receivers of alerts; the response has all `deliveries`.

        Args:
            receiver: The name of one receiver; by default, all.

        Raises:
            Refused: The alerts file has mistakes, or no such receiver.
        """
        return self._transport.send("alerts/test", {"receiver": receiver})

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
            datasets: The datasets to include; by default, all.
            featuresets: The featuresets to include; by default, all.
            fields: The properties to include; by default, all.
        """
        asked = {
            "datasets": [dataset_name(one) for one in datasets or ()],
            "featuresets": [featureset_name(one) for one in featuresets or ()],
            "properties": list(fields or ()),
        }
        parameters = {name: ",".join(names) for name, names in asked.items() if names}
        return self._transport.read("xray", parameters).body


def _branch_name(name: str) -> str:
    if not _BRANCH.fullmatch(name):
        raise ArgumentsUnfit(
            f"`{name}` cannot be the name of a branch; write only letters, digits, `_`, `.`, `-` "
            "and `/`"
        )
    return name


def _connection_path(name: str) -> str:
    if not CONNECTION_NAME.fullmatch(name):
        raise ArgumentsUnfit(f"`{name}` cannot be the name of a connection")
    return f"connections/{name}"
