"""Offline queries: many keys, each as of its own instant, answered by a Spark batch.

`queries` plans and runs a query; `historical_lookup` rebuilds the state of a bucket of keys from a
history and answers lookups from it.
"""
