"""Kafka: topics, producers and consumers of logs, and end offsets."""
