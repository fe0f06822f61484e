"""server: one room of the house."""
