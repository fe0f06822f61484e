"""The reference implementation of definitions: slow, simple, and the judge of other engines.

* `semantics`: the reference engine; `engine`: the protocol of all engines.
* `conformance`: cases with hand-written answers.
* `generate`: random projects; `comparing`, `fuzz`: two engines compared on them.
* `inprocess`: the fast engine of authors' unit tests.

Start with `semantics.evaluator`.
"""

from narthex_reference.engine import Answer, ContributingFact, Engine
from narthex_reference.semantics.author_code import RowFrame, UserCodeRunner
from narthex_reference.semantics.evaluator import NotAskableError, Reference

__all__ = [
    "Answer",
    "ContributingFact",
    "Engine",
    "NotAskableError",
    "Reference",
    "RowFrame",
    "UserCodeRunner",
]
