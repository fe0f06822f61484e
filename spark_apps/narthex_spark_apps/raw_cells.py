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
from narthex_spark_apps.raw_texts import (
    ISO_TEXT,
    day_of_text,
    epoch_of_fraction,
    epoch_of_long,
    epoch_of_whole,
    instant_of_iso,
    instant_of_mail,
)

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
        kind: What it is: see `kind_of`.
    """

    value: SparkColumn
    kind: SparkColumn

    @property
    def is_null(self) -> SparkColumn:
        """Whether there is no value; NaN is none."""
        return self.kind == "NULL"

    @property
    def is_text(self) -> SparkColumn:
        """Whether it is text."""
        return self.kind == "STRING"

    @property
    def is_whole(self) -> SparkColumn:
        """Whether it is a number without a point, however big."""
        return self.kind.isin("BIGINT", "WHOLE")

    @property
    def is_fraction(self) -> SparkColumn:
        """Whether it is a number that is not whole by its looks."""
        return self.kind == "FRACTION"

    @property
    def is_number(self) -> SparkColumn:
        """Whether it is any number."""
        return self.kind.isin("BIGINT", "WHOLE", "FRACTION")

    def as_type(self, name: str) -> SparkColumn:
        """Give it as a Spark type; null where Spark cannot."""
        return sf.try_variant_get(self.value, "$", name)

    def member(self, name: str) -> "Raw":
        """Give the member of an object; null where there is none."""
        return raw_value(sf.try_variant_get(self.value, path_of(name), "variant"))


def raw_value(value: SparkColumn) -> Raw:
    """Take a variant as a raw value."""
    return Raw(value, kind_of(value))


def kind_of(value: SparkColumn) -> SparkColumn:
    """Say what a variant is.

    NULL; STRING; BOOLEAN; BIGINT, WHOLE (without a point, maybe beyond 64 bits), FRACTION; BINARY,
    DATE, TIMESTAMP…; ARRAY…, OBJECT….
    """
    named = sf.coalesce(sf.schema_of_variant(value), sf.lit("VOID"))
    decimal = sf.when(named.endswith(",0)"), "WHOLE").otherwise("FRACTION")
    nan = sf.isnan(sf.try_variant_get(value, "$", "double"))
    double = sf.when(nan, "NULL").otherwise("FRACTION")
    return (
        sf.when(named == "VOID", "NULL")
        .when(named.startswith("DECIMAL"), decimal)
        .when(named.isin("DOUBLE", "FLOAT"), double)
        .otherwise(named)
    )


def path_of(name: str) -> str:
    """Give the path of a member of that name."""
    quote = "'" if '"' in name else '"'
    return f"$[{quote}{name}{quote}]"


def coerce(raw: Raw, of: DataType) -> SparkColumn:
    """Give a raw value as a cell of a type; null where it is none, or null."""
    inner_type = of.of if isinstance(of, Optional) else of
    return held(_COERCIONS[type(unrestricted(inner_type))](raw, unrestricted(inner_type)), of)


def is_refused(raw: Raw, cell: SparkColumn, of: DataType) -> SparkColumn:
    """Whether a raw value, which `coerce` made a cell of, cannot be one."""
    if isinstance(of, Optional):
        return cell.isNull() & ~raw.is_null
    return cell.isNull()


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
    double = sf.when(raw.is_fraction, raw.as_type("double"))
    fits = (double == sf.rint(double)) & (double >= -_TWO_63) & (double < _TWO_63)
    return (
        sf.when(raw.kind == "BIGINT", raw.as_type("bigint"))
        .when(fits, double.cast("long"))
        .otherwise(_inside(_big(raw)))
    )


def _big(raw: Raw) -> SparkColumn:
    """Give what is written without a point, or as such text, as a wide decimal."""
    digits = sf.regexp_extract(raw.as_type("string"), INT_TEXT, 1)
    return sf.when(raw.is_whole, raw.as_type("decimal(38,0)")).when(
        raw.is_text & (digits != ""), digits.cast("decimal(38,0)")
    )


def _inside(number: SparkColumn) -> SparkColumn:
    return sf.when(number.between(-(2**63), 2**63 - 1), number.cast("long"))


def _float(raw: Raw, _: DataType) -> SparkColumn:
    text = raw.as_type("string")
    parsed = sf.trim(text).cast("double")
    number = sf.when(raw.is_number, raw.as_type("double")).when(
        raw.is_text & text.rlike(FLOAT_TEXT), parsed
    )
    return sf.nullif(number, sf.lit(float("nan")))


def _bool(raw: Raw, _: DataType) -> SparkColumn:
    text = sf.lower(sf.trim(raw.as_type("string")))
    number = sf.when(raw.is_number, raw.as_type("double"))
    is_text = raw.is_text
    return (
        sf.when(raw.kind == "BOOLEAN", raw.as_type("boolean"))
        .when((number == 1) | (is_text & text.isin("true", "1")), sf.lit(True))
        .when((number == 0) | (is_text & text.isin("false", "0")), sf.lit(False))
    )


def _str(raw: Raw, _: DataType) -> SparkColumn:
    return sf.when(raw.is_text, raw.as_type("string"))


def _bytes(raw: Raw, _: DataType) -> SparkColumn:
    text = raw.as_type("string")
    return sf.when(raw.kind == "BINARY", raw.as_type("binary")).when(
        raw.is_text & text.rlike(_BASE64), sf.unbase64(text)
    )


def _datetime(raw: Raw, _: DataType) -> SparkColumn:
    text = sf.trim(raw.as_type("string"))
    fraction = sf.when(raw.is_fraction, raw.as_type("double")).when(
        raw.is_text & text.rlike(FLOAT_TEXT), text.cast("double")
    )
    # The forms that sources write come first: what follows asks the same number many times.
    return (
        sf.when(raw.is_text & text.rlike(ISO_TEXT), instant_of_iso(text))
        .when(raw.kind == "BIGINT", epoch_of_long(raw.as_type("bigint")))
        .when(raw.kind.startswith("TIMESTAMP"), sf.unix_micros(raw.as_type("timestamp")))
        .when(raw.kind == "DATE", sf.unix_micros(raw.as_type("timestamp")))
        .otherwise(
            sf.coalesce(
                epoch_of_whole(_big(raw)),
                epoch_of_fraction(fraction),
                sf.when(raw.is_text, instant_of_mail(text)),
            )
        )
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
    cells = _all_or_none(sf.transform(members, lambda member: _pair(member, item)))
    if isinstance(of, Embedding):
        cells = sf.when(sf.array_size(members) == of.size, cells)
    return sf.when(raw.kind.startswith("ARRAY"), cells)


def _map(raw: Raw, of: DataType) -> SparkColumn:
    item = of.of if isinstance(of, Map) else of
    members = raw.as_type("map<string,variant>")
    coerced = sf.transform_values(members, lambda _, member: _pair(member, item))
    refused = sf.exists(sf.map_values(coerced), lambda pair: pair["refused"])
    cells = sf.transform_values(coerced, lambda _, pair: pair["cell"])
    return sf.when(raw.kind.startswith("OBJECT") & ~refused, cells)


def _struct(raw: Raw, of: DataType) -> SparkColumn:
    fields = of.fields if isinstance(of, Struct) else ()
    refused = sf.lit(False)
    cells: list[SparkColumn] = []
    for field in fields:
        member = raw.member(field.name)
        cell = coerce(member, field.type)
        refused = refused | is_refused(member, cell, field.type)
        cells.append(cell.alias(field.name))
    return sf.when(raw.kind.startswith("OBJECT") & ~refused, sf.struct(*cells))


def _pair(member: SparkColumn, of: DataType) -> SparkColumn:
    raw = raw_value(member)
    cell = coerce(raw, of)
    return sf.struct(cell.alias("cell"), is_refused(raw, cell, of).alias("refused"))


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
