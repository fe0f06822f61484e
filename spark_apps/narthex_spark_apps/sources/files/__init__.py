"""Sources that are files: CSV, JSON, Parquet, and the change feed of a Delta table."""
