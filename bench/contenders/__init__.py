"""The compared engines, each in its own process."""
