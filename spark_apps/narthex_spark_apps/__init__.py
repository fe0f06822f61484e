"""spark_apps: one room of the house."""

from narthex_spark_apps.jvm import archive_of

__all__ = ["archive_of"]
