"""Branches: created, cloned, deleted, restored and rolled back.

`api` is its part of the ledger's API.
"""
