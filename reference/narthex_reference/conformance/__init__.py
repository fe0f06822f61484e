"""The conformance cases that every engine must pass, by name, and the check of an engine."""

from narthex_reference.conformance import (
    aggregate_values,
    bounded_histories,
    cell_kinds,
    combined_steps,
    data_file_rows,
    enforced_rows,
    failing_rows,
    joined_rows,
    remade_rows,
    single_rows,
    stored_rows,
    window_edges,
    windowed_groups,
)
from narthex_reference.conformance.arrivals import Arrival, Batch, Sent, arrivals, shuffled
from narthex_reference.conformance.case import ConformanceCase
from narthex_reference.conformance.checking import CaseFailed, EngineFactory, check, feed

CASES: tuple[ConformanceCase, ...] = (
    *stored_rows.CASES,
    *single_rows.CASES,
    *failing_rows.CASES,
    *enforced_rows.CASES,
    *joined_rows.CASES,
    *remade_rows.CASES,
    *aggregate_values.CASES,
    *window_edges.CASES,
    *windowed_groups.CASES,
    *combined_steps.CASES,
    *cell_kinds.CASES,
    *data_file_rows.CASES,
    *bounded_histories.CASES,
)

__all__ = [
    "CASES",
    "Arrival",
    "Batch",
    "CaseFailed",
    "ConformanceCase",
    "EngineFactory",
    "Sent",
    "arrivals",
    "check",
    "feed",
    "shuffled",
]
