"""The reference implementation of definitions: slow, simple, and the judge of other engines.

* `semantics`: the reference engine; `engine`: the protocol of all engines.
* `conformance`: cases with hand-written answers.
* `generate`: random projects; `comparing`, `fuzz`: two engines compared on them.
* `inprocess`: the fast engine of authors' unit tests.

Start with `semantics.evaluator`.
"""

from narthex_reference.cell_equality import is_never_the_same, same_cells
from narthex_reference.engine import Answer, ContributingFact, Engine
from narthex_reference.semantics.author_code import RowFrame, UserCodeRunner
from narthex_reference.semantics.content import ContentRow, RowSource, fact_of
from narthex_reference.semantics.evaluator import NotAskableError, Reference
from narthex_reference.semantics.grouped_rows import Contribution
from narthex_reference.worker_calls import WorkerCalls

__all__ = [
    "Answer",
    "ContentRow",
    "ContributingFact",
    "Contribution",
    "Engine",
    "NotAskableError",
    "Reference",
    "RowFrame",
    "RowSource",
    "UserCodeRunner",
    "WorkerCalls",
    "fact_of",
    "is_never_the_same",
    "same_cells",
]
