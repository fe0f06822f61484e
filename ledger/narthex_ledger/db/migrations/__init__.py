"""The migrations of the ledger's schema; `migrate` applies those that are missing."""
