"""stores: one room of the house."""
