"""plugins: one room of the house."""
