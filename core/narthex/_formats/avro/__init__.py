"""Facts as Avro: the codec of the log. A separate package, as the platform alone has `fastavro`."""

from narthex._formats.avro.codec import (
    FactCodec,
    avro_schema,
    fact_codec,
    length_bytes,
)

__all__ = [
    "FactCodec",
    "avro_schema",
    "fact_codec",
    "length_bytes",
]
