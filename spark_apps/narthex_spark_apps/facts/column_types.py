"""The Spark column type for each data type.

Instants are long microseconds and dates int days, so that no time zone and no calendar of Spark
ever changes them; decimals have 28 digits; a restricted type is stored as its base type.
"""

from pyspark.sql import types as spark

from narthex._ir import DECIMAL_DIGITS, DataType, Members, Struct, TypeMapper


def spark_type(of: DataType) -> spark.DataType:
    """Return the Spark type of a column of a data type."""
    return _TYPES(of)


def _struct_type(_: Struct, members: Members[spark.DataType]) -> spark.DataType:
    return spark.StructType([spark.StructField(name, of) for name, of in members.items()])


_TYPES: TypeMapper[spark.DataType] = TypeMapper(
    int=spark.LongType(),
    float=spark.DoubleType(),
    bool=spark.BooleanType(),
    str=spark.StringType(),
    bytes=spark.BinaryType(),
    datetime=spark.LongType(),
    date=spark.IntegerType(),
    decimal=lambda dtype: spark.DecimalType(DECIMAL_DIGITS, dtype.scale),
    list=lambda _, item: spark.ArrayType(item),
    map=lambda _, value: spark.MapType(spark.StringType(), value),
    embedding=lambda _, number: spark.ArrayType(number),
    struct=_struct_type,
    null=spark.NullType,
)
