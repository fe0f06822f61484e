"""The index in memory fulfils the contract of every index."""

from collections.abc import Iterator
from contextlib import contextmanager

from typing_extensions import override

from narthex._ir.assets import IndexSpec
from narthex_stores.indexes import InMemoryIndex
from tests.stores.indexes.history_suite import HistorySuite
from tests.stores.indexes.index_suite import IndexSuite


class TestInMemoryIndex(IndexSuite, HistorySuite):
    @override
    @contextmanager
    def opened(self, spec: IndexSpec) -> Iterator[InMemoryIndex]:
        yield InMemoryIndex(spec)
