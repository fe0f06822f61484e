"""Histories: append-only Delta tables of every fact state that a log contained.

`table` is one table; each of its commits also stores the Kafka offsets that the table contains.
"""
