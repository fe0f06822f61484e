"""Adapters create, find and destroy the physical thing behind each kind of asset.

`protocol` is the contract, `memory` its in-memory twin, and `directories` the one for directories.
"""
