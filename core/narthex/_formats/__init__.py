"""Bytes, JSON and frames: the formats in which values enter, travel and are stored.

- Storage: `cells` and `keys` (as bytes) and `avro` (facts on the log).
- Raw input: `coercion`, `raw_times`, `debezium`.
- Columns of author code and of tables of facts: `arrow`.
- Positions in topics, for queries that wait for rows: `log_positions`.
- Answers: `json_cells`, `pandas`. Commits: `wire`.
"""

from narthex._formats.cells import (
    Conversion,
    UnsupportedColumnError,
    cell_bytes,
    empty_cell,
    from_storage,
    refuse_null,
    to_storage,
)
from narthex._formats.coercion import Coercion, MistypedError, coerce, coercion
from narthex._formats.json_cells import (
    CellsRenderer,
    UnrenderedError,
    cells_renderer,
    parse_cell,
    render_cell,
    render_cells,
)
from narthex._formats.keys import instant_in, key_bytes, key_encoder, key_of, keyed_row_id
from narthex._formats.log_positions import (
    GREATEST_POSITIONS_LENGTH,
    NotPositionsError,
    parse_positions,
    render_positions,
    united_positions,
)
from narthex._formats.raw_times import EPOCH_ORDINAL, parse_instant

__all__ = [
    "EPOCH_ORDINAL",
    "GREATEST_POSITIONS_LENGTH",
    "Conversion",
    "MistypedError",
    "NotPositionsError",
    "UnrenderedError",
    "UnsupportedColumnError",
    "cell_bytes",
    "coerce",
    "empty_cell",
    "instant_in",
    "key_bytes",
    "key_encoder",
    "key_of",
    "keyed_row_id",
    "from_storage",
    "parse_cell",
    "parse_instant",
    "parse_positions",
    "refuse_null",
    "render_cell",
    "render_cells",
    "render_positions",
    "cells_renderer",
    "CellsRenderer",
    "Coercion",
    "coercion",
    "to_storage",
    "united_positions",
]
