"""Tokens, the chained audit log, and sealed secrets; `api` has their parts of the ledger."""
