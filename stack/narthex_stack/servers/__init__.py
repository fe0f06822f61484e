"""Servers of other projects, PostgreSQL and Kafka: as services, or in a `with` block."""
