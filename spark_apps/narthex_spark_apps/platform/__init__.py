"""Shared infrastructure of the Spark apps: the Spark session, the JVM, Kafka and secrets.

`session` opens the Spark session, `jvm` chooses the options of its JVM, and `class_archive` makes
the archive that shortens its start. `kafka_io` turns topics into streams and rows into records;
`log_consumer` reads many dataset logs with one consumer. `author_secrets` and `author_brokers`
resolve what definitions name; `optional_clients` loads client libraries that may be absent.
"""
