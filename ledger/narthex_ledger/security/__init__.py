"""Tokens, the chained control log, and sealed secrets; `token_api` has their parts."""
