"""The ledger's schema, step by step; `migrate` takes a database to the newest."""
