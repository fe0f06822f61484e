"""The type check where rows enter, as Spark columns: `narthex.coerce` is the truth.

A raw value is a variant. A coercion gives the cell, or null where the value is refused; whether a
null means "refused" or "null, and may be" is told by the raw value.
"""

from collections.abc import Callable, Mapping

import attrs
from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as sf

from narthex.types import (
    Between,
    Bool,
    Bytes,
    DataType,
    Date,
    Datetime,
    Decimal,
    Embedding,
    Float,
    Int,
    List,
    Map,
    OneOf,
    Optional,
    Regex,
    Str,
    Struct,
    unrestricted,
)
from narthex_spark_apps.raw_texts import day_of_text, epoch_instant, instant_of_text

INT_TEXT = r"\A\s*([+-]?[0-9]+)(\.0*)?\s*\z"
FLOAT_TEXT = r"(?i)\A\s*[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|inf|infinity|nan)\s*\z"
_BASE64 = r"\A(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?\z"
_TWO_63 = float(2**63)
_DECIMAL_DIGITS = 28
_WIDE_DIGITS = 38


@attrs.frozen
class Raw:
    """A raw value: a variant, with what can be asked of it.

    Attributes:
        kind: What it is, as Spark names it: STRING, BIGINT, DECIMAL(3,1), OBJECT<…>.
    """

    value: SparkColumn
    kind: SparkColumn

    @property
    def is_null(self) -> SparkColumn:
        """Whether there is no value; NaN is none."""
        absent = self.kind.isNull() | (self.kind == "VOID")
        nan = (self.kind == "DOUBLE") & sf.isnan(self.as_type("double"))
        return absent | nan

    @property
    def is_text(self) -> SparkColumn:
        """Whether it is text."""
        return self.kind == "STRING"

    @property
    def is_whole(self) -> SparkColumn:
        """Whether it is a number without a point, however big."""
        return (self.kind == "BIGINT") | self.kind.rlike(r"^DECIMAL\([0-9]+,0\)$")

    @property
    def is_fraction(self) -> SparkColumn:
        """Whether it is a number that is not whole by its looks."""
        return self.kind.isin("DOUBLE", "FLOAT") | self.kind.rlike(r"^DECIMAL\([0-9]+,[1-9]")

    def as_type(self, name: str) -> SparkColumn:
        """Give it as a Spark type; null where Spark cannot."""
        return sf.try_variant_get(self.value, "$", name)

    def member(self, name: str) -> "Raw":
        """Give the member of an object; null where there is none."""
        return raw_value(sf.try_variant_get(self.value, path_of(name), "variant"))


def raw_value(value: SparkColumn) -> Raw:
    """Take a variant as a raw value."""
    return Raw(value, sf.schema_of_variant(value))


def path_of(name: str) -> str:
    """Give the path of a member of that name."""
    quote = "'" if '"' in name else '"'
    return f"$[{quote}{name}{quote}]"


@attrs.frozen
class Coerced:
    """A cell, and whether the raw value was refused."""

    cell: SparkColumn
    refused: SparkColumn


def coerce(raw: Raw, of: DataType) -> Coerced:
    """Give a raw value as a cell of a type, and whether it cannot be one."""
    inner_type = of.of if isinstance(of, Optional) else of
    cell = held(
        _COERCIONS[type(unrestricted(inner_type))](raw, unrestricted(inner_type)), inner_type
    )
    cell = sf.when(~raw.is_null, cell)
    refused = cell.isNull()
    if isinstance(of, Optional):
        refused = refused & ~raw.is_null
    return Coerced(cell, refused)


def held(cell: SparkColumn, of: DataType) -> SparkColumn:
    """Give a cell of a restricted type; null where the restriction does not hold."""
    of = of.of if isinstance(of, Optional) else of
    match of:
        case Between():
            above = cell > of.min if of.strict_min else cell >= of.min
            below = cell < of.max if of.strict_max else cell <= of.max
            return sf.when(above & below, cell)
        case OneOf(options=options):
            return sf.when(cell.isin(list(options)), cell)
        case Regex(pattern=pattern):
            return sf.when(cell.rlike(java_pattern(pattern)), cell)
        case _:
            return cell


def java_pattern(pattern: str) -> str:
    """Give the Java pattern that matches a text as Python's does as a whole."""
    translated = pattern.replace("(?P<", "(?<").replace(r"\Z", r"\z")
    return rf"(?U)\A(?:{translated})\z"


def _int(raw: Raw, _: DataType) -> SparkColumn:
    double, exact = raw.as_type("double"), raw.as_type("decimal(38,0)")
    fits = (double == sf.rint(double)) & (double >= -_TWO_63) & (double < _TWO_63)
    text = raw.as_type("string")
    digits = sf.regexp_extract(text, INT_TEXT, 1).cast("decimal(38,0)")
    return (
        sf.when(raw.kind == "BIGINT", raw.as_type("bigint"))
        .when(raw.is_whole & _inside(exact), exact.cast("long"))
        .when(raw.is_fraction & fits, double.cast("long"))
        .when(raw.is_text & text.rlike(INT_TEXT) & _inside(digits), digits.cast("long"))
    )


def _inside(number: SparkColumn) -> SparkColumn:
    return number.between(-(2**63), 2**63 - 1)


def _float(raw: Raw, _: DataType) -> SparkColumn:
    text = raw.as_type("string")
    parsed = sf.trim(text).cast("double")
    number = sf.when(raw.is_whole | raw.is_fraction, raw.as_type("double")).when(
        raw.is_text & text.rlike(FLOAT_TEXT), parsed
    )
    return sf.when(~sf.isnan(number), number)


