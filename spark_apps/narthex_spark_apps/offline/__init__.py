"""Offline queries: many keys, each as of its own instant.

`queries` answers a query whose offsets `pins` has fixed. `columnar_lookups` looks datasets up with
`asof_kernel`; for those that it refuses, `lookup_jobs` has Spark jobs in which `historical_lookup`
rebuilds the state of a bucket of keys from a history and answers lookups from it.
"""
