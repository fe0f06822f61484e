"""Online reads: `/query` and lookups by key, answered without the control plane.

`calls` are the bodies of requests; `sessions` read the indexes of one request; `compiled_queries`
prepares a query once for a snapshot; `answers` answers a call; `handler` is the ASGI application;
`follower` refreshes what the handler knows, in the background; `routes` documents the API.
"""
