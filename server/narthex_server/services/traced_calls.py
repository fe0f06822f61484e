# mypy: disable-error-code="type-arg"
"""Calls of author code, each in a span of the request that makes it."""

from collections.abc import Sequence

import attrs
import pyarrow as pa
from typing_extensions import override

from narthex._ir import Column, UserCode
from narthex._runtime.workers import CodeCalls, Find, RowResults
from narthex_server.tracing import span


@attrs.frozen
class TracedCalls(CodeCalls):
    """Calls code as another object does; spans have the number of rows, and no name of the code."""

    _calls: CodeCalls

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
        with span("call author code", _attributes(kind, table)):
            return self._calls.call(code, kind, table, outputs, title=title, find=find)

    @override
    def call_one_by_one(
        self, code: UserCode, kind: str, table: pa.Table, outputs: Sequence[Column], *, title: str
    ) -> RowResults:
        with span("call author code", _attributes(kind, table)):
            return self._calls.call_one_by_one(code, kind, table, outputs, title=title)


def _attributes(kind: str, table: pa.Table) -> dict[str, str | int]:
    return {"narthex.code.kind": kind, "narthex.rows": table.num_rows}
