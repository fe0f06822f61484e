"""Sources that are tables of a database, read by a cursor column.

`source` polls one table. `reader` is the protocol of a database client, `clients` chooses the
client, and each database has a module with its name.
"""
