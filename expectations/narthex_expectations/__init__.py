"""expectations: one room of the house."""
