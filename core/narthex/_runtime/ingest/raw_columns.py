"""The raw columns that a source reads."""

from narthex._ir.entities import (
    Cdc,
    ColumnRef,
    Computed,
    ComputedByCode,
    Source,
    Where,
    WhereByCode,
)
from narthex._ir.schema import Schema


def read_columns(source: Source, schema: Schema) -> frozenset[str] | None:
    """Return the raw columns that a source may read; None if it reads envelopes, not columns.

    A field of the dataset is one of them even if the source computes it from others.
    """
    if source.cdc is Cdc.DEBEZIUM:
        return None
    names = {field.name for field in schema.fields}
    for _, preproc in source.preproc:
        match preproc:
            case ColumnRef():
                names.add(preproc.column)
            case Computed():
                names.update(column.name for column in preproc.schema)
            case ComputedByCode():
                names.update(column.name for column in (*preproc.required, *preproc.offered))
            case _:
                pass
    match source.where:
        case Where() as where:
            names.update(column.name for column in where.schema)
        case WhereByCode() as where:
            names.update(column.name for column in (*where.required, *where.offered))
        case _:
            pass
    return frozenset(names)
