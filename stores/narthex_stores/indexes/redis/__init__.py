"""The index on servers of the Redis protocol, single or a cluster: `index` is the API.

`addresses` and `servers` are the connection; `scripts` run on the servers, and `members` is the
format of keys and entries. `header` has the offsets, the epoch and the marks of an index; `adapter`
creates and removes them. `reading` answers lookups; `batches` applies facts: `planning` chooses the
entries to read, `row_positions` follows rows that change their groups, and `staged_tables` holds
the entries that were read, for the code in `ordered_tables`. `entries` reads all entries, for
audits.
"""
