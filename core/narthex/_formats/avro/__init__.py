"""Facts as Avro: the codec of the log. A separate package because it loads `fastavro`."""

from narthex._formats.avro.codec import (
    FactCodec,
    avro_schema,
    fact_codec,
    instant_in,
    key_bytes,
    key_encoder,
    key_of,
    keyed_row_id,
    length_bytes,
)

__all__ = [
    "FactCodec",
    "avro_schema",
    "fact_codec",
    "instant_in",
    "key_bytes",
    "key_encoder",
    "key_of",
    "keyed_row_id",
    "length_bytes",
]
