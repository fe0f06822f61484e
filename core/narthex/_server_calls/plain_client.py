"""The client without frames: commits, plain columns, and whatever concerns no rows.

The command line uses it, because it loads no pandas.
"""

import os
import secrets
import weakref
from collections.abc import Mapping, Sequence
from datetime import datetime

from narthex._base.records import Json
from narthex._sdk.commit_definitions import encoded_commit
from narthex._sdk.datasets.datasets import Dataset
from narthex._sdk.features.featuresets import Featureset
from narthex._server_calls.administration import Administration
from narthex._server_calls.drift import DriftCalls
from narthex._server_calls.offline_records import OfflineRecords
from narthex._server_calls.query_calls import DataRequest, QueryOptions, carried_out, query_call
from narthex._server_calls.responses import ReadInfo, Response
from narthex._server_calls.row_inspection import RowInspection
from narthex._server_calls.transport import Caller, Transport, text_of
from narthex._server_calls.value_diffs import ValueDiffCalls
from narthex._server_calls.waiting import Tell, print_news, wait_for_commit, wait_for_rows
from narthex.errors import ArgumentsUnfit

PAUSE_S = 1.0
COMMIT_TIMEOUT_S = 1800.0
ROWS_PAUSE_S = 0.2
ROWS_TIMEOUT_S = 600.0


