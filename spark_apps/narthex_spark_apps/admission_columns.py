"""What becomes of raw rows at a source, as Spark columns: `narthex.admission` is the truth.

Columns are added in stages, each a projection of its own: Spark then computes a value that later
stages use many times once only, and what it compiles stays small.
"""

import attrs
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from narthex.entities import ColumnRef, Computed, Constant, Preproc, Source
from narthex.expr.lattice import promotable
from narthex.expr.typing import infer
from narthex.rendered_types import type_name
from narthex.schema import Column, Schema
from narthex.types import DataType, Optional, base_type, optional
from narthex_spark_apps.raw_cells import (
    Raw,
    coerce,
    held,
    is_refused,
    kind_of,
    path_of,
    raw_value,
)
from narthex_spark_apps.rendering import Scope, convert, kept, literal, render

ROW = "row"
NOW = "now"
REFUSED = "any_refused"
REFUSALS = "refusals"
LEFT_OUT = "left_out"
_SHOWN = 80


@attrs.frozen(kw_only=True)
class Typed:
    """A value that preproc made: a column whose type is known."""

    column: SparkColumn
    type: DataType


class Admission:
    """The stages by which a frame of raw rows gets cells, refusals and `left_out`."""

    def __init__(self, rows: DataFrame, source: Source, schema: Schema) -> None:
        """Begin with rows that have a variant `row` and an instant `now`."""
        self._rows = rows
        self._source = source
        self._schema = schema
        self._raws: dict[str, Raw] = {}
        self._made: dict[str, Typed | None] = {}
        self._cells: dict[tuple[str, DataType], SparkColumn] = {}
        self._refusals: list[SparkColumn] = []
        self._number = 0

    def admit(self) -> DataFrame:
        """Give the rows with a column `f_<name>` for each field, `refusals` and `left_out`.

        `refusals` lists structs (field, reason) where `any_refused` is true.
        """
        preproc = dict(self._source.preproc)
        self._take(self._raw_names(preproc))
        for name, entry in preproc.items():
            self._preprocess(name, entry)
        left_out = self._where()
        cells = self._typed(tuple(Column(field.name, field.type) for field in self._schema.fields))
        instant = cells[self._schema.timestamp]
        left_out = left_out | (~self._any_refused() & ~self._wanted(instant))
        named = {f"f_{name}": cell for name, cell in cells.items()}
        return self._rows.withColumns(
            named
            | {
                LEFT_OUT: sf.coalesce(left_out, sf.lit(False)),
                REFUSED: self._any_refused(),
                REFUSALS: sf.when(self._any_refused(), self._reasons()),
            }
        )

    def _raw_names(self, preproc: dict[str, Preproc]) -> tuple[str, ...]:
        names = [f.name for f in self._schema.fields if f.name not in preproc]
        for entry in preproc.values():
            match entry:
                case ColumnRef(column=column):
                    names.append(column)
                case Computed(schema=schema):
                    names += [column.name for column in schema if column.name not in preproc]
                case Constant():
                    pass
        if self._source.where is not None:
            names += [c.name for c in self._source.where.schema if c.name not in preproc]
        return tuple(dict.fromkeys(names))

    def _take(self, names: tuple[str, ...]) -> None:
        """Take raw members out of the row, then ask what each of them is."""
        values = {
            f"raw_{index}": sf.try_variant_get(sf.col(ROW), path_of(name), "variant")
            for index, name in enumerate(names)
        }
        kinds = {f"kind_{index}": kind_of(sf.col(f"raw_{index}")) for index in range(len(names))}
        if names:
            self._rows = self._rows.withColumns(values).withColumns(kinds)
        for index, name in enumerate(names):
            self._raws[name] = Raw(sf.col(f"raw_{index}"), sf.col(f"kind_{index}"))

    def _preprocess(self, name: str, entry: Preproc) -> None:
        match entry:
            case ColumnRef(column=column):
                self._raws[name] = self._raws[column]
                self._made[name] = None
            case Constant(value=value):
                of = self._schema.columns[name]
                self._made[name] = Typed(column=literal(value, of), type=base_type(of))
            case Computed(expression=expression, schema=schema):
                inputs = self._typed(schema)
                types = {column.name: column.type for column in schema}
                scope = Scope(types=types, columns=inputs, now=sf.col(NOW))
                made = self._stage(render(expression, scope))
                self._made[name] = Typed(column=made, type=infer(expression, types))

    def _where(self) -> SparkColumn:
        where = self._source.where
        if where is None:
            return sf.lit(False)
        inputs = self._typed(where.schema)
        types = {column.name: column.type for column in where.schema}
        scope = Scope(types=types, columns=inputs, now=sf.col(NOW))
        seen = self._any_refused()
        wanted = sf.coalesce(render(where.expression, scope), sf.lit(False))
        # A row that `where` leaves out is not asked whether its other fields are right.
        return self._stage(~seen & ~wanted)

    def _typed(self, wanted: tuple[Column, ...]) -> dict[str, SparkColumn]:
        """Give the cells of columns; what is refused is noted, once for a column and type."""
        fresh: dict[str, Column] = {}
        for column in wanted:
            place = (column.name, column.type)
            if place not in self._cells:
                name = f"cell_{len(self._cells)}"
                fresh[name] = column
                self._cells[place] = sf.col(name)
        if fresh:
            cells = {name: self._cell(column) for name, column in fresh.items()}
            self._rows = self._rows.withColumns(cells)
            refused = {f"no_{name}": self._refused(name, one) for name, one in fresh.items()}
            self._rows = self._rows.withColumns(refused)
            self._refusals += [self._problem(name, one) for name, one in fresh.items()]
        return {column.name: self._cells[column.name, column.type] for column in wanted}

    def _cell(self, column: Column) -> SparkColumn:
        made = self._made.get(column.name)
        if made is None:
            return coerce(self._raws[column.name], column.type)
        wanted = base_type(column.type)
        if not promotable(made.type, optional(wanted)):
            return coerce(raw_value(made.column.cast("variant")), column.type)
        return held(kept(convert(made.column, made.type, wanted), wanted), column.type)

    def _refused(self, name: str, column: Column) -> SparkColumn:
        made, cell = self._made.get(column.name), sf.col(name)
        if made is None:
            return is_refused(self._raws[column.name], cell, column.type)
        if isinstance(column.type, Optional):
            return cell.isNull() & made.column.isNotNull()
        return cell.isNull()

    def _problem(self, name: str, column: Column) -> SparkColumn:
        found = sf.lit("no value")
        if self._made.get(column.name) is None:
            shown = sf.to_json(self._raws[column.name].value)
            found = sf.coalesce(sf.substring(shown, 1, _SHOWN), sf.lit("null"))
        reason = sf.concat(
            sf.lit("found "), found, sf.lit(f"; the column is `{type_name(column.type)}`")
        )
        problem = sf.struct(sf.lit(column.name).alias("field"), reason.alias("reason"))
        return sf.when(sf.col(f"no_{name}"), problem)

    def _any_refused(self) -> SparkColumn:
        refused = sf.lit(False)
        for place in range(len(self._cells)):
            refused = refused | sf.col(f"no_cell_{place}")
        return refused

    def _reasons(self) -> SparkColumn:
        if not self._refusals:
            return sf.array().cast("array<struct<field:string,reason:string>>")
        return sf.array_compact(sf.array(*self._refusals))

    def _wanted(self, instant: SparkColumn) -> SparkColumn:
        wanted = sf.lit(True)
        if self._source.since_us is not None:
            wanted = wanted & (instant >= self._source.since_us)
        if self._source.until_us is not None:
            wanted = wanted & (instant < self._source.until_us)
        return wanted

    def _stage(self, value: SparkColumn) -> SparkColumn:
        name = f"made_{self._number}"
        self._number += 1
        self._rows = self._rows.withColumn(name, value)
        return sf.col(name)