def _bool(raw: Raw, _: DataType) -> SparkColumn:
    text = sf.lower(sf.trim(raw.as_type("string")))
    double = raw.as_type("double")
    number = raw.is_whole | raw.is_fraction
    return (
        sf.when(raw.kind == "BOOLEAN", raw.as_type("boolean"))
        .when((number & (double == 1)) | (raw.is_text & text.isin("true", "1")), sf.lit(True))
        .when((number & (double == 0)) | (raw.is_text & text.isin("false", "0")), sf.lit(False))
    )


def _str(raw: Raw, _: DataType) -> SparkColumn:
    return sf.when(raw.is_text, raw.as_type("string"))


def _bytes(raw: Raw, _: DataType) -> SparkColumn:
    text = raw.as_type("string")
    return sf.when(raw.kind == "BINARY", raw.as_type("binary")).when(
        raw.is_text & text.rlike(_BASE64), sf.unbase64(text)
    )


def _datetime(raw: Raw, _: DataType) -> SparkColumn:
    text = raw.as_type("string")
    whole = sf.regexp_extract(text, INT_TEXT, 1).cast("decimal(38,0)")
    instant = sf.unix_micros(raw.as_type("timestamp"))
    is_instant = raw.kind.startswith("TIMESTAMP") | (raw.kind == "DATE")
    return (
        sf.when(raw.is_whole, epoch_instant(raw.as_type("decimal(38,0)")))
        .when(raw.is_fraction, epoch_instant(raw.as_type("double")))
        .when(raw.is_text & text.rlike(INT_TEXT), epoch_instant(whole))
        .when(raw.is_text & text.rlike(FLOAT_TEXT), epoch_instant(sf.trim(text).cast("double")))
        .when(raw.is_text, instant_of_text(sf.trim(text)))
        .when(is_instant, instant)
    )


def _date(raw: Raw, _: DataType) -> SparkColumn:
    return (
        sf.when(raw.kind == "BIGINT", raw.as_type("int"))
        .when(raw.is_text, day_of_text(sf.trim(raw.as_type("string"))))
        .when(raw.kind == "DATE", sf.unix_date(raw.as_type("date")))
    )


def _decimal(raw: Raw, of: DataType) -> SparkColumn:
    scale = of.scale if isinstance(of, Decimal) else 0
    # A fraction is taken by the shortest text of the double, as Python takes it.
    text = (
        sf.when(raw.is_whole, raw.as_type("decimal(38,0)").cast("string"))
        .when(raw.is_fraction, raw.as_type("double").cast("string"))
        .when(raw.is_text, sf.trim(raw.as_type("string")))
    )
    more = min(_WIDE_DIGITS - _DECIMAL_DIGITS + scale, _WIDE_DIGITS)
    wide = text.cast(f"decimal({_WIDE_DIGITS},{more})")
    cell = wide.cast(f"decimal({_DECIMAL_DIGITS},{scale})")
    cut = text.rlike(rf"\A[+-]?[0-9]*\.[0-9]{{{scale}}}[0-9]*[1-9][0-9]*\z")
    return sf.when(text.rlike(FLOAT_TEXT) & (cell == wide) & ~cut, cell)


def _items(raw: Raw, of: DataType) -> SparkColumn:
    item = of.of if isinstance(of, List) else Float()
    members = raw.as_type("array<variant>")
    cells = _all_or_none(
        sf.transform(members, lambda member: _pair(coerce(raw_value(member), item)))
    )
    if isinstance(of, Embedding):
        cells = sf.when(sf.array_size(members) == of.size, cells)
    return sf.when(raw.kind.startswith("ARRAY"), cells)


def _map(raw: Raw, of: DataType) -> SparkColumn:
    item = of.of if isinstance(of, Map) else of
    members = raw.as_type("map<string,variant>")
    coerced = sf.transform_values(members, lambda _, member: _pair(coerce(raw_value(member), item)))
    refused = sf.exists(sf.map_values(coerced), lambda pair: pair["refused"])
    cells = sf.transform_values(coerced, lambda _, pair: pair["cell"])
    return sf.when(raw.kind.startswith("OBJECT") & ~refused, cells)


def _struct(raw: Raw, of: DataType) -> SparkColumn:
    fields = of.fields if isinstance(of, Struct) else ()
    members = {field.name: coerce(raw.member(field.name), field.type) for field in fields}
    refused = sf.lit(False)
    for member in members.values():
        refused = refused | member.refused
    cells = sf.struct(*(member.cell.alias(name) for name, member in members.items()))
    return sf.when(raw.kind.startswith("OBJECT") & ~refused, cells)


def _pair(coerced: Coerced) -> SparkColumn:
    return sf.struct(coerced.cell.alias("cell"), coerced.refused.alias("refused"))


def _all_or_none(pairs: SparkColumn) -> SparkColumn:
    refused = sf.exists(pairs, lambda pair: pair["refused"])
    return sf.when(~refused, sf.transform(pairs, lambda pair: pair["cell"]))


_COERCIONS: Mapping[type, Callable[[Raw, DataType], SparkColumn]] = {
    Int: _int,
    Float: _float,
    Bool: _bool,
    Str: _str,
    Bytes: _bytes,
    Datetime: _datetime,
    Date: _date,
    Decimal: _decimal,
    List: _items,
    Embedding: _items,
    Map: _map,
    Struct: _struct,
}