class PlainClient(Administration, RowInspection, OfflineRecords, DriftCalls, ValueDiffCalls):
    """A client of one server and one branch whose calls take and return plain values."""

    def __init__(
        self,
        url: str,
        token: str = "",
        branch: str | None = None,
        *,
        pause_s: float = PAUSE_S,
        caller: Caller | None = None,
    ) -> None:
        """Open the connections; send nothing yet. The arguments are those of `Client`."""
        self._transport: Caller = caller or Transport(
            url, token, branch or os.environ.get("NARTHEX_BRANCH") or "main"
        )
        # A client that is never closed, as in a command, must not leave connections open.
        weakref.finalize(self, self._transport.close)
        self._url = url
        self._added: dict[str, Dataset | Featureset] = {}
        self._pause_s = pause_s
        self.last_read: ReadInfo | None = None

    def branch(self) -> str:
        """Return the branch of all calls."""
        return self._transport.branch

    def checkout(self, name: str, init: bool = False) -> None:
        """Use another branch for all later calls; with `init`, create it if it does not exist."""
        if init and name not in self.list_branches():
            self.init_branch(name)
        self._transport.branch = name

    def add(self, obj: Dataset | Featureset) -> None:
        """Add an entity to the next commit; a preview includes it and leaves it for the commit.

        Raises:
            ArgumentsUnfit: An entity of that name was already added, or it is not an entity.
        """
        if not isinstance(obj, Dataset | Featureset):
            raise ArgumentsUnfit(f"`{obj!r}` is neither a dataset nor a featureset")
        if obj.fqn() in self._added:
            raise ArgumentsUnfit(f"`{obj.fqn()}` waits for the next commit already")
        self._added[obj.fqn()] = obj

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def read(self, path: str, parameters: Mapping[str, str | int] | None = None) -> dict[str, Json]:
        """Return the server's response for a path below `/api/v1`, such as `jobs`."""
        return self._transport.read(path, parameters).body

    def commit(  # noqa: PLR0913, PLR0917 (Fennel's signature)
        self,
        message: str,
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
        tell: Tell = print_news,
    ) -> Response:
        """Commit definitions to the branch, and wait until they serve.

        Progress is reported on stderr. With `preview`, return the plan and change nothing.

        Args:
            message: The purpose of the commit.
            datasets: All datasets of the branch; with `incremental`, those to add or change.
            featuresets: All featuresets of the branch; with `incremental`, those to add or change.
            preview: Only plan.
            env: Select the declarations for this env and those without an env.
            incremental: Keep all other definitions of the branch.
            backfill: Fill new assets with history; if false, a commit that needs it is refused.
            expect_plan: The `plan_sha256` of a preview; a commit with any other plan is refused.
            confirm_empty: Remove all definitions of the branch if the commit has none; if false,
                such a commit is refused.
            wait: Wait until readers read it; if false, until it is accepted.
            timeout_s: The longest time to wait; the commit continues by itself.
            tell: Receives each line of progress.

        Raises:
            DefinitionErrors: All errors in the definitions, each with its file and line.
            CommitFailed: The commit failed and was removed completely.
            Refused: The server refused it, for instance because another one is in progress.
        """
        added = self._added.values()
        payload = encoded_commit(
            message,
            [*(datasets or ()), *(one for one in added if isinstance(one, Dataset))],
            [*(featuresets or ()), *(one for one in added if isinstance(one, Featureset))],
            env=env,
            preview=preview,
            incremental=incremental,
            backfill=backfill,
        )
        answer = self._transport.send(
            "commit",
            payload,
            parameters={
                "preview": str(preview).lower(),
                "incremental": str(incremental).lower(),
                "backfill": str(backfill).lower(),
                **({"expect_plan": expect_plan} if expect_plan else {}),
                **({"confirm_empty": "true"} if confirm_empty else {}),
            },
            key=secrets.token_hex(16),
        )
        if not preview:
            self._added.clear()
        for line in _texts(answer.body.get("summary")):
            tell(line)
        if preview or not wait:
            return answer
        commit_id = text_of(answer.body, "commit_id")
        return self.wait(commit_id, timeout_s=timeout_s, tell=tell)

    def wait(
        self, commit_id: str, *, timeout_s: float = COMMIT_TIMEOUT_S, tell: Tell = print_news
    ) -> Response:
        """Wait until readers read a commit.

        Raises:
            CommitFailed: The commit failed, or did not finish in time.
        """
        return wait_for_commit(
            self._transport, commit_id, tell=tell, timeout_s=timeout_s, pause_s=self._pause_s
        )

    def wait_for_rows(
        self, after: str, *, timeout_s: float = ROWS_TIMEOUT_S, tell: Tell = print_news
    ) -> None:
        """Wait until the branch's indexes contain rows that were logged.

        These are the indexes of datasets that the token may read, and that the rows reach.

        Args:
            after: The `after` of the response of `log`.
            timeout_s: The longest time to wait; the rows go on by themselves.
            tell: Receives what the rows wait for, once that takes more than five seconds.

        Raises:
            RowsNotContained: They do not contain the rows in time.
            Refused: `after` is another text.
        """
        pause_s = min(self._pause_s, ROWS_PAUSE_S)
        wait_for_rows(self._transport, after, tell=tell, timeout_s=timeout_s, pause_s=pause_s)

    def query_columns(  # noqa: PLR0913 (those of `query`)
        self,
        inputs: Sequence[object],
        outputs: Sequence[object],
        columns: Mapping[str, Sequence[object]],
        *,
        as_of: datetime | str | None = None,
        log: bool = False,
        workflow: str | None = None,
        sampling_rate: float | None = None,
        explain: bool = False,
        after: str | None = None,
    ) -> tuple[dict[str, list[object]], dict[str, Json]]:
        """Query with plain columns; return plain columns, and the data that they were read from.

        Its log offsets are known only of a query with `explain`. A query of more values than the
        server answers at once is asked in parts, as of one instant, unless it has `explain`.
        """
        options = QueryOptions(
            as_of=as_of,
            log=log,
            workflow=workflow,
            sampling_rate=sampling_rate,
            explain=explain,
            after=after,
        )
        call = query_call(inputs, outputs, columns, options)
        answers, read = carried_out(call, self._sent)
        self.last_read = read
        return answers, read.plain() if read else {}

    def _sent(self, request: DataRequest) -> Response:
        return self._transport.send(request.path, request.body, key=request.key)


def _texts(lines: Json) -> list[str]:
    return [str(line) for line in lines] if isinstance(lines, list) else []
