"""Tokens, the chained audit log, and sealed secrets; `api` is its part of the ledger's API."""
