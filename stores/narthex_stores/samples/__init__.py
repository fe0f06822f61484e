"""Samples of histories: which keys they have, and the values of keys as of an instant.

`pinned_history` reads the keys and the states of a history up to fixed offsets; `values` answers
lookups of such states.
"""
