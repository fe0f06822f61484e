"""Adapters: how the platform creates, finds and destroys a physical thing of each kind of asset.

`protocol` is the contract, `memory` its in-memory twin, and `directories` the one for directories.
"""
