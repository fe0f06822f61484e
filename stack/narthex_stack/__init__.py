"""stack: one room of the house."""
