"""The objects that all requests of a server process share.

`container` holds one of each. The others are its parts: snapshots of branches, the store of
idempotency keys, the log of queries, and the meters.
"""
