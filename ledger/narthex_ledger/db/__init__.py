"""The database of the ledger: its tables, its statements, its transactions and its migrations.

Only the modules of this package use the tables in `schema`; `mapper` turns results into values.
"""
