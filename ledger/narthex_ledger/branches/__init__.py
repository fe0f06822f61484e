"""Branches: created, cloned, deleted, restored and rolled back.

`branch_api` has `ledger.branches`.
"""
