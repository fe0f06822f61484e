"""spark_apps: one room of the house."""
