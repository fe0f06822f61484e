"""The Spark column type for each data type.

Instants are long microseconds and dates int days, so that no time zone and no calendar of Spark
ever changes them; decimals have 28 digits; a restricted type is stored as its base type.
"""

from pyspark.sql import types as spark

from narthex._ir import (
    DECIMAL_DIGITS,
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
    Null,
    Optional,
    Str,
    Struct,
    unrestricted,
)

_SCALARS: dict[type, spark.DataType] = {
    Int: spark.LongType(),
    Datetime: spark.LongType(),
    Float: spark.DoubleType(),
    Bool: spark.BooleanType(),
    Str: spark.StringType(),
    Bytes: spark.BinaryType(),
    Date: spark.IntegerType(),
    Null: spark.NullType(),
}


def spark_type(of: DataType) -> spark.DataType:
    """Return the Spark type of a column of a data type."""
    plain = unrestricted(of)
    match plain:
        case Optional(of=inner):
            return spark_type(inner)
        case Decimal(scale=scale):
            return spark.DecimalType(DECIMAL_DIGITS, scale)
        case List(of=item):
            return spark.ArrayType(spark_type(item))
        case Embedding():
            return spark.ArrayType(spark.DoubleType())
        case Map(of=item):
            return spark.MapType(spark.StringType(), spark_type(item))
        case Struct(fields=fields):
            return spark.StructType(
                [spark.StructField(field.name, spark_type(field.type)) for field in fields]
            )
        case _:
            return _SCALARS[type(plain)]


def spark_schema(columns: dict[str, DataType]) -> spark.StructType:
    """Return the Spark schema of named columns, all nullable."""
    return spark.StructType(
        [spark.StructField(name, spark_type(of)) for name, of in columns.items()]
    )


def is_scalar(of: DataType) -> bool:
    """Whether a cell of the type is one value, without members."""
    plain = unrestricted(of)
    if isinstance(plain, Optional):
        return is_scalar(plain.of)
    return isinstance(plain, Decimal) or type(plain) in _SCALARS
