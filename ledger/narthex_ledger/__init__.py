"""ledger: one room of the house."""
