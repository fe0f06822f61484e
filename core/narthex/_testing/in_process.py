# mypy: disable-error-code="explicit-any, type-arg, arg-type"
"""Call authors' code in their own process, for their unit tests; never on a platform.

The executed text is the one that a commit carries, so a name that a commit cannot carry is missing
here too.
"""

from collections.abc import Mapping, Sequence
from functools import partial

import pyarrow as pa
from typing_extensions import override

from narthex import lookups
from narthex._ir.code import UserCode
from narthex._ir.schema import Column
from narthex._runtime.workers import worker_columns
from narthex._runtime.workers.author_code import describe_error, entry_of, outputs_of
from narthex._runtime.workers.calls import (
    CodeCalls,
    call_header,
    checked_result,
    failed,
    file_content,
)
from narthex._runtime.workers.lookups import Find, found_table
from narthex.data_files import provided_by
from narthex.errors import LookupImpossible, SecretMissing, UserCodeError
from narthex.secrets import Provider, found_by


class InProcessCalls(CodeCalls):
    """Calls authors' code in this process in the way that a worker does."""

    def __init__(self, secrets: Provider | None = None) -> None:
        """Create the calls without code.

        Args:
            secrets: Finds the secrets that code reads; without it, there are none.
        """
        self._secrets = secrets or _no_secret

    @override
    def call(
        self,
        code: UserCode,
        kind: str,
        table: pa.Table,
        outputs: Sequence[Column],
        *,
        title: str,
        find: Find | None = None,
    ) -> pa.Table:
        header = call_header(code, kind, outputs)
        try:
            entry = entry_of(header)
            given = worker_columns.frame(table)
            with (
                lookups.finding_with(_refusing(finder(find))),
                found_by(self._secrets),
                provided_by(partial(file_content, code)),
            ):
                result = worker_columns.called(entry, kind, given)
            answer = worker_columns.table(result, outputs_of(header), index=given.index)
        except (SecretMissing, UserCodeError):
            raise
        except Exception as error:
            raise failed(code, title, describe_error(error)) from error
        return checked_result(answer, code, outputs, rows=table.num_rows, title=title)


def _refusing(answers: lookups.Finder) -> lookups.Finder:
    """Raise the error of a failed lookup as a worker does, so that author code can catch it."""

    def found(
        dataset: str, instants: object, keys: Mapping[str, object], fields: Sequence[str]
    ) -> tuple[object, object]:
        try:
            return answers(dataset, instants, keys, fields)
        except LookupImpossible as error:
            raise LookupError(error.message) from None

    return found


def _no_secret(name: str) -> None:
    """Find nothing."""


def finder(find: Find | None) -> lookups.Finder:
    """Answer lookups of code that runs here: pandas in, pandas out."""

    def found(
        dataset: str, instants: object, keys: Mapping[str, object], fields: Sequence[str]
    ) -> tuple[object, object]:
        asked = worker_columns.asked(instants, keys)
        return worker_columns.found(found_table(dataset, asked, find), fields)

    return found
