"""Connectors: where rows enter, and what is done to them on the way."""

from narthex.declare.connections import CSV, S3, Files, Kafka, Secret, Webhook
from narthex.declare.sources import eval, ref, source  # noqa: A004 (Fennel's name)

__all__ = ["CSV", "S3", "Files", "Kafka", "Secret", "Webhook", "eval", "ref", "source"]
