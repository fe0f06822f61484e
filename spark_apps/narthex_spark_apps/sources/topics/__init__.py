"""Sources that are Kafka topics: decoding of JSON, Avro and Protobuf records."""
