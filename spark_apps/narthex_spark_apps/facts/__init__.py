"""Facts as Spark columns: their types, their record format and their identities."""
