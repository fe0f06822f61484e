"""Branches: created, cloned, deleted, restored and rolled back.

`api` has `ledger.branches`.
"""
