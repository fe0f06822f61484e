"""What a definition means but no job can carry out yet.

The language is checked by `narthex.graph`, and the reference engine and the in-process client
carry all of it out. Whoever creates assets asks here first, and refuses what would not be exact.
All steps, aggregates and windows of pipelines are carried out; what is left is where rows enter
and leave.
"""

from narthex.entities import Definitions
from narthex.errors import NotYetSupported
from narthex.source_capability import not_carried_out_at_edges


def not_carried_out(definitions: Definitions) -> tuple[NotYetSupported, ...]:
    """Find everything that jobs cannot carry out yet, in source order.

    The definitions passed `narthex.graph.check`.
    """
    return not_carried_out_at_edges(definitions)
